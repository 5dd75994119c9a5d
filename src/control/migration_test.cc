#include "control/migration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"
#include "control/executor.h"

namespace monkeytree {
namespace {

constexpr int kStateCount = 10;

TEST(Migration, names_are_read_back) {
  for (int i = 0; i < kStateCount; ++i) {
    const auto state = static_cast<MigrationState>(i);
    EXPECT_EQ(migration_state(name_of(state)), state);
  }
  for (int i = 0; i <= static_cast<int>(Step::kAbandon); ++i) {
    EXPECT_EQ(migration_step(name_of(Step(i))), Step(i));
  }
  for (const Heading heading : {Heading::kForward, Heading::kBack, Heading::kAbandon}) {
    EXPECT_EQ(heading_named(name_of(heading)), heading);
  }
  EXPECT_FALSE(migration_state("gone"));
  EXPECT_FALSE(migration_step("Hold"));
  EXPECT_FALSE(heading_named(""));
}

TEST(Migration, the_state_machine_is_this_table) {
  struct Row {
    MigrationState state;
    std::string_view forward, back, abandon;  // the next step by heading; "" where none is left
    bool can_turn_back, can_turn_back_paused;
  };
  using S = MigrationState;
  constexpr std::string_view kBack = "roll back", kAbandon = "abandon";
  const std::vector<Row> table = {
      {S::kPlanned, "hold", kBack, kAbandon, true, true},
      {S::kHeld, "prepare", kBack, kAbandon, true, true},
      {S::kPrepared, "pause", kBack, kAbandon, true, true},
      {S::kPaused, "transfer", kBack, kAbandon, true, true},
      {S::kTransferred, "restore", kBack, kAbandon, true, true},
      {S::kRestored, "resume", kBack, kAbandon, false, true},
      {S::kResumed, "release", kBack, kAbandon, false, false},
      {S::kReleased, "", "", "", false, false},
      {S::kRolledBack, "", "", "", false, false},
      {S::kAbandoned, "", "", "", false, false},
  };
  for (const Row& row : table) {
    Migration migration;
    migration.state = row.state;
    SCOPED_TRACE(name_of(row.state));
    EXPECT_EQ(ended(migration), row.forward.empty());
    EXPECT_EQ(can_turn_back(migration), row.can_turn_back);
    for (const auto& [heading, step] : {std::pair(Heading::kForward, row.forward),
                                        {Heading::kBack, row.back},
                                        {Heading::kAbandon, row.abandon}}) {
      migration.heading = heading;
      const std::optional<Step> next = next_step(migration);
      EXPECT_EQ(next ? name_of(*next) : "", step);
    }
    migration.stays_paused = true;
    EXPECT_EQ(can_turn_back(migration), row.can_turn_back_paused);
  }
}

TEST(Migration, steps_lead_from_planned_to_released) {
  Migration migration;
  std::vector<std::string_view> states = {name_of(migration.state)};
  while (!ended(migration)) {
    advance(migration, *next_step(migration));
    states.push_back(name_of(migration.state));
  }
  EXPECT_THAT(states, testing::ElementsAre("planned", "held", "prepared", "paused", "transferred",
                                           "restored", "resumed", "released"));
  migration.state = MigrationState::kPaused;
  advance(migration, Step::kRollBack);
  EXPECT_EQ(migration.state, MigrationState::kRolledBack);
  migration.state = MigrationState::kPaused;
  advance(migration, Step::kAbandon);
  EXPECT_EQ(migration.state, MigrationState::kAbandoned);
}

class Dice {
 public:
  explicit Dice(uint64_t seed) : random_(seed) {}
  int below(int n) { return static_cast<int>(random_.below(static_cast<uint64_t>(n))); }
  bool coin() { return below(2) == 0; }
  /// Letters, and what JSON must write otherwise.
  std::string text() {
    static const std::vector<std::string> kPieces = {"a",
                                                     "B",
                                                     "7",
                                                     " ",
                                                     "/",
                                                     "\"",
                                                     "\\",
                                                     "\n",
                                                     "\t",
                                                     std::string(1, '\0'),
                                                     "\x01",
                                                     "\x7f",
                                                     "ä",
                                                     "漢",
                                                     "🐒",
                                                     "</script>",
                                                     "\xe2\x80\xa8",
                                                     "{",
                                                     "}",
                                                     ",",
                                                     ":"};
    std::string out;
    for (int i = below(8); i > 0; --i) out += kPieces[static_cast<size_t>(below(21))];
    return out;
  }
  WorkerName name(const std::string& job) { return {job, below(5), below(1000)}; }
  std::string node() { return coin() ? kStagingNode : text(); }
  std::map<WorkerName, std::string> nodes(const std::string& job) {
    std::map<WorkerName, std::string> all;
    for (int i = below(5); i > 0; --i) all[name(job)] = text();
    return all;
  }
  WorkerCommand command() {
    WorkerCommand out;
    for (int i = below(4); i > 0; --i) out.arguments.push_back(text());
    out.folder = text();
    for (int i = below(4); i > 0; --i) out.environment[text()] = text();
    return out;
  }
  Migration migration() {
    Migration out;
    out.id = text();
    out.plan = below(1 << 30);
    out.round = below(100);
    out.job = text();
    out.gpus = below(1000) / 8.0;
    out.reservation = text();
    for (int i = below(4); i > 0; --i) {
      out.moves.push_back({name(out.job), node(), node(), int64_t{below(1 << 30)} << 20, text(),
                           command(), text()});
    }
    out.before = nodes(out.job);
    out.after = nodes(out.job);
    for (int i = below(3); i > 0; --i) out.staged.insert(name(out.job));
    out.was_paused = coin();
    out.stays_paused = coin();
    out.state = static_cast<MigrationState>(below(kStateCount));
    out.heading = static_cast<Heading>(below(3));
    out.reason = text();
    if (coin()) out.iteration = int64_t{below(1 << 30)} << 20;
    return out;
  }

