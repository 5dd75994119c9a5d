#include "routing/port_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "routing/port_cache.h"

namespace monkeytree {
namespace {

using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

const PacketHeader kFlow{0x0a000002, 0x0a030102, Protocol::kTcp, 0, 5201};

/// Takes the uplink that a table says; counts what it is asked.
class TablePaths : public PathSource {
 public:
  std::map<uint16_t, int> table;
  int asked = 0;
  absl::Status fault;
  absl::StatusOr<std::vector<int>> uplinks(std::span<const PacketHeader> headers) override {
    if (!fault.ok()) return fault;
    std::vector<int> answers;
    for (const PacketHeader& header : headers) {
      ++asked;
      const auto found = table.find(header.source_port);
      answers.push_back(found == table.end() ? -1 : found->second);
    }
    return answers;
  }
};

std::vector<int> first_uplinks(int count) {
  std::vector<int> uplinks(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) uplinks[static_cast<size_t>(i)] = i;
  return uplinks;
}

TEST(PortSearchTest, FindsEachUplinkWithin200PortsWhateverTheSwitchHashes) {
  std::mt19937 random(11);
  for (int family = 0; family <= static_cast<int>(HashFamily::kOneAtATime); ++family) {
    for (int uplinks = 2; uplinks <= 16; ++uplinks) {
      HashModel model;
      model.family = static_cast<HashFamily>(family);
      model.seed = static_cast<uint32_t>(random());
      // The low bits of this sparse polynomial's sums tell few ports apart: some of 16 uplinks are
      // out of reach of the source port alone.
      if (model.family == HashFamily::kCrc16Ibm) model.shift = 8;
      PredictedPaths paths(model, first_uplinks(uplinks));
      PortSearch search;
      search.flow = kFlow;
      const auto found = find_ports(paths, search, first_uplinks(uplinks));
      ASSERT_TRUE(found.ok());
      EXPECT_LE(found->tried, 200);
      ASSERT_EQ(found->ports.size(), static_cast<size_t>(uplinks)) << family;
      for (const auto& [uplink, port] : found->ports) {
        EXPECT_EQ(predicted_uplink(model, from_port(kFlow, port), uplinks), uplink);
      }
    }
  }
}

TEST(PortSearchTest, StaysInRangePassesOverTakenPortsAndEnds) {
  TablePaths paths;
  for (uint16_t port = 100; port <= 110; ++port) paths.table[port] = port % 2;
  PortSearch search;
  search.flow = kFlow;
  search.range = {100, 110};
  search.taken = {109, 101};
  const std::vector<int> wanted = {0, 1, 2};
  const auto found = find_ports(paths, search, wanted);
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->ports.size(), 2U);
  for (const auto& [uplink, port] : found->ports) {
    EXPECT_EQ(paths.table.at(port), uplink);
    EXPECT_FALSE(search.taken.contains(port));
  }
  EXPECT_EQ(found->tried, 9);  // no port leads to uplink 2
  EXPECT_EQ(paths.asked, 9);
  search.tries = 4;
  EXPECT_EQ(find_ports(paths, search, wanted)->tried, 4);
  search.range = {65532, 65535};
  EXPECT_EQ(find_ports(paths, search, wanted)->tried, 4);
}

TEST(PortSearchTest, UnknownAnswersAreNoAnswersAndFaultsAreTold) {
  TablePaths paths;
  paths.table[140] = 0;
  PortSearch search;
  search.flow = kFlow;
  search.range = {100, 199};
  const std::vector<int> wanted = {0};
  EXPECT_THAT(find_ports(paths, search, wanted)->ports, UnorderedElementsAre(Pair(0, 140)));
  paths.fault = absl::UnavailableError("no answer from the router");
  EXPECT_EQ(find_ports(paths, search, wanted).status(), paths.fault);
}

TEST(PortSearchTest, OnePortIsGoodForBothWays) {
  std::mt19937 random(12);
  for (int uplinks = 2; uplinks <= 8; ++uplinks) {
    for (int round = 0; round < 20; ++round) {
      HashModel here, far;
      here.family = far.family = HashFamily::kCrc32;
      here.seed = static_cast<uint32_t>(random());
      far.seed = static_cast<uint32_t>(random());
      // Two seeds of a CRC differ by a constant; other fields make the ends differ.
      far.family = HashFamily::kJenkins;
      PredictedPaths there(here, first_uplinks(uplinks)), back(far, first_uplinks(uplinks));
      const int up = static_cast<int>(random() % static_cast<unsigned>(uplinks));
      const int down = static_cast<int>(random() % static_cast<unsigned>(uplinks));
      PortSearch search;
      search.flow = kFlow;
      search.tries = 20 * uplinks * uplinks;
      const auto found = find_port_both_ways(there, up, back, down, search);
      ASSERT_TRUE(found.ok());
      ASSERT_EQ(found->ports.size(), 1U);
      const PacketHeader header = from_port(kFlow, found->ports.at(up));
      EXPECT_EQ(predicted_uplink(here, header, uplinks), up);
      EXPECT_EQ(predicted_uplink(far, reversed(header), uplinks), down);
    }
  }
}

TEST(PortSearchTest, APairThatDoesNotExistIsNotFound) {
  // A switch that hashes ports folded together sends a connection back the way it came.
  HashModel model;
  model.family = HashFamily::kXor16;
  PredictedPaths there(model, {0, 1}), back(model, {0, 1});
  PortSearch search;
  search.flow = kFlow;
  EXPECT_THAT(find_port_both_ways(there, 0, back, 1, search)->ports, IsEmpty());
  EXPECT_EQ(find_port_both_ways(there, 1, back, 1, search)->ports.size(), 1U);
}

TEST(PortSearchTest, AFailedUplinkLeavesTheChoice) {
  HashModel model;
  PredictedPaths paths(model, {0, 3});
  PortSearch search;
  search.flow = kFlow;
  const std::vector<int> wanted = {0, 1, 2, 3};
  const auto found = find_ports(paths, search, wanted);
  EXPECT_EQ(found->ports.size(), 2U);
  EXPECT_TRUE(found->ports.contains(3));
  PredictedPaths nothing(model, {});
  EXPECT_FALSE(find_ports(nothing, search, wanted).ok());
}

TEST(PortCacheTest, KeepsPortsUntilARackOfTheirsChanges) {
  PortCache cache;
  PacketHeader other = kFlow;
  other.destination_port = 1;
  cache.keep(from_port(kFlow, 999), 0, 20480, "r0", "r3");
  cache.keep(kFlow, 1, 20481, "r0", "r3");
  cache.keep(other, 0, 20482, "r1", "r0");
  cache.keep(reversed(kFlow), 0, 20483, "r3", "r2");
  EXPECT_EQ(cache.find(kFlow, 0), 20480);
  EXPECT_EQ(cache.find(from_port(kFlow, 7), 1), 20481);
  EXPECT_EQ(cache.find(kFlow, 2), std::nullopt);
  EXPECT_EQ(cache.find(other, 0), 20482);
  EXPECT_EQ(cache.forget("r0"), 3U);
  EXPECT_EQ(cache.find(kFlow, 0), std::nullopt);
  EXPECT_EQ(cache.size(), 1U);
}

TEST(PortCacheTest, VerifyingForgetsPortsThatLeadElsewhere) {
  PortCache cache;
  TablePaths paths;
  EXPECT_EQ(*cache.verify(paths), 0U);
  cache.keep(kFlow, 0, 100, "r0", "r3");
  cache.keep(kFlow, 1, 101, "r0", "r3");
  cache.keep(kFlow, 2, 102, "r0", "r3");
  paths.table = {{100, 0}, {101, 0}};  // 102 is not known any more
  paths.fault = absl::UnavailableError("gone");
  EXPECT_FALSE(cache.verify(paths).ok());
  EXPECT_EQ(cache.size(), 3U);
  paths.fault = absl::OkStatus();
  EXPECT_EQ(*cache.verify(paths), 2U);
  EXPECT_EQ(cache.find(kFlow, 0), 100);
  EXPECT_EQ(cache.find(kFlow, 1), std::nullopt);
}

}  // namespace
}  // namespace monkeytree
