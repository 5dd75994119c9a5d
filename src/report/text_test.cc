#include "report/text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace monkeytree {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
const double kNaN = std::nan("");

TEST(Escape, LeavesNothingThatMarkupReads) {
  EXPECT_EQ(escape("a<b>&\"c'"), "a&lt;b&gt;&amp;&quot;c&#39;");
  EXPECT_EQ(escape("λ – 日本 🐒"), "λ – 日本 🐒");
  EXPECT_EQ(escape("a\tb\nc"), "a\tb\nc");
}

TEST(Escape, ReplacesWhatXmlForbids) {
  EXPECT_EQ(escape(std::string_view("a\0b", 3)),
            "a\xEF\xBF\xBD"
            "b");
  EXPECT_EQ(escape("\x1b[31m"), "\xEF\xBF\xBD[31m");
  EXPECT_EQ(escape("a\xFF"), "a\xEF\xBF\xBD");
  EXPECT_EQ(escape("\xC3"), "\xEF\xBF\xBD");                                  // cut in the middle
  EXPECT_EQ(escape("\xEF\xBF\xBE"), "\xEF\xBF\xBD");                          // U+FFFE
  EXPECT_EQ(escape("\xED\xA0\x80"), "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");  // a surrogate
}

TEST(Numbers, Fixed) {
  EXPECT_EQ(fixed_text(1.005, 1), "1.0");
  EXPECT_EQ(fixed_text(-0.001, 2), "0.00");
  EXPECT_EQ(fixed_text(-0.006, 2), "-0.01");
  EXPECT_EQ(fixed_text(1234567, 0), "1234567");
  EXPECT_EQ(fixed_text(2.5e190, 2), "2.5e+190");
  EXPECT_EQ(fixed_text(kNaN, 2), "–");
  EXPECT_EQ(fixed_text(-kInfinity, 2), "–");
}

TEST(Numbers, Grouped) {
  EXPECT_EQ(grouped_text(1234, 0), "1234");
  EXPECT_EQ(grouped_text(12345, 0), "12\u202f345");
  EXPECT_EQ(grouped_text(-1234567.25, 1), "−1\u202f234\u202f567.2");
  EXPECT_EQ(grouped_text(123456, 0), "123\u202f456");
}

TEST(Numbers, Short) {
  EXPECT_EQ(short_text(0), "0");
  EXPECT_EQ(short_text(1.04249), "1.042");
  EXPECT_EQ(short_text(12340), "12\u202f340");
  EXPECT_EQ(short_text(0.00123456), "0.001235");
  EXPECT_EQ(short_text(-2.5), "−2.5");
  EXPECT_EQ(short_text(9.9999), "10");
  EXPECT_EQ(short_text(3.2e9), "3.2×10⁹");
  EXPECT_EQ(short_text(1e-12), "1×10⁻¹²");
  EXPECT_EQ(short_text(128.44, 3), "128");
  EXPECT_EQ(short_text(kNaN), "–");
}

TEST(Numbers, Coordinates) {
  EXPECT_EQ(coordinate(10), "10");
  EXPECT_EQ(coordinate(10.5), "10.5");
  EXPECT_EQ(coordinate(-0.001), "0");
  EXPECT_EQ(coordinate(1.0 / 3), "0.33");
  EXPECT_EQ(coordinate(kNaN), "0");
}

TEST(Numbers, DecimalsShowFourDigits) {
  EXPECT_EQ(decimals_for(3), 0);
  EXPECT_EQ(decimals_for(1.0076), 3);
  EXPECT_EQ(decimals_for(123.45), 1);
  EXPECT_EQ(decimals_for(0.00012), 7);
  EXPECT_EQ(decimals_for(kNaN), 0);
  EXPECT_EQ(decimals_for(1e-300), 9);
}

TEST(Columns, AreThoseOfATerminal) {
  EXPECT_EQ(columns_of("abc"), 3u);
  EXPECT_EQ(columns_of("λ–é"), 3u);
  EXPECT_EQ(columns_of("日本"), 4u);
  EXPECT_EQ(columns_of("e\u0301"), 1u);
  EXPECT_EQ(columns_of("\xFF"), 1u);
}

TEST(Shorten, EndsAtACharacter) {
  EXPECT_EQ(shorten("short", 100, 12), "short");
  for (double width = 0; width < 200; width += 3) {
    const std::string cut = shorten("日本語の長い名前 with a tail", width, 12);
    EXPECT_EQ(escape(cut), cut);
    EXPECT_LE(text_width(cut, 12), std::max(width, text_width("…", 12)) + 1e-6);
  }
}

TEST(Count, WithItsNoun) {
  EXPECT_EQ(count_text(1, "move"), "1 move");
  EXPECT_EQ(count_text(0, "move"), "0 moves");
}

}  // namespace
}  // namespace monkeytree
