#include "network/network.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <random>

#include "network/leaf_spine.h"
#include "network/scratch_network.h"

namespace monkeytree {
namespace {

constexpr double kFree = std::numeric_limits<double>::infinity();

std::vector<LinkUse> over(std::initializer_list<LinkId> links) {
  std::vector<LinkUse> uses;
  for (const LinkId link : links) uses.push_back({link, 1});
  return uses;
}

std::vector<StreamId> settled(Network& network) {
  const std::span<const StreamId> changed = network.settle();
  return {changed.begin(), changed.end()};
}

TEST(Network, FlowsShareAndGiveBack) {
  Network network;
  const LinkId wide = network.add_link(100), narrow = network.add_link(30);
  const StreamId a = network.add(over({wide}), kFree);
  EXPECT_EQ(network.rate(a), 0);
  EXPECT_EQ(settled(network), (std::vector<StreamId>{a}));
  EXPECT_EQ(network.rate(a), 100);
  const StreamId b = network.add(over({wide, narrow}), kFree);
  EXPECT_EQ(settled(network), (std::vector<StreamId>{a, b}));
  EXPECT_EQ(network.rate(a), 70);
  EXPECT_EQ(network.rate(b), 30);
  const StreamId c = network.add(over({wide}), 20);
  EXPECT_EQ(settled(network), (std::vector<StreamId>{a, c}));
  EXPECT_EQ(network.rate(a), 50);
  EXPECT_EQ(network.load(wide), 3);
  network.remove(a);
  EXPECT_TRUE(settled(network).empty());  // the others are at their limits
  network.reroute(b, over({wide}), kFree);
  EXPECT_EQ(settled(network), (std::vector<StreamId>{b}));
  EXPECT_EQ(network.rate(b), 80);
  EXPECT_EQ(network.load(narrow), 0);
}

TEST(Network, ALinkThatCanNoLongerFillLetsGo) {
  Network network;
  const LinkId link = network.add_link(100);
  const StreamId a = network.add(over({link}), 60);
  const StreamId b = network.add(over({link}), 60);
  network.settle();
  EXPECT_EQ(network.rate(a), 50);
  network.remove(b);
  EXPECT_EQ(settled(network), (std::vector<StreamId>{a}));
  EXPECT_EQ(network.rate(a), 60);
}

TEST(Network, ChangesThatCancelChangeNothing) {
  Network network;
  const LinkId link = network.add_link(100);
  const StreamId a = network.add(over({link}), kFree);
  network.settle();
  const StreamId b = network.add(over({link}), kFree);
  network.remove(b);
  EXPECT_TRUE(settled(network).empty());
  EXPECT_EQ(network.rate(a), 100);
  const StreamId again = network.add(over({link}), kFree);
  EXPECT_EQ(again, b);  // numbers are given out again
  network.remove(again);
  EXPECT_EQ(network.add(over({link}), 10), b);
  EXPECT_EQ(settled(network), (std::vector<StreamId>{a, b}));
  EXPECT_EQ(network.rate(a), 90);
}

/// A Network and its referee under the same changes.
class Both {
 public:
  explicit Both(const std::vector<double>& capacities) {
    for (const double capacity : capacities) {
      network_.add_link(capacity);
      referee_.add_link(capacity);
    }
  }
  StreamId add(const std::vector<LinkUse>& uses, double cap) {
    const StreamId id = network_.add(uses, cap);
    EXPECT_EQ(referee_.add(uses, cap), id);
    return id;
  }
  void remove(StreamId id) {
    network_.remove(id);
    referee_.remove(id);
  }
  void reroute(StreamId id, const std::vector<LinkUse>& uses, double cap) {
    network_.reroute(id, uses, cap);
    referee_.reroute(id, uses, cap);
  }
  /// Settles both; rates and what changed must be the same, bit for bit.
  void compare(const std::vector<StreamId>& alive) {
    const std::span<const StreamId> changed = network_.settle(), expected = referee_.settle();
    ASSERT_TRUE(std::equal(changed.begin(), changed.end(), expected.begin(), expected.end()));
    for (const StreamId id : alive) ASSERT_EQ(network_.rate(id), referee_.rate(id)) << id.value;
  }
  void compare_load(LinkId link) { ASSERT_EQ(network_.load(link), referee_.load(link)); }

 private:
  Network network_;
  ScratchNetwork referee_;
};

struct Churn {
  int links, flows, steps;
  bool coefficients, caps, round_capacities;
};

void churn(const Churn& churn, uint32_t seed) {
  std::mt19937 random(seed);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<uint32_t>(n)); };
  std::vector<double> capacities;
  for (int l = 0; l < churn.links; ++l) {
    capacities.push_back(churn.round_capacities ? 50'000 : 1 + below(1'000'000) / 7.0);
  }
  Both both(capacities);
  const auto random_uses = [&] {
    std::vector<LinkUse> uses;
    for (int k = 1 + below(Network::kMostLinks); k > 0; --k) {
      const LinkId link(below(churn.links));
      const bool twice = std::any_of(uses.begin(), uses.end(),
                                     [&](const LinkUse& use) { return use.link == link; });
      if (!twice) uses.push_back({link, churn.coefficients ? 1.0 / (1 + below(16)) : 1.0});
    }
    return uses;
  };
  const auto random_cap = [&] {
    if (!churn.caps || below(2) == 0) return churn.round_capacities ? 50'000 : kFree;
    return churn.round_capacities ? 5'000.0 * (1 + below(9)) : 1 + below(300'000) / 11.0;
  };
  std::vector<StreamId> alive;
  for (int step = 0; step < churn.steps; ++step) {
    for (int changes = below(4) == 0 ? below(6) : 1; changes > 0; --changes) {
      const int count = static_cast<int>(alive.size());
      const int what = below(4);
      if (what == 0 && count > 0) {
        both.reroute(alive[static_cast<size_t>(below(count))], random_uses(), random_cap());
      } else if (count < churn.flows && below(2 * churn.flows) >= count) {
        alive.push_back(both.add(random_uses(), random_cap()));
      } else if (count > 0) {
        const size_t i = static_cast<size_t>(below(count));
        both.remove(alive[i]);
        alive.erase(alive.begin() + static_cast<std::ptrdiff_t>(i));
      }
    }
    ASSERT_NO_FATAL_FAILURE(both.compare(alive)) << "seed " << seed << ", step " << step;
    ASSERT_NO_FATAL_FAILURE(both.compare_load(LinkId(below(churn.links))));
  }
}

