#pragma once

#include <fmt/format.h>

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "inventory/scheduler.h"

/// What the parts of Controller share; nobody else's.
namespace monkeytree {

/// Under which the journal keeps that a person has paused all moves.
inline constexpr std::string_view kKillSwitch = "paused";
/// And that a person has cancelled a running plan, until it has ended.
inline std::string cancelled_key(int64_t plan) { return fmt::format("cancelled {}", plan); }

inline Deadline in_seconds(double seconds) {
  return std::chrono::steady_clock::now() +
         std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000));
}

inline double milliseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

inline std::string joined(const std::vector<std::string>& parts) {
  return fmt::format("{}", fmt::join(parts, "; "));
}

}  // namespace monkeytree
