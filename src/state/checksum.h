#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "state/checksum_kernels.h"

/// A fast 64-bit checksum for state on the move: finds what goes wrong by itself, not what an
/// adversary forges (TLS is for that). Every step is a bijection of the bytes it takes in, so a
/// change within one aligned 8-byte word is always found, any other with probability 1 − 2⁻⁶⁴.
/// Little-endian words; the same value on every machine.
namespace monkeytree {

/// Bytes of one chunk: what is checked, sent and resumed as a whole.
inline constexpr uint64_t kChunkBytes = uint64_t{1} << 20;

uint64_t checksum(std::span<const std::byte> bytes);

/// The same checksum of bytes that come in pieces.
class Checksum {
 public:
  Checksum();
  explicit Checksum(const ChecksumKernel& kernel);
  /// All pieces but the last are whole multiples of kChecksumBlock bytes.
  void add(std::span<const std::byte> piece);
  /// add(), and copies the piece; the ranges do not overlap.
  void copy(std::byte* target, std::span<const std::byte> piece);
  uint64_t value() const;

 private:
  const ChecksumKernel* kernel_;
  ChecksumLanes lanes_;
  uint64_t bytes_ = 0;
};

/// Copies and returns the checksum of what was read, in one pass. The ranges do not overlap.
uint64_t copy_with_checksum(std::byte* target, std::span<const std::byte> source);

/// The checksum of a buffer from those of its chunks, in order.
uint64_t combine_checksums(std::span<const uint64_t> chunks);

/// combine_checksums over the buffer's chunks of kChunkBytes.
uint64_t buffer_checksum(std::span<const std::byte> bytes);

}  // namespace monkeytree
