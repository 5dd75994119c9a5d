#include "control/journal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/file.h"
#include "control/database.h"
#include "control/executor.h"

namespace monkeytree {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class JournalTest : public testing::Test {
 protected:
  JournalTest() {
    folder_ = testing::TempDir() + "journal_XXXXXX";
    EXPECT_NE(mkdtemp(folder_.data()), nullptr);
    file_ = folder_ + "/journal.db";
  }
  ~JournalTest() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  Journal open() const {
    absl::StatusOr<Journal> journal = Journal::open(file_);
    EXPECT_TRUE(journal.ok()) << journal.status();
    return std::move(journal).value();
  }
  static int64_t plan_in(Journal& journal, PlanState state = PlanState::kRunning) {
    PlanEntry entry;
    entry.state = state;
    entry.snapshot = "{}";
    return journal.add_plan(entry).value();
  }

  std::string folder_, file_;
};

Migration migration(int64_t plan, int round, int number, const std::string& from,
                    const std::string& to) {
  Migration one;
  one.id = fmt::format("{}.{}.{}", plan, round, number);
  one.plan = plan;
  one.round = round;
  one.job = "j";
  WorkerMove move;
  move.worker = {"j", 0, number};
  move.from = from;
  move.to = to;
  one.moves = {move};
  return one;
}

/// Brings the migration to that state as the mover does.
void bring(Journal& journal, Migration& one, MigrationState state, double now_s) {
  const Step step =
      state == MigrationState::kRolledBack ? Step::kRollBack : static_cast<Step>(int(state) - 1);
  const int attempt = journal.begin_step(one, step, now_s).value();
  one.state = state;
  ASSERT_TRUE(journal.end_step(one, step, attempt, absl::OkStatus(), now_s).ok());
}

TEST_F(JournalTest, gives_plans_back) {
  PlanEntry entry;
  entry.made_s = 12.5;
  entry.state = PlanState::kWaiting;
  entry.reason = "outside the maintenance windows";
  entry.moves = 3;
  entry.snapshot = "{\"a\":1}";
  entry.plan = "{\"b\":2}";
  entry.decision = "{\"c\":3}";
  int64_t id = 0;
  {
    Journal journal = open();
    id = journal.add_plan(entry).value();
    EXPECT_TRUE(journal.set_approved(id, "ann").ok());
    EXPECT_TRUE(journal.set_plan_state(id, PlanState::kDone, "well", 99.0).ok());
  }
  const Journal journal = open();
  const std::optional<PlanEntry> plan = journal.plan(id).value();
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->id, id);
  EXPECT_EQ(plan->made_s, 12.5);
  EXPECT_EQ(plan->ended_s, 99.0);
  EXPECT_EQ(plan->state, PlanState::kDone);
  EXPECT_EQ(plan->reason, "well");
  EXPECT_EQ(plan->approved_by, "ann");
  EXPECT_EQ(plan->moves, 3);
  EXPECT_EQ(plan->snapshot, entry.snapshot);
  EXPECT_EQ(plan->plan, entry.plan);
  EXPECT_EQ(plan->decision, entry.decision);
  EXPECT_FALSE(journal.plan(id + 1).value());
}

TEST_F(JournalTest, is_not_for_everybody_to_read) {
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    const auto others = std::filesystem::perms::others_all;
    EXPECT_EQ(entry.status().permissions() & others, std::filesystem::perms::none) << entry.path();
  }
}

TEST_F(JournalTest, lists_plans_newest_first_by_state) {
  Journal journal = open();
  const int64_t first = plan_in(journal), second = plan_in(journal, PlanState::kWaiting),
                third = plan_in(journal);
  const auto ids = [](const absl::StatusOr<std::vector<PlanEntry>>& plans) {
    std::vector<int64_t> all;
    for (const PlanEntry& plan : plans.value()) all.push_back(plan.id);
    return all;
  };
  EXPECT_THAT(ids(journal.plans(std::nullopt, 9)), ElementsAre(third, second, first));
  EXPECT_THAT(ids(journal.plans(std::nullopt, 2)), ElementsAre(third, second));
  EXPECT_THAT(ids(journal.plans(PlanState::kRunning, 9)), ElementsAre(third, first));
  EXPECT_THAT(ids(journal.plans(PlanState::kFailed, 9)), IsEmpty());
  EXPECT_EQ(journal.plans(std::nullopt, 1).value()[0].snapshot, "");
}

