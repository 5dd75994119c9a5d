#include "state/checksum.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

namespace monkeytree {

static_assert(std::endian::native == std::endian::little, "checksums are of little-endian words");

namespace {

constexpr uint64_t kOdd = 0x9e3779b97f4a7c15;

constexpr uint64_t mix(uint64_t z) {
  z = (z ^ (z >> 32)) * 0xd6e8feb86659fd93;
  z = (z ^ (z >> 29)) * 0xbf58476d1ce4e5b9;
  return z ^ (z >> 32);
}

constexpr ChecksumLanes start() {
  ChecksumLanes lanes{};
  for (size_t i = 0; i < kChecksumLanes; ++i) lanes[i] = mix(kOdd * (i + 1));
  return lanes;
}

// What is left after the last whole block, filled up with zeros.
void take_rest(ChecksumLanes& lanes, std::span<const std::byte> rest) {
  if (rest.empty()) return;
  ChecksumLanes words{};
  std::memcpy(words.data(), rest.data(), rest.size());
  for (size_t i = 0; i < kChecksumLanes; ++i) lanes[i] = checksum_step(lanes[i], words[i]);
}

uint64_t finish(const ChecksumLanes& lanes, uint64_t bytes) {
  uint64_t sum = mix(bytes + kOdd);
  for (const uint64_t lane : lanes) sum = std::rotl(sum ^ mix(lane), 27) * kOdd;
  return mix(sum);
}

const ChecksumKernel& fastest() {
  static const ChecksumKernel& kernel = checksum_kernels().front();
  return kernel;
}

}  // namespace

Checksum::Checksum() : Checksum(fastest()) {}

Checksum::Checksum(const ChecksumKernel& kernel) : kernel_(&kernel), lanes_(start()) {}

void Checksum::add(std::span<const std::byte> piece) {
  const size_t blocks = piece.size() / kChecksumBlock;
  kernel_->sum(lanes_, piece.data(), blocks);
  take_rest(lanes_, piece.subspan(blocks * kChecksumBlock));
  bytes_ += piece.size();
}

void Checksum::copy(std::byte* target, std::span<const std::byte> piece) {
  const size_t blocks = piece.size() / kChecksumBlock;
  kernel_->copy(lanes_, target, piece.data(), blocks);
  const auto rest = piece.subspan(blocks * kChecksumBlock);
  if (!rest.empty()) std::memcpy(target + blocks * kChecksumBlock, rest.data(), rest.size());
  take_rest(lanes_, rest);
  bytes_ += piece.size();
}

uint64_t Checksum::value() const { return finish(lanes_, bytes_); }

uint64_t checksum(std::span<const std::byte> bytes) {
  Checksum sum;
  sum.add(bytes);
  return sum.value();
}

uint64_t copy_with_checksum(std::byte* target, std::span<const std::byte> source) {
  Checksum sum;
  sum.copy(target, source);
  return sum.value();
}

uint64_t combine_checksums(std::span<const uint64_t> chunks) {
  return checksum(std::as_bytes(chunks));
}

uint64_t buffer_checksum(std::span<const std::byte> bytes) {
  std::vector<uint64_t> chunks;
  chunks.reserve(bytes.size() / kChunkBytes + 1);
  for (size_t at = 0; at < bytes.size(); at += kChunkBytes) {
    chunks.push_back(checksum(bytes.subspan(at, std::min<size_t>(kChunkBytes, bytes.size() - at))));
  }
  return combine_checksums(chunks);
}

}  // namespace monkeytree
