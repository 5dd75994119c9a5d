#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "base/diagnostics.h"
#include "base/file.h"
#include "base/json_syntax.h"
#include "cluster/snapshot_json.h"
#include "control/decision.h"
#include "control/plan_run.h"
#include "planning/plan_json.h"

namespace monkeytree {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

size_t widest(const std::string& text) {
  size_t most = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    most = std::max(most, static_cast<size_t>(std::count_if(line.begin(), line.end(), [](char c) {
                      return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
                    })));
  }
  return most;
}

/// The example of README: rack R3 is over its bound, two moves mend it.
class Explain : public testing::Test {
 protected:
  Explain() {
    Diagnostics findings;
    snapshot_ = *parse_snapshot(
        *read_file(std::string(MONKEYTREE_SOURCE_DIR) + "/examples/four_racks.json"), "example",
        findings);
    const Plan made = plan(snapshot_);
    const PlanRoutes routed = routes_of(snapshot_, made);
    const Gain gain = estimate_gain(snapshot_, made, routed, {}, kMade_s);
    entry_.id = 12;
    entry_.made_s = kMade_s;
    entry_.moves = made.moves;
    entry_.plan = write_plan(record_of(snapshot_, made, "0"));
    entry_.decision =
        decision_json(snapshot_, made, routed, gain, {{"A", "opted out in its comment"}}, {});
    migrations_ = migrations_of(12, snapshot_, made.rounds, {});
  }

  static constexpr double kMade_s = 1796023806;  // 2026-11-30 07:30:06 UTC
  Snapshot snapshot_;
  PlanEntry entry_;
  std::vector<Migration> migrations_;
};

TEST_F(Explain, SaysWhyAndWhatItGains) {
  const std::string text = explain(entry_, {}, {});
  EXPECT_THAT(text, StartsWith("plan 12: proposed, 2 moves\nmade 2026-11-30 07:30:06 UTC\n"
                               "The fewest: no plan does this with less than 2 moves, which is "
                               "proved.\n"));
  EXPECT_THAT(text, HasSubstr("R3: degree 3 over a bound of 2, after the plan "));
  EXPECT_THAT(text, HasSubstr("Uplinks shared before, under the best routing\n"));
  EXPECT_THAT(text, HasSubstr(" GPU hours regained, "));
  EXPECT_THAT(text, HasSubstr("\nMoves\n    job "));
  EXPECT_THAT(text, HasSubstr("Jobs that could not move\n  job A: opted out in its comment\n"));
  EXPECT_THAT(text, Not(HasSubstr("How it went")));
  EXPECT_LE(widest(text), 80U);
  EXPECT_EQ(text, explain(entry_, {}, {}));
}

TEST_F(Explain, TellsEachStep) {
  ASSERT_FALSE(migrations_.empty());
  Migration& first = migrations_.front();
  first.state = MigrationState::kRolledBack;
  first.reason = "the agent of n7 is gone";
  first.iteration = 1234;
  entry_.state = PlanState::kFailed;
  entry_.approved_by = "alice at 127.0.0.1";
  entry_.ended_s = kMade_s + 60;
  const std::vector<StepEntry> steps = {
      {first.id, Step::kHold, 1, kMade_s + 1, kMade_s + 1.25, "OK"},
      {first.id, Step::kPrepare, 1, kMade_s + 2, kMade_s + 3,
       "UNAVAILABLE: the agent of n7 is not connected, and nobody knows when it comes back"},
      {first.id, Step::kRollBack, 2, kMade_s + 4, std::nullopt, ""},
  };
  const std::string text = explain(entry_, migrations_, steps);
  EXPECT_THAT(text, HasSubstr("ended 2026-11-30 07:31:06 UTC\napproved by alice at 127.0.0.1\n"));
  EXPECT_THAT(text, AllOf(HasSubstr("  migration " + first.id + " of job "),
                          HasSubstr("rolled back, paused after iteration 1234: the agent")));
  EXPECT_THAT(text, HasSubstr("    07:30:07.000  hold          0.250 s\n"));
  EXPECT_THAT(text,
              HasSubstr("    07:30:08.000  prepare       1.000 s\n        UNAVAILABLE: the "));
  EXPECT_THAT(text, HasSubstr("roll back  under way when this was last written  attempt 2\n"));
  EXPECT_LE(widest(text), 80U);
}

TEST_F(Explain, SaysWhyItWasNotCarriedOut) {
  entry_.reason = "the gain is too small";
  EXPECT_THAT(explain(entry_, {}, {}),
              HasSubstr("Why it was not carried out\n  the gain is too small\n"));
  // Objections are not told twice.
  entry_.decision = R"({"objections": ["the gain is too small"]})";
  const std::string text = explain(entry_, {}, {});
  EXPECT_EQ(text.find("the gain is too small"), text.rfind("the gain is too small"));
}

TEST_F(Explain, StandsNamesThatAreLongOrHostile) {
  const std::string name = std::string(300, 'n') + "\x1b[31m\xc3\xa4";
  entry_.reason = "node " + name + " is in the way";
  entry_.decision = R"({"racks_over": [{"rack": ")" + std::string(500, 'r') +
                    R"(", "groups": [7, {"job": 3, "rings": "x"}]}], "links_shared": {}, )" +
                    R"("gain": {"jobs": [[]]}, "held_back": {"a": 1}})";
  migrations_.front().reason = name;
  const std::string text = explain(entry_, migrations_, {});
  EXPECT_LE(widest(text), 80U);
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  EXPECT_EQ(valid_utf8_prefix(text), text.size());
}

TEST_F(Explain, StandsWhatItCannotRead) {
  for (const char* broken : {"", "{", "[]", "null", "{\"gain\": 1, \"racks_over\": [null]}"}) {
    entry_.decision = broken;
    entry_.plan = broken;
    entry_.made_s = -1e300;
    EXPECT_THAT(explain(entry_, migrations_, {}), HasSubstr("the plan itself cannot be read"));
  }
}

}  // namespace
}  // namespace monkeytree