TEST_F(JournalTest, knows_where_a_killed_controller_was) {
  Migration going, done, back;
  {
    Journal journal = open();
    const int64_t plan = plan_in(journal);
    going = migration(plan, 0, 0, "a", "b");
    done = migration(plan, 0, 1, "c", "d");
    back = migration(plan, 1, 2, "e", "f");
    ASSERT_TRUE(journal.add_migrations({going, done, back}, 1).ok());
    bring(journal, going, MigrationState::kHeld, 2);
    going.moves[0].hold = "h7";
    const int attempt = journal.begin_step(going, Step::kPrepare, 3).value();
    EXPECT_EQ(attempt, 1);
    EXPECT_TRUE(
        journal.end_step(going, Step::kPrepare, attempt, absl::UnavailableError("agent of b"), 4)
            .ok());
    EXPECT_EQ(journal.begin_step(going, Step::kPrepare, 5).value(), 2);
    bring(journal, done, MigrationState::kReleased, 6);
    bring(journal, back, MigrationState::kRolledBack, 7);
  }
  const Journal journal = open();
  EXPECT_THAT(journal.unfinished().value(), ElementsAre(going));
  EXPECT_THAT(journal.migrations(going.plan).value(), ElementsAre(going, done, back));
  const std::vector<StepEntry> steps = journal.steps(going.plan).value();
  ASSERT_THAT(steps, SizeIs(5));
  EXPECT_EQ(steps[0].outcome, "OK");
  EXPECT_EQ(steps[1].outcome, "UNAVAILABLE: agent of b");
  EXPECT_EQ(steps[1].ended_s, 4);
  EXPECT_EQ(steps[2].step, Step::kPrepare);
  EXPECT_EQ(steps[2].attempt, 2);
  EXPECT_EQ(steps[2].ended_s, std::nullopt);
  EXPECT_EQ(steps[2].outcome, "");
}

TEST_F(JournalTest, an_intent_carries_the_heading) {
  Migration one;
  {
    Journal journal = open();
    one = migration(plan_in(journal), 0, 0, "a", "b");
    ASSERT_TRUE(journal.add_migrations({one}, 1).ok());
    one.heading = Heading::kBack;
    one.reason = "cancelled";
    ASSERT_TRUE(journal.begin_step(one, Step::kRollBack, 2).ok());
  }
  EXPECT_THAT(open().unfinished().value(), ElementsAre(one));
}

TEST_F(JournalTest, unfinished_come_by_plan_and_round) {
  Journal journal = open();
  const int64_t first = plan_in(journal), second = plan_in(journal);
  ASSERT_TRUE(journal.add_migrations({migration(second, 0, 0, "a", "b")}, 1).ok());
  ASSERT_TRUE(
      journal
          .add_migrations({migration(first, 0, 1, "c", "d"), migration(first, 2, 0, "e", "f")}, 1)
          .ok());
  ASSERT_TRUE(journal.add_migrations({migration(first, 1, 0, "g", "h")}, 1).ok());
  std::vector<std::string> ids;
  const std::vector<Migration> unfinished = journal.unfinished().value();
  for (const Migration& one : unfinished) ids.push_back(one.id);
  EXPECT_THAT(ids, ElementsAre("1.0.1", "1.1.0", "1.2.0", "2.0.0"));
}

TEST_F(JournalTest, a_failed_batch_leaves_nothing) {
  Journal journal = open();
  const Migration one = migration(plan_in(journal), 0, 0, "a", "b");
  EXPECT_FALSE(journal.add_migrations({one, one}, 1).ok());
  EXPECT_THAT(journal.unfinished().value(), IsEmpty());
  EXPECT_FALSE(journal.add_migrations({migration(99, 0, 0, "a", "b")}, 1).ok()) << "no such plan";
}

