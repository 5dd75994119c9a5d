#include "study/statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <utility>
#include <vector>

namespace monkeytree {
namespace {

TEST(Quantile, LinearBetweenOrderStatistics) {
  const std::vector<double> values = {4, 1, 3, 2};
  EXPECT_DOUBLE_EQ(quantile_of(values, 0), 1);
  EXPECT_DOUBLE_EQ(quantile_of(values, 0.5), 2.5);
  EXPECT_DOUBLE_EQ(quantile_of(values, 0.9), 3.7);
  EXPECT_DOUBLE_EQ(quantile_of(values, 1), 4);
  EXPECT_DOUBLE_EQ(quantile_of(values, -1), 1);
  EXPECT_DOUBLE_EQ(quantile_of({7}, 0.99), 7);
  EXPECT_TRUE(std::isnan(quantile_of({}, 0.5)));
}

TEST(Quantile, NeverFallsAndStaysWithinTheValues) {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> draw(-5, 5);
  for (int round = 0; round < 200; ++round) {
    std::vector<double> values(1 + random() % 30);
    for (double& value : values) value = draw(random);
    double before = -6;
    for (int step = 0; step <= 100; ++step) {
      const double at = quantile_of(values, step / 100.0);
      EXPECT_GE(at, before);
      before = at;
    }
    EXPECT_LE(before, 5);
  }
}

// Any printed table of Student's t.
TEST(StudentT, IsTheTable) {
  const std::pair<int, double> table[] = {{1, 12.706205}, {2, 4.302653},   {3, 3.182446},
                                          {4, 2.776445},  {5, 2.570582},   {9, 2.262157},
                                          {10, 2.228139}, {29, 2.045230},  {30, 2.042272},
                                          {99, 1.984217}, {1000, 1.962339}};
  for (const auto& [freedom, t] : table) EXPECT_NEAR(student_t(0.975, freedom), t, 1e-6) << freedom;
  EXPECT_NEAR(student_t(0.95, 4), 2.131847, 1e-6);
  EXPECT_NEAR(student_t(0.025, 4), -2.776445, 1e-6);
  EXPECT_NEAR(student_t(0.5, 7), 0, 1e-9);
  EXPECT_NEAR(student_t(0.975, 1 << 30), 1.95996, 2e-3);
  EXPECT_TRUE(std::isnan(student_t(1, 4)));
  EXPECT_TRUE(std::isnan(student_t(0.9, 0)));
}

TEST(Estimate, OfFiveSeeds) {
  const Estimate five = estimate(std::vector<double>{1, 2, 3, 4, 5});
  EXPECT_EQ(five.count, 5u);
  EXPECT_DOUBLE_EQ(five.mean, 3);
  EXPECT_NEAR(five.half_width(), 2.776445 * std::sqrt(2.5) / std::sqrt(5), 1e-5);
  EXPECT_NEAR(five.mean - five.low, five.half_width(), 1e-12);
  EXPECT_EQ(five.text(2), "3.00 ± 1.96");
}

TEST(Estimate, OfOneAndOfNone) {
  const Estimate one = estimate(std::vector<double>{2});
  EXPECT_DOUBLE_EQ(one.mean, 2);
  EXPECT_TRUE(std::isnan(one.low));
  EXPECT_EQ(one.text(1), "2.0");
  EXPECT_EQ(estimate({}).text(1), "–");
  EXPECT_TRUE(std::isnan(estimate({}).mean));
}

TEST(Estimate, HoldsTheTruthNineteenTimesOfTwenty) {
  std::mt19937_64 random(7);
  std::normal_distribution<double> draw(10, 3);
  int held = 0;
  for (int round = 0; round < 4000; ++round) {
    std::vector<double> seeds(5);
    for (double& seed : seeds) seed = draw(random);
    const Estimate e = estimate(seeds);
    held += e.low <= 10 && 10 <= e.high;
  }
  EXPECT_NEAR(held / 4000.0, 0.95, 0.015);
}

TEST(Estimate, PairsShowWhatApartIsHidden) {
  const std::vector<double> a = {1.0, 2.0, 3.0, 4.0};
  const std::vector<double> b = {1.1, 2.1, 3.1, 4.2};
  EXPECT_GT(estimate(a).high, estimate(b).low);
  EXPECT_LT(paired_difference(a, b).high, 0);
  EXPECT_EQ(paired_difference(a, std::vector<double>{1.0}).count, 1u);
}

TEST(Distribution, OfValues) {
  const Distribution s = distribution_of(std::vector<double>{5, 1, 2, 3, 4});
  EXPECT_EQ(s.count, 5u);
  EXPECT_DOUBLE_EQ(s.mean, 3);
  EXPECT_DOUBLE_EQ(s.deviation, std::sqrt(2.5));
  EXPECT_DOUBLE_EQ(s.min, 1);
  EXPECT_DOUBLE_EQ(s.p50, 3);
  EXPECT_DOUBLE_EQ(s.p90, 4.6);
  EXPECT_DOUBLE_EQ(s.max, 5);
  EXPECT_TRUE(std::isnan(distribution_of({}).p99));
  EXPECT_TRUE(std::isnan(distribution_of(std::vector<double>{1}).deviation));
}

}  // namespace
}  // namespace monkeytree