 private:
  RandomSequence random_;
};

TEST(MigrationJson, gives_back_what_was_written) {
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    const Migration migration = Dice(seed).migration();
    const std::string text = write_migration(migration);
    const std::optional<Migration> read = read_migration(text);
    ASSERT_TRUE(read) << text;
    ASSERT_EQ(*read, migration) << text;
    ASSERT_EQ(write_migration(*read), text);
  }
}

TEST(MigrationJson, replaces_what_is_not_utf8) {
  Migration migration;
  migration.moves.emplace_back();
  migration.moves[0].command.environment["LANG"] = "\xff\xfe";
  const std::optional<Migration> read = read_migration(write_migration(migration));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->moves[0].command.environment.at("LANG"), "\uFFFD\uFFFD");
}

TEST(MigrationJson, refuses_what_it_did_not_write) {
  const std::string good = write_migration(Dice(3).migration());
  ASSERT_TRUE(read_migration(good));
  EXPECT_FALSE(read_migration(""));
  EXPECT_FALSE(read_migration("[]"));
  EXPECT_FALSE(read_migration("{}"));
  for (size_t length = 0; length < good.size(); length += 7) {
    EXPECT_FALSE(read_migration(std::string_view(good).substr(0, length))) << length;
  }
  for (const std::string_view key : {"\"id\"", "\"moves\"", "\"before\"", "\"staged\"", "\"state\"",
                                     "\"heading\"", "\"was_paused\"", "\"gpus\""}) {
    std::string text = good;
    text.replace(text.find(key), key.size(), "\"other\"");
    EXPECT_FALSE(read_migration(text)) << key;
  }
  const std::string state = "\"state\":\"";
  std::string text = good;
  text.insert(text.find(state) + state.size(), "un");
  EXPECT_FALSE(read_migration(text));
}

}  // namespace
}  // namespace monkeytree
