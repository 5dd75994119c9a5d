#include "routing/hash_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <string>

namespace monkeytree {
namespace {

using ::testing::HasSubstr;

uint32_t hash_text(HashFamily family, uint32_t seed, std::string_view text) {
  return hash_bytes(family, seed, {reinterpret_cast<const uint8_t*>(text.data()), text.size()});
}

// The check values that catalogues of CRCs give, of the digits 1 to 9.
TEST(HashModelTest, ChecksumsHaveTheirCatalogueValues) {
  const std::string digits = "123456789";
  EXPECT_EQ(hash_text(HashFamily::kCrc16Ccitt, 0, digits), 0x29b1U);       // CRC-16/CCITT-FALSE
  EXPECT_EQ(hash_text(HashFamily::kCrc16Ccitt, 0xffff, digits), 0x31c3U);  // CRC-16/XMODEM
  EXPECT_EQ(hash_text(HashFamily::kCrc16Ibm, 0, digits), 0xbb3dU);         // CRC-16/ARC
  EXPECT_EQ(hash_text(HashFamily::kCrc16Ibm, 0xffff, digits), 0x4b37U);    // CRC-16/MODBUS
  EXPECT_EQ(hash_text(HashFamily::kCrc32, 0, digits), 0xcbf43926U);
  EXPECT_EQ(hash_text(HashFamily::kCrc32c, 0, digits), 0xe3069283U);
  EXPECT_EQ(hash_text(HashFamily::kCrc32, 0, ""), 0U);
}

// The values in the comments of lookup3 and in the literature.
TEST(HashModelTest, JenkinsHashesHaveTheirPublishedValues) {
  EXPECT_EQ(hash_text(HashFamily::kJenkins, 0, ""), 0xdeadbeefU);
  EXPECT_EQ(hash_text(HashFamily::kJenkins, 0xdeadbeef, ""), 0xbd5b7ddeU);
  EXPECT_EQ(hash_text(HashFamily::kJenkins, 0, "Four score and seven years ago"), 0x17770551U);
  EXPECT_EQ(hash_text(HashFamily::kJenkins, 1, "Four score and seven years ago"), 0xcd628161U);
  EXPECT_EQ(hash_text(HashFamily::kOneAtATime, 0, "a"), 0xca2e9442U);
  EXPECT_EQ(hash_text(HashFamily::kOneAtATime, 0, "The quick brown fox jumps over the lazy dog"),
            0x519e91f5U);
}

TEST(HashModelTest, XorFoldsPairsOfBytes) {
  const std::string bytes("\x12\x34\x56\x78\x9a", 5);
  EXPECT_EQ(hash_text(HashFamily::kXor8, 0, bytes), 0x12U ^ 0x34 ^ 0x56 ^ 0x78 ^ 0x9a);
  EXPECT_EQ(hash_text(HashFamily::kXor16, 0, bytes), 0x1234U ^ 0x5678 ^ 0x9a00);
  EXPECT_EQ(hash_text(HashFamily::kXor32, 1, bytes), 1U ^ 0x12345678 ^ 0x9a000000);
}

PacketHeader header_at(uint16_t source_port) {
  return {0x0a000002, 0x0a030102, Protocol::kUdp, source_port, 4791};
}

TEST(HashModelTest, FieldsMasksShiftAndReductionAreObeyed) {
  HashModel model;
  model.family = HashFamily::kXor16;
  model.fields = {{HashField::kSourcePort, 0xff00}};
  EXPECT_EQ(predicted_uplink(model, header_at(0x1234), 7), 0x1200 % 7);
  EXPECT_EQ(predicted_uplink(model, header_at(0x12ff), 7), 0x1200 % 7);
  model.shift = 8;
  EXPECT_EQ(predicted_uplink(model, header_at(0x1234), 7), 0x12 % 7);
  model.bits = 4;
  EXPECT_EQ(predicted_uplink(model, header_at(0x1234), 16), 2);
  model.reduction = HashReduction::kRange;
  EXPECT_EQ(predicted_uplink(model, header_at(0x1f34), 4), 3);
  EXPECT_EQ(predicted_uplink(model, header_at(0x1034), 4), 0);
  model.fields = {{HashField::kSource},
                  {HashField::kDestination},
                  {HashField::kProtocol},
                  {HashField::kSourcePort},
                  {HashField::kDestinationPort}};
  model.shift = model.bits = 0;
  model.reduction = HashReduction::kModulo;
  // Fields lie one above the other.
  EXPECT_EQ(predicted_uplink(model, header_at(0x1234), 1000),
            (0x0a00 ^ 0x0002 ^ 0x0a03 ^ 0x0102 ^ 0x11 ^ 0x1234 ^ 0x12b7) % 1000);
  // Elsewhere they are fed one after the other, without gaps.
  model.family = HashFamily::kCrc32;
  const std::array<uint8_t, 13> fed = {0x0a, 0, 0, 2, 0x0a, 3, 1, 2, 17, 0x12, 0x34, 0x12, 0xb7};
  EXPECT_EQ(predicted_uplink(model, header_at(0x1234), 1000),
            static_cast<int>(hash_bytes(HashFamily::kCrc32, 0, fed) % 1000));
}

TEST(HashModelTest, EveryFamilyUsesEveryUplinkAndNoOther) {
  for (int family = 0; family <= static_cast<int>(HashFamily::kOneAtATime); ++family) {
    HashModel model;
    model.family = static_cast<HashFamily>(family);
    model.seed = 12345;
    if (model.family == HashFamily::kCrc16Ibm)
      model.shift = 8;  // its low bits tell few ports apart
    for (const int uplinks : {1, 2, 3, 7, 16}) {
      std::vector<int> seen(static_cast<size_t>(uplinks));
      for (int port = 49152; port < 49152 + 1000; ++port) {
        const int uplink = predicted_uplink(model, header_at(static_cast<uint16_t>(port)), uplinks);
        ASSERT_GE(uplink, 0);
        ASSERT_LT(uplink, uplinks);
        ++seen[static_cast<size_t>(uplink)];
      }
      EXPECT_THAT(seen, ::testing::Each(::testing::Gt(0))) << family << " " << uplinks;
    }
  }
}

TEST(HashModelYamlTest, AWholeModelIsRead) {
  Diagnostics diagnostics;
  const std::optional<HashModel> model = parse_hash_model(
      "family: crc16-ibm\nseed: 0x1f\nfields: [source, {field: source_port, mask: 0x00ff}]\n"
      "shift: 2\nbits: 8\nreduce: range\n",
      "hash.yaml", diagnostics);
  ASSERT_TRUE(model) << diagnostics.text();
  HashModel wanted;
  wanted.family = HashFamily::kCrc16Ibm;
  wanted.seed = 0x1f;
  wanted.fields = {{HashField::kSource}, {HashField::kSourcePort, 0xff}};
  wanted.shift = 2;
  wanted.bits = 8;
  wanted.reduction = HashReduction::kRange;
  EXPECT_EQ(*model, wanted);
}

TEST(HashModelYamlTest, EveryFaultIsTold) {
  Diagnostics diagnostics;
  EXPECT_FALSE(
      parse_hash_model("family: md5\nseed: 0x123456789\nfields: [port, {mask: 1}]\n"
                       "shift: 40\nreduce: mod\nsalt: 1\n",
                       "hash.yaml", diagnostics));
  const std::string text = diagnostics.text();
  for (const char* part : {"hash.yaml:1: /family: expected one of crc16-ccitt",
                           "hash.yaml:2: /seed: expected a number",
                           "/fields/0: expected one of source,", "/fields/1: expected a field",
                           "/shift: expected", "/reduce: expected modulo or range", "salt"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  Diagnostics others;
  EXPECT_FALSE(parse_hash_model("seed: 1\n", "hash.yaml", others));
  EXPECT_THAT(others.text(), HasSubstr("expected family: one of crc16-ccitt"));
}

TEST(PacketHeaderTest, AddressesAreReadAndWritten) {
  EXPECT_EQ(parse_ipv4("10.0.3.255"), 0x0a0003ffU);
  EXPECT_EQ(ipv4_text(0x0a0003ff), "10.0.3.255");
  for (const char* wrong :
       {"", "10.0.0", "10.0.0.256", "10.0.0.1.2", "10.0.0.1 ", "a.b.c.d", "10..0.1", "-1.0.0.1"}) {
    EXPECT_FALSE(parse_ipv4(wrong)) << wrong;
  }
}

}  // namespace
}  // namespace monkeytree
