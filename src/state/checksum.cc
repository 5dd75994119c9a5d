#include "state/checksum.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <vector>

namespace monkeytree {

static_assert(std::endian::native == std::endian::little, "checksums are of little-endian words");

namespace {

// Eight lanes, so that the multiplications of one 64-byte block do not wait for each other.
constexpr size_t kLanes = Checksum::kLanes;
constexpr size_t kBlock = kLanes * sizeof(uint64_t);
constexpr uint64_t kOdd = 0x9e3779b97f4a7c15;
using Lanes = std::array<uint64_t, kLanes>;

constexpr uint64_t mix(uint64_t z) {
  z = (z ^ (z >> 32)) * 0xd6e8feb86659fd93;
  z = (z ^ (z >> 29)) * 0xbf58476d1ce4e5b9;
  return z ^ (z >> 32);
}

constexpr Lanes start() {
  Lanes lanes{};
  for (size_t i = 0; i < kLanes; ++i) lanes[i] = mix(kOdd * (i + 1));
  return lanes;
}

inline void take(uint64_t& lane, uint64_t word) {
  const uint64_t z = lane ^ word;
  // The shift brings high bits to where the product spreads them.
  lane = (z ^ (z >> 32)) * kOdd;
}

uint64_t finish(const Lanes& lanes, uint64_t bytes) {
  uint64_t sum = mix(bytes + kOdd);
  for (const uint64_t lane : lanes) sum = std::rotl(sum ^ mix(lane), 27) * kOdd;
  return mix(sum);
}

template <bool kCopy>
void run(Lanes& into, std::byte* target, std::span<const std::byte> source) {
  Lanes lanes = into;  // in registers
  const std::byte* from = source.data();
  size_t left = source.size();
  for (; left >= kBlock; left -= kBlock, from += kBlock) {
    if constexpr (kCopy) {
      Lanes words;
      std::memcpy(words.data(), from, kBlock);
      std::memcpy(target, words.data(), kBlock);
      target += kBlock;
      for (size_t i = 0; i < kLanes; ++i) take(lanes[i], words[i]);
    } else {
      // Word by word the compilers make better code where nothing is copied.
      for (size_t i = 0; i < kLanes; ++i) {
        uint64_t word = 0;
        std::memcpy(&word, from + i * sizeof(word), sizeof(word));
        take(lanes[i], word);
      }
    }
  }
  if (left > 0) {
    Lanes words{};
    std::memcpy(words.data(), from, left);
    if constexpr (kCopy) std::memcpy(target, words.data(), left);
    for (size_t i = 0; i < kLanes; ++i) take(lanes[i], words[i]);
  }
  into = lanes;
}

}  // namespace

Checksum::Checksum() : lanes_(start()) {}

void Checksum::add(std::span<const std::byte> piece) {
  run<false>(lanes_, nullptr, piece);
  bytes_ += piece.size();
}

uint64_t Checksum::value() const { return finish(lanes_, bytes_); }

uint64_t checksum(std::span<const std::byte> bytes) {
  Checksum sum;
  sum.add(bytes);
  return sum.value();
}

uint64_t copy_with_checksum(std::byte* target, std::span<const std::byte> source) {
  Lanes lanes = start();
  run<true>(lanes, target, source);
  return finish(lanes, source.size());
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
