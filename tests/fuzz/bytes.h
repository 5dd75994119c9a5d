#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>

/// What fuzzers that draw their input from bytes share.
namespace monkeytree {

/// Ends the run as a finding.
inline void require(bool holds) {
  if (!holds) std::abort();
}

/// Small numbers from the fuzzer's bytes, one byte each; zeros once they are used up.
class Bytes {
 public:
  Bytes(const uint8_t* data, size_t size) : data_(data), size_(size) {}
  bool empty() const { return at_ >= size_; }
  /// 0 … n − 1, for n up to 256.
  int below(int n) { return empty() ? 0 : data_[at_++] % n; }

 private:
  const uint8_t* data_;
  size_t size_;
  size_t at_ = 0;
};

}  // namespace monkeytree
