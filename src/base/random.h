#pragma once

#include <cstdint>

namespace monkeytree {

/// Numbers that look random and are the same on every machine for one seed, unlike those of the
/// standard library's distributions (SplitMix64: Steele, Lea and Flood, OOPSLA 2014).
class RandomSequence {
 public:
  explicit RandomSequence(uint64_t seed) : state_(seed) {}

  uint64_t next() {
    state_ += 0x9e3779b97f4a7c15;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }

  /// Each of 0 … n − 1 equally often. n > 0.
  uint64_t below(uint64_t n) {
    // What is left over after the last whole round of n would favour the low numbers.
    const uint64_t leftover = -n % n;
    while (true) {
      const uint64_t x = next();
      if (x >= leftover) return x % n;
    }
  }

  /// Exponentially distributed with mean 1, by comparisons alone, so that no library's logarithm
  /// matters (von Neumann 1951): of numbers drawn until one is not below the one before it, the
  /// first is kept where their count is odd; a failure adds 1.
  double exponential() {
    for (int whole = 0;; ++whole) {
      const uint64_t first = next();
      uint64_t last = first;
      int run = 1;
      for (uint64_t x = next(); x < last; x = next()) {
        last = x;
        ++run;
      }
      if (run % 2 == 1) return whole + static_cast<double>(first >> 11) * 0x1p-53;
    }
  }

 private:
  uint64_t state_;
};

}  // namespace monkeytree
