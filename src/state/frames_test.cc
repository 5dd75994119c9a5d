#include "state/frames.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "state/checksum.h"

namespace monkeytree {
namespace {

TEST(Frames, HeaderIsReadAsWrittenAndAnyChangeIsFound) {
  const FrameHeader header{FrameType::kChunk, 1000, 77, 0x1234567890abcdef};
  auto bytes = encode_header(header);
  const absl::StatusOr<FrameHeader> back = decode_header(bytes);
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->type, FrameType::kChunk);
  EXPECT_EQ(back->body_bytes, 1000U);
  EXPECT_EQ(back->argument, 77U);
  EXPECT_EQ(back->body_sum, 0x1234567890abcdefU);
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    bytes[bit / 8] ^= static_cast<std::byte>(1 << (bit % 8));
    EXPECT_EQ(decode_header(bytes).status().code(), absl::StatusCode::kDataLoss) << bit;
    bytes[bit / 8] ^= static_cast<std::byte>(1 << (bit % 8));
  }
}

TEST(Frames, NoBodyIsLongerThanItsKindAllows) {
  EXPECT_FALSE(decode_header(encode_header({FrameType::kChunk, kChunkBytes + 1, 0, 0})).ok());
  EXPECT_FALSE(decode_header(encode_header({FrameType::kHello, UINT64_MAX, 0, 0})).ok());
  EXPECT_FALSE(decode_header(encode_header({static_cast<FrameType>(0), 0, 0, 0})).ok());
  EXPECT_FALSE(decode_header(encode_header({static_cast<FrameType>(99), 0, 0, 0})).ok());
}

TEST(Frames, BodiesAreReadAsWritten) {
  const absl::StatusOr<Hello> hello =
      decode_hello(encode_hello({Role::kStream, "token", 3, UINT64_MAX}));
  ASSERT_TRUE(hello.ok());
  EXPECT_EQ(hello->role, Role::kStream);
  EXPECT_EQ(hello->token, "token");
  EXPECT_EQ(hello->part, 3U);
  EXPECT_EQ(hello->session, UINT64_MAX);

  EXPECT_TRUE(decode_status(encode_status(absl::OkStatus())).ok());
  EXPECT_EQ(decode_status(encode_status(absl::NotFoundError("where?"))),
            absl::NotFoundError("where?"));
  EXPECT_EQ(decode_status(encode_status(absl::NotFoundError(std::string(5000, 'x')))).message(),
            std::string(kMaxMessageBytes, 'x'));

  const absl::StatusOr<ForwardRequest> forward =
      decode_forward(encode_forward({"key", "tcp:h:1", "token", 5, 6, 7}));
  ASSERT_TRUE(forward.ok());
  EXPECT_EQ(forward->endpoint, "tcp:h:1");
  EXPECT_EQ(forward->min_bytes_per_s, 7U);

  const absl::StatusOr<ReserveRequest> reserve = decode_reserve(encode_reserve({"key", 2, "abc"}));
  ASSERT_TRUE(reserve.ok());
  EXPECT_EQ(reserve->buffers, 2U);
  EXPECT_EQ(reserve->layout, "abc");
}

TEST(Frames, CutBodiesAreRefused) {
  const std::string bodies[] = {
      encode_hello({Role::kStream, "token", 3, 4}), encode_status(absl::NotFoundError("where?")),
      encode_forward({"key", "tcp:h:1", "token", 5, 6, 7}), encode_reserve({"key", 2, "abc"})};
  for (size_t which = 0; which < 4; ++which) {
    for (size_t n = 0; n < bodies[which].size(); ++n) {
      const std::string cut = bodies[which].substr(0, n);
      EXPECT_FALSE(which == 0 && decode_hello(cut).ok());
      EXPECT_FALSE(which == 1 && !absl::IsDataLoss(decode_status(cut)));
      EXPECT_FALSE(which == 2 && decode_forward(cut).ok());
      EXPECT_FALSE(which == 3 && decode_reserve(cut).ok());
    }
  }
}

TEST(Frames, BitsAreReadAsWritten) {
  RandomSequence random(1);
  for (size_t n = 0; n < 40; ++n) {
    std::vector<bool> bits(n);
    for (size_t i = 0; i < n; ++i) bits[i] = random.below(2) == 1;
    const absl::StatusOr<std::vector<bool>> back = decode_bits(encode_bits(bits), n);
    ASSERT_TRUE(back.ok());
    EXPECT_EQ(*back, bits);
    EXPECT_FALSE(decode_bits(encode_bits(bits), n + 8).ok());
  }
}

}  // namespace
}  // namespace monkeytree