TEST_F(JournalTest, past_moves_are_those_since_then_and_under_way) {
  Journal journal = open();
  const int64_t plan = plan_in(journal);
  Migration early = migration(plan, 0, 0, "a", "b"), late = migration(plan, 0, 1, "c", "d"),
            undone = migration(plan, 0, 2, "e", "f"), going = migration(plan, 0, 3, "g", "h");
  Migration unload = migration(plan, 0, 4, "i", kStagingNode);
  Migration load = migration(plan, 1, 4, kStagingNode, "k");
  ASSERT_TRUE(journal.add_migrations({early, late, undone, going, unload, load}, 5).ok());
  bring(journal, early, MigrationState::kReleased, 10);
  bring(journal, unload, MigrationState::kReleased, 11);
  bring(journal, late, MigrationState::kReleased, 20);
  bring(journal, undone, MigrationState::kRolledBack, 21);
  bring(journal, load, MigrationState::kReleased, 22);
  const auto texts = [&](double since_s) {
    std::vector<std::string> all;
    const std::vector<Journal::PastMove> moves = journal.moves_since(since_s).value();
    for (const Journal::PastMove& move : moves) {
      all.push_back(
          fmt::format("{} {}-{} {}", move.worker.worker, move.from, move.to, move.ended_s));
    }
    return all;
  };
  EXPECT_THAT(texts(0), ElementsAre("0 a-b 10", "1 c-d 20", "3 g-h 5", "4 i-k 22"));
  EXPECT_THAT(texts(15), ElementsAre("1 c-d 20", "3 g-h 5", "4 i-k 22"));
  EXPECT_THAT(texts(100), ElementsAre("3 g-h 5"));
}

TEST_F(JournalTest, keeps_events_and_settings) {
  Journal journal = open();
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(journal.add_event(i, "plan", fmt::format("event {}", i), "{}").ok());
  }
  EXPECT_THAT(journal.events_after(2, 2).value(), SizeIs(2));
  EXPECT_EQ(journal.events_after(2, 2).value()[0].text, "event 2");
  const std::vector<Event> newest = journal.newest_events(2).value();
  ASSERT_THAT(newest, SizeIs(2));
  EXPECT_EQ(newest[0].text, "event 3");
  EXPECT_EQ(newest[1].id, 5);
  EXPECT_FALSE(journal.get("fence").value());
  ASSERT_TRUE(journal.set("fence", "1").ok());
  ASSERT_TRUE(journal.set("fence", "2").ok());
  EXPECT_EQ(journal.get("fence").value(), "2");
}

TEST_F(JournalTest, pruning_keeps_the_newest_and_what_is_in_use) {
  Journal journal = open();
  const int64_t running = plan_in(journal), old = plan_in(journal, PlanState::kDone),
                waiting = plan_in(journal, PlanState::kWaiting),
                young = plan_in(journal, PlanState::kDone);
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(journal.add_event(i, "plan", "", "{}").ok());
  ASSERT_TRUE(journal.prune(1, 2).ok());
  EXPECT_EQ(journal.plan(running).value()->snapshot, "{}");
  EXPECT_EQ(journal.plan(old).value()->snapshot, "");
  EXPECT_EQ(journal.plan(waiting).value()->snapshot, "{}");
  EXPECT_EQ(journal.plan(young).value()->snapshot, "{}");
  EXPECT_THAT(journal.events_after(0, 99).value(), SizeIs(2));
  ASSERT_TRUE(journal.add_event(9, "plan", "", "{}").ok());
  EXPECT_EQ(journal.newest_events(1).value()[0].id, 6) << "numbers are not used twice";
}

TEST_F(JournalTest, refuses_a_second_controller) {
  const Journal first = open();
  const absl::StatusOr<Journal> second = Journal::open(file_);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("another program has the file"));
}

