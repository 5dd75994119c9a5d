#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

/// The inner loop of checksum.h, written for several kinds of processors. All give the same values.
namespace monkeytree {

/// Lane i takes in word i of each block. Many, so that a lane's next step need not wait for the
/// last.
inline constexpr size_t kChecksumLanes = 32;
inline constexpr size_t kChecksumBlock = kChecksumLanes * sizeof(uint64_t);
using ChecksumLanes = std::array<uint64_t, kChecksumLanes>;

/// One step of a lane; a bijection of the lane for each word, and of the word for each lane. The
/// constant has 32 bits because processors multiply those fast; the shift brings the upper half to
/// where the product spreads it.
inline uint64_t checksum_step(uint64_t lane, uint64_t word) {
  const uint64_t z = lane ^ word;
  return (z ^ (z >> 32)) * 0x9e3779b1;
}

/// A way to run whole blocks through the lanes.
struct ChecksumKernel {
  std::string_view name;
  void (*sum)(ChecksumLanes& lanes, const std::byte* from, size_t blocks);
  /// The same, and copies; `target` and `from` do not overlap.
  void (*copy)(ChecksumLanes& lanes, std::byte* target, const std::byte* from, size_t blocks);
};

/// Those that this processor can run, the fastest first; the last is portable.
std::span<const ChecksumKernel> checksum_kernels();

}  // namespace monkeytree
