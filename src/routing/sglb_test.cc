#include "routing/sglb.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <vector>

namespace monkeytree {
namespace {

/// The rule as its words say it, on plain counts.
struct Obvious {
  std::vector<std::vector<int>> up, down;

  std::vector<int> good(int from, int to) const {
    std::vector<int> scores;
    for (size_t s = 0; s < up[0].size(); ++s) {
      scores.push_back(up[static_cast<size_t>(from)][s] + down[static_cast<size_t>(to)][s]);
    }
    std::vector<int> sorted = scores;
    std::sort(sorted.begin(), sorted.end());
    const int median = sorted[(sorted.size() - 1) / 2];
    std::vector<int> list;
    for (size_t s = 0; s < scores.size(); ++s) {
      if (scores[s] <= median) list.push_back(static_cast<int>(s));
    }
    return list;
  }
  void count(int from, int to, int spine, int flows) {
    up[static_cast<size_t>(from)][static_cast<size_t>(spine)] += flows;
    down[static_cast<size_t>(to)][static_cast<size_t>(spine)] += flows;
  }
};

struct Active {
  int from, to, spine;
  uint64_t hash;
};

void compare(int racks, int spines, bool count_self, unsigned seed, int most_flows) {
  std::mt19937 random(seed);
  Sglb sglb(racks, spines, {10'000, count_self});
  Obvious obvious;
  obvious.up.assign(static_cast<size_t>(racks), std::vector<int>(static_cast<size_t>(spines)));
  obvious.down = obvious.up;
  std::vector<Active> flows;
  const auto rack = [&] { return static_cast<int>(random() % static_cast<unsigned>(racks)); };
  for (int i = 0; i < 2000; ++i) {
    const unsigned what = random() % 4;
    if (what < 2 && static_cast<int>(flows.size()) < most_flows) {
      Active flow{rack(), rack(), 0, random()};
      const std::vector<int> good = obvious.good(flow.from, flow.to);
      flow.spine = sglb.start(flow.from, flow.to, flow.hash);
      EXPECT_EQ(flow.spine, good[flow.hash % good.size()]);
      obvious.count(flow.from, flow.to, flow.spine, 1);
      flows.push_back(flow);
    } else if (what == 2 && !flows.empty()) {
      const size_t at = random() % flows.size();
      sglb.end(flows[at].from, flows[at].to, flows[at].spine);
      obvious.count(flows[at].from, flows[at].to, flows[at].spine, -1);
      flows.erase(flows.begin() + static_cast<std::ptrdiff_t>(at));
    } else if (what == 3 && !flows.empty()) {
      Active& flow = flows[random() % flows.size()];
      if (!count_self) obvious.count(flow.from, flow.to, flow.spine, -1);
      const std::vector<int> good = obvious.good(flow.from, flow.to);
      if (count_self) obvious.count(flow.from, flow.to, flow.spine, -1);
      const bool stays = std::find(good.begin(), good.end(), flow.spine) != good.end();
      const int expected = stays ? flow.spine : good[flow.hash % good.size()];
      const uint64_t version = sglb.version(flow.from, flow.to);
      EXPECT_EQ(sglb.tick(flow.from, flow.to, flow.spine, flow.hash), expected);
      EXPECT_EQ(sglb.version(flow.from, flow.to) == version, stays);
      flow.spine = expected;
      obvious.count(flow.from, flow.to, flow.spine, 1);
    }
  }
}

TEST(Sglb, ChoosesByTheRule) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    compare(3, 1 + static_cast<int>(seed % 17), seed % 2 == 0, seed, 40);
  }
}

TEST(Sglb, CountsMoreFlowsThanItsTableOfScores) { compare(2, 3, false, 5, 1500); }

TEST(Sglb, SpreadsFlowsThatMeetNoOther) {
  Sglb sglb(2, 16, {});
  std::set<int> spines;
  for (uint64_t i = 0; i < 400; ++i) {
    const int spine = sglb.start(0, 1, flow_hash(i, i + 1, 7));
    spines.insert(spine);
    sglb.end(0, 1, spine);
  }
  EXPECT_EQ(spines.size(), 16U) << "an idle fabric has no bad spine";
}

}  // namespace
}  // namespace monkeytree
