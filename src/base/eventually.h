#pragma once

#include <chrono>
#include <functional>
#include <thread>

namespace monkeytree {

/// For tests of what happens by itself: asks again until it holds; false once patience has ended.
inline bool eventually(const std::function<bool()>& holds,
                       std::chrono::milliseconds patience = std::chrono::minutes(3)) {
  const auto end = std::chrono::steady_clock::now() + patience;
  while (!holds()) {
    if (std::chrono::steady_clock::now() >= end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return true;
}

}  // namespace monkeytree