TEST(Network, EqualsFillingFromScratchUnderChurn) {
  for (uint32_t seed = 0; seed < 40; ++seed) {
    for (const int bits : {0, 1, 2, 3, 4, 5, 6, 7}) {
      const bool coefficients = bits & 1, caps = bits & 2, round = bits & 4;
      ASSERT_NO_FATAL_FAILURE(churn({4, 6, 200, coefficients, caps, round}, seed));
      ASSERT_NO_FATAL_FAILURE(churn({40, 20, 150, coefficients, caps, round}, seed));
      ASSERT_NO_FATAL_FAILURE(churn({60, 100, 60, coefficients, caps, round}, seed));
    }
  }
}

/// Rings over a real fabric, every link in place, as the plain engine has them.
TEST(Network, EqualsFillingFromScratchOnLeafSpine) {
  FabricShape shape;
  shape.gpus = 128;
  shape.gpus_per_rack = 16;
  shape.spines = 4;
  for (const bool spray : {false, true}) {
    shape.spray = spray;
    const LeafSpine fabric(shape);
    std::vector<double> capacities;
    for (int l = 0; l < fabric.link_count(); ++l) capacities.push_back(fabric.capacity(LinkId(l)));
    Both both(capacities);
    std::mt19937 random(5);
    const auto host = [&] { return static_cast<int>(random() % 128); };
    const auto random_uses = [&] {
      const int from = host();
      const int to = (from + 1 + static_cast<int>(random() % 127)) % 128;
      std::vector<LinkUse> uses;
      for (const LinkId l : fabric.path(from, to, static_cast<int>(random() % 4))) {
        uses.push_back({l, 1});
      }
      return uses;
    };
    std::vector<StreamId> alive;
    for (int step = 0; step < 600; ++step) {
      if (alive.size() < 80 || random() % 2 == 0) alive.push_back(both.add(random_uses(), kFree));
      if (random() % 3 == 0) both.reroute(alive[random() % alive.size()], random_uses(), kFree);
      while (alive.size() > 150) {
        both.remove(alive.front());
        alive.erase(alive.begin());
      }
      ASSERT_NO_FATAL_FAILURE(both.compare(alive)) << "step " << step;
    }
  }
}

TEST(LeafSpine, NumbersEveryLinkOnce) {
  FabricShape shape;
  shape.gpus = 32;
  shape.gpus_per_rack = 8;
  shape.spines = 3;
  const LeafSpine fabric(shape);
  EXPECT_EQ(fabric.link_count(), 64 + 2 * 4 * 3);
  std::map<LinkId, int> seen;
  for (int host = 0; host < 32; ++host)
    ++seen[fabric.host_up(host)], ++seen[fabric.host_down(host)];
  for (int rack = 0; rack < 4; ++rack) {
    for (int spine = 0; spine < 3; ++spine) {
      ++seen[fabric.rack_up(rack, spine)], ++seen[fabric.rack_down(rack, spine)];
    }
  }
  EXPECT_EQ(seen.size(), static_cast<size_t>(fabric.link_count()));
  EXPECT_EQ(seen.rbegin()->first.value, fabric.link_count() - 1);
  for (const auto& [link, times] : seen) {
    EXPECT_EQ(times, 1);
    EXPECT_EQ(fabric.capacity(link), 50'000);
  }
}

TEST(LeafSpine, Paths) {
  FabricShape shape;
  shape.gpus = 32;
  shape.gpus_per_rack = 8;
  shape.spines = 3;
  const LeafSpine fabric(shape);
  const LeafSpine::Path inside = fabric.path(1, 7, -1);
  EXPECT_EQ(std::vector<LinkId>(inside.span().begin(), inside.span().end()),
            (std::vector<LinkId>{fabric.host_up(1), fabric.host_down(7)}));
  const LeafSpine::Path between = fabric.path(1, 31, 2);
  EXPECT_EQ(std::vector<LinkId>(between.span().begin(), between.span().end()),
            (std::vector<LinkId>{fabric.host_up(1), fabric.rack_up(0, 2), fabric.rack_down(3, 2),
                                 fabric.host_down(31)}));
  shape.spray = true;
  const LeafSpine sprayed(shape);
  EXPECT_EQ(sprayed.path(1, 31, -1).links[1], sprayed.rack_up(0, 0));
  EXPECT_EQ(sprayed.capacity(sprayed.rack_up(0, 0)), 150'000);
  EXPECT_EQ(sprayed.capacity(sprayed.host_up(0)), 50'000);
}

}  // namespace
}  // namespace monkeytree
