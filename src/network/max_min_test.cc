#include "network/max_min.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

namespace monkeytree {
namespace {

constexpr double kFree = std::numeric_limits<double>::infinity();

/// A system written as its links' capacities and, per flow, the links it uses.
struct System {
  IdVector<LinkId, double> capacities;
  std::vector<std::vector<LinkUse>> uses;
  std::vector<double> caps;

  System& link(double capacity) {
    capacities.push_back(capacity);
    return *this;
  }
  System& flow(std::vector<LinkUse> over, double cap = kFree) {
    uses.push_back(std::move(over));
    caps.push_back(cap);
    return *this;
  }
  std::vector<MaxMinFlow> flows() const {
    std::vector<MaxMinFlow> out;
    for (size_t f = 0; f < uses.size(); ++f) out.push_back({uses[f], caps[f]});
    return out;
  }
  std::vector<double> exact() const { return exact_max_min(capacities, flows()); }
};

LinkUse on(int link, double coefficient = 1) { return {LinkId(link), coefficient}; }

TEST(MaxMin, OneLink) {
  // a + b + c ≤ 90
  EXPECT_EQ(System().link(90).flow({on(0)}).flow({on(0)}).flow({on(0)}).exact(),
            (std::vector<double>{30, 30, 30}));
  // a + b + c ≤ 90, a ≤ 10
  EXPECT_EQ(System().link(90).flow({on(0)}, 10).flow({on(0)}).flow({on(0)}).exact(),
            (std::vector<double>{10, 40, 40}));
  // caps that fit: the link is no bottleneck
  EXPECT_EQ(System().link(90).flow({on(0)}, 10).flow({on(0)}, 20).flow({on(0)}, 60).exact(),
            (std::vector<double>{10, 20, 60}));
}

TEST(MaxMin, Coefficients) {
  // a/2 + b ≤ 60
  EXPECT_EQ(System().link(60).flow({on(0, 0.5)}).flow({on(0)}).exact(),
            (std::vector<double>{40, 40}));
  // a/2 + b ≤ 60, b ≤ 20
  EXPECT_EQ(System().link(60).flow({on(0, 0.5)}).flow({on(0)}, 20).exact(),
            (std::vector<double>{80, 20}));
}

TEST(MaxMin, Chain) {
  // a + b ≤ 10, b + c ≤ 4, c + d ≤ 12: b and c share the narrow link, a and d take the rest.
  EXPECT_EQ(System()
                .link(10)
                .link(4)
                .link(12)
                .flow({on(0)})
                .flow({on(0), on(1)})
                .flow({on(1), on(2)})
                .flow({on(2)})
                .exact(),
            (std::vector<double>{8, 2, 2, 10}));
}

TEST(MaxMin, ParkingLot) {
  // One flow over all n links, and k others on link k (from 1): it gets C / (n + 1), the others of
  // link k share what it leaves.
  const int n = 9;
  System lot;
  std::vector<LinkUse> all;
  for (int k = 0; k < n; ++k) {
    lot.link(100);
    all.push_back(on(k));
  }
  lot.flow(all);
  for (int k = 0; k < n; ++k) {
    for (int i = 0; i <= k; ++i) lot.flow({on(k)});
  }
  const std::vector<double> rates = lot.exact();
  EXPECT_DOUBLE_EQ(rates[0], 10);
  size_t f = 1;
  for (int k = 0; k < n; ++k) {
    for (int i = 0; i <= k; ++i) EXPECT_DOUBLE_EQ(rates[f++], 90.0 / (k + 1));
  }
}

TEST(MaxMin, NothingAndNoLinks) {
  EXPECT_TRUE(System().exact().empty());
  EXPECT_EQ(System().flow({}, 7).exact(), (std::vector<double>{7}));
}

TEST(MaxMin, RatesAreQuantised) {
  EXPECT_EQ(quantized_rate(50'000), 50'000);
  EXPECT_EQ(quantized_rate(1.0 / 3), 1365 / 4096.0);
  EXPECT_EQ(quantized_rate(2.0 / 3), 2731 / 4096.0);
  // The middle between two, and what a sum may make of it, give the same.
  const double middle = 100 + 0.5 / 4096;
  EXPECT_EQ(quantized_rate(std::nextafter(middle, 0)), quantized_rate(std::nextafter(middle, 200)));
}

/// Every flow is at its cap or has a bottleneck: the theorem's own condition.
TEST(MaxMin, RandomSystemsAreFair) {
  std::mt19937 random(1);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<uint32_t>(n)); };
  for (int round = 0; round < 3000; ++round) {
    System system;
    const int links = 1 + below(12);
    for (int l = 0; l < links; ++l) system.link(1 + below(1000));
    for (int f = below(30); f > 0; --f) {
      std::vector<LinkUse> over;
      for (int l = 0; l < links; ++l) {
        if (below(4) == 0) over.push_back(on(l, 1.0 / (1 + below(3))));
      }
      system.flow(over, over.empty() || below(3) == 0 ? 1 + below(300) : kFree);
    }
    const std::vector<double> rates = system.exact();
    IdVector<LinkId, double> used(system.capacities.size()), most(system.capacities.size());
    for (size_t f = 0; f < rates.size(); ++f) {
      ASSERT_GT(rates[f], 0);
      ASSERT_LE(rates[f], system.caps[f]);
      for (const LinkUse& use : system.uses[f]) {
        used[use.link] += use.coefficient * rates[f];
        most[use.link] = std::max(most[use.link], rates[f]);
      }
    }
    for (const LinkId l : used.keys()) ASSERT_LE(used[l], system.capacities[l] * (1 + 1e-12));
    for (size_t f = 0; f < rates.size(); ++f) {
      const bool bottleneck =
          std::any_of(system.uses[f].begin(), system.uses[f].end(), [&](const LinkUse& use) {
            return used[use.link] >= system.capacities[use.link] * (1 - 1e-12) &&
                   rates[f] >= most[use.link] * (1 - 1e-12);
          });
      ASSERT_TRUE(bottleneck || rates[f] == system.caps[f]) << "round " << round;
    }
  }
}

}  // namespace
}  // namespace monkeytree
