#include "state/checksum_kernels.h"

#include <algorithm>
#include <cstring>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace monkeytree {
namespace {

// Eight lanes fit the registers, so a few blocks that stay in the nearest cache are read four
// times.
void sum_portable(ChecksumLanes& lanes, const std::byte* from, size_t blocks) {
  constexpr size_t kGroup = 8;
  constexpr size_t kNear = 16;
  while (blocks > 0) {
    const size_t count = std::min(blocks, kNear);
    for (size_t first = 0; first < kChecksumLanes; first += kGroup) {
      std::array<uint64_t, kGroup> own;
      std::memcpy(own.data(), &lanes[first], sizeof(own));
      const std::byte* at = from + first * sizeof(uint64_t);
      for (size_t block = 0; block < count; ++block, at += kChecksumBlock) {
        for (size_t i = 0; i < kGroup; ++i) {
          uint64_t word = 0;
          std::memcpy(&word, at + i * sizeof(word), sizeof(word));
          own[i] = checksum_step(own[i], word);
        }
      }
      std::memcpy(&lanes[first], own.data(), sizeof(own));
    }
    from += count * kChecksumBlock;
    blocks -= count;
  }
}

void copy_portable(ChecksumLanes& lanes, std::byte* target, const std::byte* from, size_t blocks) {
  constexpr size_t kNear = 64;
  for (size_t done = 0; done < blocks; done += kNear) {
    const size_t count = std::min(blocks - done, kNear);
    const std::byte* at = from + done * kChecksumBlock;
    sum_portable(lanes, at, count);
    std::memcpy(target + done * kChecksumBlock, at, count * kChecksumBlock);
  }
}

#if defined(__x86_64__)

// Copies of more than this go past the caches, which they would only flush.
constexpr size_t kStreamedBlocks = (size_t{256} << 10) / kChecksumBlock;

enum class Copy { kNone, kThroughCache, kPastCache };

template <Copy kCopy>
__attribute__((target("avx2"))) void run_avx2(ChecksumLanes& into, std::byte* target,
                                              const std::byte* from, size_t blocks) {
  constexpr size_t kVectors = kChecksumBlock / sizeof(__m256i);
  const __m256i factor = _mm256_set1_epi64x(0x9e3779b1);
  __m256i lanes[kVectors];
  std::memcpy(lanes, into.data(), sizeof(lanes));
  for (; blocks > 0; --blocks, from += kChecksumBlock) {
#pragma GCC unroll 8
    for (size_t i = 0; i < kVectors; ++i) {
      const __m256i word = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from) + i);
      if constexpr (kCopy == Copy::kThroughCache) {
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(target) + i, word);
      } else if constexpr (kCopy == Copy::kPastCache) {
        _mm256_stream_si256(reinterpret_cast<__m256i*>(target) + i, word);
      }
      const __m256i z = _mm256_xor_si256(lanes[i], word);
      const __m256i upper = _mm256_srli_epi64(z, 32);
      // The product of 64 and 32 bits from two of 32 and 32.
      const __m256i low = _mm256_mul_epu32(_mm256_xor_si256(z, upper), factor);
      const __m256i high = _mm256_mul_epu32(upper, factor);
      lanes[i] = _mm256_add_epi64(low, _mm256_slli_epi64(high, 32));
    }
    if constexpr (kCopy != Copy::kNone) target += kChecksumBlock;
  }
  if constexpr (kCopy == Copy::kPastCache) _mm_sfence();
  std::memcpy(into.data(), lanes, sizeof(lanes));
}

using Words512 = uint64_t __attribute__((vector_size(64)));

template <Copy kCopy>
__attribute__((target("avx512f,avx512dq"))) void run_avx512(ChecksumLanes& into, std::byte* target,
                                                            const std::byte* from, size_t blocks) {
  constexpr size_t kVectors = kChecksumBlock / sizeof(Words512);
  Words512 lanes[kVectors];
  std::memcpy(lanes, into.data(), sizeof(lanes));
  for (; blocks > 0; --blocks, from += kChecksumBlock) {
#pragma GCC unroll 4
    for (size_t i = 0; i < kVectors; ++i) {
      Words512 word;
      std::memcpy(&word, from + i * sizeof(word), sizeof(word));
      if constexpr (kCopy == Copy::kThroughCache) {
        std::memcpy(target + i * sizeof(word), &word, sizeof(word));
      } else if constexpr (kCopy == Copy::kPastCache) {
        _mm512_stream_si512(reinterpret_cast<__m512i*>(target + i * sizeof(word)),
                            reinterpret_cast<__m512i>(word));
      }
      const Words512 z = lanes[i] ^ word;
      lanes[i] = (z ^ (z >> 32)) * 0x9e3779b1;
    }
    if constexpr (kCopy != Copy::kNone) target += kChecksumBlock;
  }
  if constexpr (kCopy == Copy::kPastCache) _mm_sfence();
  std::memcpy(into.data(), lanes, sizeof(lanes));
}

bool streams(const std::byte* target, size_t blocks) {
  return blocks >= kStreamedBlocks && reinterpret_cast<uintptr_t>(target) % 64 == 0;
}

#endif

std::vector<ChecksumKernel> runnable() {
  std::vector<ChecksumKernel> all;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq")) {
    all.push_back(
        {"avx512",
         [](ChecksumLanes& lanes, const std::byte* from, size_t blocks) {
           run_avx512<Copy::kNone>(lanes, nullptr, from, blocks);
         },
         [](ChecksumLanes& lanes, std::byte* target, const std::byte* from, size_t blocks) {
           (streams(target, blocks) ? run_avx512<Copy::kPastCache>
                                    : run_avx512<Copy::kThroughCache>)(lanes, target, from, blocks);
         }});
  }
  if (__builtin_cpu_supports("avx2")) {
    all.push_back(
        {"avx2",
         [](ChecksumLanes& lanes, const std::byte* from, size_t blocks) {
           run_avx2<Copy::kNone>(lanes, nullptr, from, blocks);
         },
         [](ChecksumLanes& lanes, std::byte* target, const std::byte* from, size_t blocks) {
           (streams(target, blocks) ? run_avx2<Copy::kPastCache>
                                    : run_avx2<Copy::kThroughCache>)(lanes, target, from, blocks);
         }});
  }
#endif
  all.push_back({"portable", sum_portable, copy_portable});
  return all;
}

}  // namespace

std::span<const ChecksumKernel> checksum_kernels() {
  static const std::vector<ChecksumKernel> all = runnable();
  return all;
}

}  // namespace monkeytree
