#pragma once

#include <algorithm>
#include <chrono>
#include <mutex>
#include <optional>

namespace monkeytree {

/// Lets so many things through in a while, and no more. Thread-safe.
class Gate {
 public:
  Gate(double per_s, double burst) : per_s_(per_s), burst_(burst), room_(burst) {}

  bool pass(std::chrono::steady_clock::time_point now) {
    const std::lock_guard lock(mutex_);
    if (last_) {
      const double passed_s = std::chrono::duration<double>(now - *last_).count();
      room_ = std::min(burst_, room_ + per_s_ * passed_s);
    }
    last_ = now;
    if (room_ < 1) return false;
    room_ -= 1;
    return true;
  }

 private:
  const double per_s_, burst_;
  std::mutex mutex_;
  double room_;
  std::optional<std::chrono::steady_clock::time_point> last_;
};

}  // namespace monkeytree