TEST_F(JournalTest, refuses_a_second_controller_in_another_process) {
  const Journal first = open();
  const pid_t child = fork();
  if (child == 0) {
    const absl::StatusOr<Journal> second = Journal::open(file_);
    _exit(absl::IsUnavailable(second.status()) ? 17 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 17);
}

TEST_F(JournalTest, survives_the_kill_of_its_process) {
  const pid_t child = fork();
  if (child == 0) {
    absl::StatusOr<Journal> journal = Journal::open(file_);
    const int64_t plan = journal->add_plan({}).value();
    Migration one = migration(plan, 0, 0, "a", "b");
    if (!journal->add_migrations({one}, 1).ok()) _exit(1);
    if (!journal->begin_step(one, Step::kHold, 2).ok()) _exit(1);
    kill(getpid(), SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  const Journal journal = open();
  EXPECT_THAT(journal.unfinished().value(), ElementsAre(migration(1, 0, 0, "a", "b")));
  EXPECT_THAT(journal.steps(1).value(), SizeIs(1));
}

TEST_F(JournalTest, keeps_who_asked_for_what) {
  Journal journal = open();
  AuditEntry one;
  one.time_s = 5;
  one.who = "ann";
  one.role = "operate";
  one.from = "10.0.0.7";
  one.call = "POST /api/v1/pause";
  one.said = "night";
  one.id = journal.add_audit(one).value();
  EXPECT_EQ(journal.newest_audit(10)->at(0).outcome, "begun");
  ASSERT_TRUE(journal.set_audit_outcome(one.id, "OK").ok());
  one.outcome = "OK";
  AuditEntry refused;
  refused.call = "POST /api/v1/resume";
  refused.outcome = "401";
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(journal.add_audit(refused).ok());
  EXPECT_THAT(*journal.newest_audit(2), SizeIs(2));
  ASSERT_TRUE(journal.prune(10, 3).ok());
  const std::vector<AuditEntry> left = *journal.newest_audit(10);
  ASSERT_THAT(left, SizeIs(4)) << "refusals go, what people did stays";
  EXPECT_EQ(left[0], one);
}

TEST_F(JournalTest, brings_an_older_file_up_to_date) {
  {
    const absl::StatusOr<Database> database = Database::open(file_);
    const absl::StatusOr<std::string> old =
        read_file(std::string(MONKEYTREE_TEST_DATA) + "/journal/version1.sql");
    ASSERT_TRUE(old.ok()) << old.status();
    const absl::Status status = database->run(*old);
    ASSERT_TRUE(status.ok()) << status;
  }
  for (int i = 0; i < 2; ++i) {  // the second time it is of this version
    Journal journal = open();
    EXPECT_EQ((*journal.plan(1))->approved_by, "ann");
    EXPECT_EQ((*journal.plan(2))->state, PlanState::kRunning);
    EXPECT_EQ(journal.newest_events(10)->at(0).text, "plan 1: 2 moves (optimal)");
    EXPECT_EQ(**journal.get("paused"), "by ann");
    EXPECT_TRUE(journal.add_audit({}).ok());
    EXPECT_THAT(*journal.newest_audit(10), SizeIs(i + 1));
  }
}

TEST_F(JournalTest, refuses_a_newer_version) {
  { open(); }
  {
    absl::StatusOr<Database> database = Database::open(file_);
    ASSERT_TRUE(database.ok());
    ASSERT_TRUE(database->run(fmt::format("PRAGMA user_version={}", Journal::kVersion + 1)).ok());
  }
  const absl::StatusOr<Journal> journal = Journal::open(file_);
  EXPECT_EQ(journal.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(journal.status().message()), HasSubstr("written by a newer MonkeyTree"));
}

TEST_F(JournalTest, refuses_what_is_no_journal) {
  std::ofstream(file_) << std::string(8192, 'x');
  EXPECT_EQ(Journal::open(file_).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(Journal::open(folder_ + "/no/such/folder/journal.db").status().code(),
            absl::StatusCode::kUnavailable);
}

TEST_F(JournalTest, finds_damaged_migrations) {
  {
    Journal journal = open();
    ASSERT_TRUE(journal.add_migrations({migration(plan_in(journal), 0, 0, "a", "b")}, 1).ok());
  }
  {
    absl::StatusOr<Database> database = Database::open(file_);
    ASSERT_TRUE(database->run("UPDATE migrations SET document='{\"id\":1}'").ok());
  }
  const Journal journal = open();
  EXPECT_EQ(journal.unfinished().status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(journal.unfinished().status().message()), HasSubstr("migration 1.0.0"));
  EXPECT_EQ(journal.moves_since(0).status().code(), absl::StatusCode::kDataLoss);
}

/// Files may not grow while it lives: the disk is full.
class FullDisk {
 public:
  explicit FullDisk(const std::string& file) {
    old_action_ = std::signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &old_limit_);
    rlimit limit = old_limit_;
    std::error_code none;
    const uintmax_t size = std::filesystem::file_size(file, none);
    limit.rlim_cur = none ? 0 : static_cast<rlim_t>(size);
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FullDisk() {
    setrlimit(RLIMIT_FSIZE, &old_limit_);
    std::signal(SIGXFSZ, old_action_);
  }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;

 private:
  rlimit old_limit_{};
  void (*old_action_)(int) = nullptr;
};

TEST_F(JournalTest, a_full_disk_is_an_error_and_loses_nothing) {
  Migration one;
  {
    Journal journal = open();
    one = migration(plan_in(journal), 0, 0, "a", "b");
    ASSERT_TRUE(journal.add_migrations({one}, 1).ok());
    {
      const FullDisk full(file_ + "-wal");
      const absl::StatusOr<int> attempt = journal.begin_step(one, Step::kHold, 2);
      EXPECT_TRUE(absl::IsUnavailable(attempt.status()) ||
                  absl::IsResourceExhausted(attempt.status()))
          << attempt.status();
      EXPECT_FALSE(journal.add_event(1, "plan", std::string(100'000, 'x'), "{}").ok());
      EXPECT_THAT(journal.unfinished().value(), ElementsAre(one)) << "it can still be read";
    }
    EXPECT_EQ(journal.begin_step(one, Step::kHold, 3).value(), 1) << "and written, later";
  }
  const Journal journal = open();
  EXPECT_THAT(journal.unfinished().value(), ElementsAre(one));
  EXPECT_THAT(journal.steps(one.plan).value(), SizeIs(1));
  EXPECT_THAT(journal.newest_events(9).value(), IsEmpty());
}

TEST_F(JournalTest, a_gate_refuses_writes_only) {
  Journal journal = open();
  const Migration one = migration(plan_in(journal), 0, 0, "a", "b");
  ASSERT_TRUE(journal.add_migrations({one}, 1).ok());
  journal.set_gate([] { return false; });
  EXPECT_FALSE(journal.add_plan({}).ok());
  EXPECT_FALSE(journal.set_plan_state(1, PlanState::kDone, "", 1.0).ok());
  EXPECT_FALSE(journal.set_approved(1, "").ok());
  EXPECT_FALSE(journal.add_migrations({}, 1).ok());
  EXPECT_FALSE(journal.begin_step(one, Step::kHold, 1).ok());
  EXPECT_FALSE(journal.end_step(one, Step::kHold, 1, absl::OkStatus(), 1).ok());
  EXPECT_FALSE(journal.add_event(1, "", "", "").ok());
  EXPECT_FALSE(journal.set("a", "b").ok());
  EXPECT_FALSE(journal.prune(1, 1).ok());
  EXPECT_THAT(journal.unfinished().value(), ElementsAre(one));
  journal.set_gate({});
  EXPECT_TRUE(journal.set("a", "b").ok());
}

TEST_F(JournalTest, takes_many_threads) {
  Journal journal = open();
  const int64_t plan = plan_in(journal);
  constexpr int kThreads = 8, kSteps = 20;
  std::vector<Migration> all;
  for (int i = 0; i < kThreads; ++i) all.push_back(migration(plan, 0, i, "a", "b"));
  ASSERT_TRUE(journal.add_migrations(all, 1).ok());
  {
    std::vector<std::jthread> threads;
    for (const Migration& one : all) {
      threads.emplace_back([&journal, &one] {
        for (int i = 1; i <= kSteps; ++i) {
          EXPECT_EQ(journal.begin_step(one, Step::kHold, i).value(), i);
          EXPECT_TRUE(journal.end_step(one, Step::kHold, i, absl::OkStatus(), i).ok());
        }
      });
    }
  }
  EXPECT_THAT(journal.steps(plan).value(), SizeIs(kThreads * kSteps));
}

}  // namespace
}  // namespace monkeytree
