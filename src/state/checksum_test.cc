#include "state/checksum.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <vector>

#include "base/random.h"

namespace monkeytree {
namespace {

std::vector<std::byte> drawn(RandomSequence& random, size_t bytes) {
  std::vector<std::byte> data(bytes);
  for (std::byte& byte : data) byte = static_cast<std::byte>(random.below(256));
  return data;
}

TEST(Checksum, FindsEachFlippedBit) {
  RandomSequence random(1);
  for (const size_t bytes : {1, 7, 8, 63, 255, 256, 257, 600}) {
    std::vector<std::byte> data = drawn(random, bytes);
    std::set<uint64_t> sums = {checksum(data)};
    for (size_t bit = 0; bit < bytes * 8; ++bit) {
      data[bit / 8] ^= static_cast<std::byte>(1 << (bit % 8));
      EXPECT_TRUE(sums.insert(checksum(data)).second) << bytes << " bytes, bit " << bit;
      data[bit / 8] ^= static_cast<std::byte>(1 << (bit % 8));
    }
  }
}

TEST(Checksum, FindsLengthsAndSwaps) {
  std::set<uint64_t> sums;
  const std::vector<std::byte> zeros(800);
  for (size_t n = 0; n <= zeros.size(); ++n) {
    EXPECT_TRUE(sums.insert(checksum(std::span(zeros).first(n))).second) << n;
  }
  RandomSequence random(2);
  std::vector<std::byte> data = drawn(random, 512);
  sums = {checksum(data)};
  for (size_t a = 0; a < 512; a += 8) {
    for (size_t b = a + 8; b < 512; b += 8) {
      std::swap_ranges(data.begin() + a, data.begin() + a + 8, data.begin() + b);
      EXPECT_TRUE(sums.insert(checksum(data)).second) << a << " and " << b;
      std::swap_ranges(data.begin() + a, data.begin() + a + 8, data.begin() + b);
    }
  }
}

TEST(Checksum, DoesNotDependOnWhereTheBytesLie) {
  RandomSequence random(3);
  const std::vector<std::byte> data = drawn(random, 1000);
  std::vector<std::byte> moved(1100);
  for (size_t shift = 0; shift < 70; ++shift) {
    std::memcpy(moved.data() + shift, data.data(), data.size());
    EXPECT_EQ(checksum(std::span(moved).subspan(shift, data.size())), checksum(data));
  }
}

TEST(Checksum, MayComeInPieces) {
  RandomSequence random(6);
  for (int round = 0; round < 200; ++round) {
    const std::vector<std::byte> data = drawn(random, random.below(4000));
    Checksum sum;
    size_t at = 0;
    while (data.size() - at > kChecksumBlock) {
      const size_t piece = kChecksumBlock * (1 + random.below((data.size() - at) / kChecksumBlock));
      sum.add(std::span(data).subspan(at, piece));
      at += piece;
    }
    sum.add(std::span(data).subspan(at));
    EXPECT_EQ(sum.value(), checksum(data));
  }
}

TEST(Checksum, CopiesWhatItSums) {
  RandomSequence random(4);
  for (int round = 0; round < 300; ++round) {
    const std::vector<std::byte> data = drawn(random, random.below(1500));
    std::vector<std::byte> copy(data.size() + 1, std::byte{42});
    EXPECT_EQ(copy_with_checksum(copy.data(), data), checksum(data));
    EXPECT_EQ(copy.back(), std::byte{42});
    copy.pop_back();
    EXPECT_EQ(copy, data);
  }
}

// The obvious version: each word into its lane, one by one.
uint64_t slow(std::span<const std::byte> bytes) {
  std::vector<std::byte> padded(bytes.begin(), bytes.end());
  padded.resize((bytes.size() + kChecksumBlock - 1) / kChecksumBlock * kChecksumBlock);
  const auto mix = [](uint64_t z) {
    z = (z ^ (z >> 32)) * 0xd6e8feb86659fd93;
    z = (z ^ (z >> 29)) * 0xbf58476d1ce4e5b9;
    return z ^ (z >> 32);
  };
  const uint64_t odd = 0x9e3779b97f4a7c15;
  uint64_t sum = mix(bytes.size() + odd);
  for (size_t lane = 0; lane < kChecksumLanes; ++lane) {
    uint64_t value = mix(odd * (lane + 1));
    for (size_t at = lane * 8; at < padded.size(); at += kChecksumBlock) {
      uint64_t word = 0;
      std::memcpy(&word, padded.data() + at, 8);
      value ^= word;
      value = (value ^ (value >> 32)) * 0x9e3779b1;
    }
    sum ^= mix(value);
    sum = ((sum << 27) | (sum >> 37)) * odd;
  }
  return mix(sum);
}

TEST(Checksum, OfAllKernelsIsTheSame) {
  RandomSequence random(7);
  std::vector<size_t> sizes = {0, 1, 255, 256, 257, (size_t{256} << 10) + 300, kChunkBytes};
  for (int round = 0; round < 100; ++round) sizes.push_back(random.below(5000));
  for (const size_t size : sizes) {
    const std::vector<std::byte> data = drawn(random, size);
    const uint64_t wanted = slow(data);
    for (const ChecksumKernel& kernel : checksum_kernels()) {
      Checksum sum(kernel);
      sum.add(data);
      EXPECT_EQ(sum.value(), wanted) << kernel.name << ", " << size << " bytes";
      // Also where a streamed copy is possible: at a multiple of 64.
      std::vector<std::byte> room(size + 64, std::byte{42});
      const size_t shift = 63 - (reinterpret_cast<uintptr_t>(room.data()) + 63) % 64;
      Checksum copied(kernel);
      copied.copy(room.data() + shift, data);
      EXPECT_EQ(copied.value(), wanted) << kernel.name << ", " << size << " bytes copied";
      EXPECT_TRUE(std::equal(data.begin(), data.end(), room.begin() + shift)) << kernel.name;
      EXPECT_EQ(room[shift + size], std::byte{42}) << kernel.name;
    }
  }
  EXPECT_EQ(checksum_kernels().back().name, "portable");
}

TEST(Checksum, IsTheSameEverywhere) {
  const char text[] = "monkeytree";
  EXPECT_EQ(checksum(std::as_bytes(std::span(text, 10))), 770342336368527322U);
  EXPECT_EQ(checksum({}), 1361676851900623164U);
}

TEST(Checksum, OfABufferIsThatOfItsChunks) {
  RandomSequence random(5);
  const std::vector<std::byte> data = drawn(random, 2 * kChunkBytes + 5);
  const std::vector<uint64_t> chunks = {
      checksum(std::span(data).first(kChunkBytes)),
      checksum(std::span(data).subspan(kChunkBytes, kChunkBytes)),
      checksum(std::span(data).last(5)),
  };
  EXPECT_EQ(buffer_checksum(data), combine_checksums(chunks));
  EXPECT_EQ(buffer_checksum({}), combine_checksums({}));
}

}  // namespace
}  // namespace monkeytree
