#include "report/scale.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "report/text.h"

namespace monkeytree {
namespace {

using testing::ElementsAre;

std::vector<std::string> labels(const Scale& scale) {
  std::vector<std::string> all;
  for (const Tick& tick : scale.ticks()) all.push_back(tick.label);
  return all;
}

std::vector<std::string> labels(Axis axis, double low, double high, int wanted, Ends ends) {
  return labels(Scale(axis, {low, high}, 0, 100, wanted, ends));
}

TEST(Ticks, StepsAreOneTwoFive) {
  EXPECT_DOUBLE_EQ(tick_step(1, 5), 0.2);
  EXPECT_DOUBLE_EQ(tick_step(10, 4), 5);
  EXPECT_DOUBLE_EQ(tick_step(0.3, 3), 0.1);
  EXPECT_DOUBLE_EQ(tick_step(7e9, 5), 2e9);
}

TEST(Ticks, Linear) {
  EXPECT_THAT(labels({}, 0, 1, 5, Ends::kRounded),
              ElementsAre("0.0", "0.2", "0.4", "0.6", "0.8", "1.0"));
  EXPECT_THAT(labels({}, 0.7, 1, 3, Ends::kExact), ElementsAre("0.7", "0.8", "0.9", "1.0"));
  EXPECT_THAT(labels({}, -3, 12, 4, Ends::kRounded), ElementsAre("−5", "0", "5", "10", "15"));
  EXPECT_THAT(labels({}, 0, 42000, 4, Ends::kRounded),
              ElementsAre("0", "20\u202f000", "40\u202f000", "60\u202f000"));
}

TEST(Ticks, LargeAndSmallShareAFactor) {
  const Scale large({.label = "Bytes", .unit = "B"}, {0, 4e9}, 0, 100, 4, Ends::kRounded);
  EXPECT_THAT(labels(large), ElementsAre("0", "1", "2", "3", "4"));
  EXPECT_EQ(large.title(), "Bytes (10⁹ B)");
  const Scale small({.label = "Time", .unit = "s"}, {0, 2e-5}, 0, 100, 2, Ends::kRounded);
  EXPECT_THAT(labels(small), ElementsAre("0", "10", "20"));
  EXPECT_EQ(small.title(), "Time (10⁻⁶ s)");
}

TEST(Ticks, Logarithmic) {
  const Axis log{.kind = AxisKind::kLog};
  EXPECT_THAT(labels(log, 1, 100, 6, Ends::kRounded),
              ElementsAre("1", "2", "5", "10", "20", "50", "100"));
  EXPECT_THAT(labels(log, 0.02, 90000, 10, Ends::kRounded),
              ElementsAre("0.01", "0.1", "1", "10", "100", "1000", "10\u202f000", "100\u202f000"));
  EXPECT_THAT(labels(log, 1, 6, 6, Ends::kExact), ElementsAre("1", "1.5", "2", "3", "4", "5"));
  EXPECT_THAT(labels(log, 1e-9, 1e9, 4, Ends::kRounded),
              ElementsAre("10⁻⁹", "10⁻⁴", "10¹", "10⁶", "10¹¹"));
}

TEST(Ticks, Times) {
  const Axis time{.kind = AxisKind::kTime};
  const double start = 1727740800;  // 2024-10-01 00:00
  EXPECT_THAT(labels(time, start, start + 86400, 5, Ends::kExact),
              ElementsAre("1 Oct", "06:00", "12:00", "18:00", "2 Oct"));
  EXPECT_THAT(labels(time, start, start + 31 * 86400.0, 5, Ends::kExact),
              ElementsAre("3 Oct", "10 Oct", "17 Oct", "24 Oct", "31 Oct"));
  EXPECT_THAT(labels(time, start + 20, start + 80, 4, Ends::kExact),
              ElementsAre("00:00:30", "00:00:45", "00:01", "00:01:15"));
  EXPECT_EQ(time.value_text(start + 3661), "1 Oct 01:01:01");
  EXPECT_EQ(time.value_text(-1), "31 Dec 23:59:59");
}

TEST(Scale, MapsEndsToEnds) {
  const Scale scale({}, {0, 10}, 100, 0, 5, Ends::kRounded);
  EXPECT_DOUBLE_EQ(scale.at(0), 100);
  EXPECT_DOUBLE_EQ(scale.at(10), 0);
  EXPECT_DOUBLE_EQ(scale.at(5), 50);
  const Scale log({.kind = AxisKind::kLog}, {1, 100}, 0, 100, 5, Ends::kExact);
  EXPECT_NEAR(log.at(10), 50, 1e-9);
}

TEST(Scale, HasNoPlaceForWhatIsNoNumber) {
  for (const double value : {std::nan(""), std::numeric_limits<double>::infinity(), 1e300}) {
    EXPECT_FALSE(Scale::has_place(AxisKind::kLinear, value));
    EXPECT_FALSE(Scale::has_place(AxisKind::kLog, value));
  }
  EXPECT_TRUE(Scale::has_place(AxisKind::kLinear, 0));
  EXPECT_FALSE(Scale::has_place(AxisKind::kLog, 0));
  EXPECT_FALSE(Scale::has_place(AxisKind::kLog, -1));
}

// Whatever the data: finite places within the axis, few ticks, in order, labels that differ.
TEST(Scale, HoldsForAnyRange) {
  std::mt19937_64 random(11);
  std::uniform_real_distribution<double> exponent(-190, 190);
  std::uniform_real_distribution<double> share(-1, 1);
  for (int round = 0; round < 20000; ++round) {
    const AxisKind kind = static_cast<AxisKind>(random() % 3);
    const double size =
        round % 2 == 0 ? std::pow(10, exponent(random)) : std::pow(10, exponent(random) / 30);
    Range range;
    for (size_t n = random() % 3; n > 0; --n) {
      const double value = size * share(random);
      range.add(kind == AxisKind::kLog ? std::max(std::abs(value), 1e-199) : value);
    }
    const Ends ends = random() % 2 == 0 ? Ends::kExact : Ends::kRounded;
    const Scale scale({.kind = kind}, range, 0, 500, 3 + static_cast<int>(random() % 7), ends);
    ASSERT_LT(scale.low(), scale.high());
    ASSERT_LE(scale.ticks().size(), 24u) << range.low << " " << range.high;
    if (!range.empty()) {
      for (const double value : {range.low, range.high}) {
        ASSERT_GE(scale.at(value), -1e-6) << value;
        ASSERT_LE(scale.at(value), 500 + 1e-6) << value;
      }
    }
    for (size_t i = 0; i < scale.ticks().size(); ++i) {
      const Tick& tick = scale.ticks()[i];
      ASSERT_GE(scale.at(tick.value), -0.01);
      ASSERT_LE(scale.at(tick.value), 500.01);
      if (i == 0) continue;
      ASSERT_GT(tick.value, scale.ticks()[i - 1].value);
      if (kind != AxisKind::kTime) {
        ASSERT_NE(tick.label, scale.ticks()[i - 1].label) << range.low << " " << range.high;
      }
    }
  }
}

TEST(Scale, FittingLabelsDoNotTouch) {
  std::mt19937_64 random(13);
  for (int round = 0; round < 500; ++round) {
    const double low = static_cast<double>(random() % 1000000) / 7;
    const double span = std::pow(10, static_cast<double>(random() % 90) / 10 - 3);
    const Scale scale = fitting_scale({}, {low, low + span}, 0, 300, Ends::kExact, 12);
    for (size_t i = 1; i < scale.ticks().size(); ++i) {
      const double room = scale.at(scale.ticks()[i].value) - scale.at(scale.ticks()[i - 1].value);
      EXPECT_GT(room, text_width(scale.ticks()[i].label, 12) * 0.9);
    }
  }
}

}  // namespace
}  // namespace monkeytree
