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
  for (const size_t bytes : {1, 7, 8, 63, 64, 65, 200}) {
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
  const std::vector<std::byte> zeros(300);
  for (size_t n = 0; n <= zeros.size(); ++n) {
    EXPECT_TRUE(sums.insert(checksum(std::span(zeros).first(n))).second) << n;
  }
  RandomSequence random(2);
  std::vector<std::byte> data = drawn(random, 256);
  sums = {checksum(data)};
  for (size_t a = 0; a < 256; a += 8) {
    for (size_t b = a + 8; b < 256; b += 8) {
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
    const std::vector<std::byte> data = drawn(random, random.below(1000));
    Checksum sum;
    size_t at = 0;
    while (data.size() - at > 64) {
      const size_t piece = 64 * (1 + random.below((data.size() - at) / 64));
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
    const std::vector<std::byte> data = drawn(random, random.below(700));
    std::vector<std::byte> copy(data.size() + 1, std::byte{42});
    EXPECT_EQ(copy_with_checksum(copy.data(), data), checksum(data));
    EXPECT_EQ(copy.back(), std::byte{42});
    copy.pop_back();
    EXPECT_EQ(copy, data);
  }
}

TEST(Checksum, IsTheSameEverywhere) {
  const char text[] = "monkeytree";
  EXPECT_EQ(checksum(std::as_bytes(std::span(text, 10))), 9214513411937984205U);
  EXPECT_EQ(checksum({}), 11701182058042470024U);
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
