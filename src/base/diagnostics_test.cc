#include "base/diagnostics.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace monkeytree {
namespace {

TEST(FindingTest, SaysWhereWhatAndHowBad) {
  EXPECT_EQ((Finding{Severity::kError, "a.conf", 7, "", "odd"}).text(), "a.conf:7: odd");
  EXPECT_EQ((Finding{Severity::kError, "-", 0, "/jobs/3", "odd"}).text(), "-: /jobs/3: odd");
  EXPECT_EQ((Finding{Severity::kWarning, "a", 2, "/x", "odd"}).text(), "a:2: /x: warning: odd");
  EXPECT_EQ((Finding{Severity::kNote, "", 0, "", "odd"}).text(), "note: odd");
}

TEST(DiagnosticsTest, ErrorsComeFirst) {
  Diagnostics diagnostics;
  diagnostics.note("f", 1, "", "n");
  diagnostics.warning("f", 2, "", "w");
  diagnostics.error("f", 3, "", "e");
  EXPECT_EQ(diagnostics.text(), "f:3: e\nf:2: warning: w\nf:1: note: n\n");
  EXPECT_TRUE(diagnostics.has_errors());
}

TEST(DiagnosticsTest, KeepsTwentyErrorsAndCountsTheRest) {
  Diagnostics diagnostics;
  for (int i = 0; i < 1000; ++i) diagnostics.error("f", i + 1, "", "e");
  const std::string text = diagnostics.text();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 21);
  EXPECT_NE(text.find("... and 980 more errors\n"), std::string::npos);
  EXPECT_EQ(diagnostics.error_count(), 1000u);
}

TEST(DiagnosticsTest, AFloodOfWarningsCannotPushAnErrorOut) {
  Diagnostics diagnostics;
  for (int i = 0; i < 1000; ++i) diagnostics.warning("f", i + 1, "", "w");
  diagnostics.error("f", 9, "", "e");
  EXPECT_EQ(diagnostics.text().substr(0, 7), "f:9: e\n");
}

TEST(DiagnosticsTest, StrictTurnsWarningsIntoErrors) {
  Diagnostics diagnostics;
  diagnostics.warning("f", 1, "", "w");
  EXPECT_FALSE(diagnostics.has_errors());
  diagnostics.promote_warnings();
  EXPECT_TRUE(diagnostics.has_errors());
  EXPECT_EQ(diagnostics.warning_count(), 0u);
  EXPECT_EQ(diagnostics.text(), "f:1: w\n");
}

}  // namespace
}  // namespace monkeytree
