#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "control/fake_scenes.h"
#include "control/fake_world.h"

/// The table of docs/faults.md, played out: a job's worker moves directly, and a fault comes while
/// the migration is in each of its states. MONKEYTREE_WRITE_GOLDEN=1 writes the page anew.
namespace monkeytree {
namespace {

constexpr int kOver = 60;       ///< calls until what may come back has come back
constexpr int kHopeless = 120;  ///< calls until a person ends the job
const std::string kJob = "A";
constexpr int kStates = 7;  ///< planned … resumed: those that a step leads on from

/// What a fault does when the step out of a state begins; false where there is no such fault.
using Fault = std::function<bool(FakeWorld&, Step)>;

std::optional<ExecutorCall> agents_call(Step step) {
  if (step < Step::kPrepare || step > Step::kRelease) return std::nullopt;
  return static_cast<ExecutorCall>(static_cast<int>(step) - static_cast<int>(Step::kPrepare));
}

std::optional<SchedulerCall> schedulers_call(Step step) {
  if (step == Step::kHold) return SchedulerCall::kHold;
  if (step == Step::kPrepare) return SchedulerCall::kStart;
  if (step == Step::kRelease) return SchedulerCall::kGiveBack;
  return std::nullopt;
}

Fault agents(ExecutorFault fault) {
  return [fault](FakeWorld& world, Step step) {
    const std::optional<ExecutorCall> call = agents_call(step);
    const bool checks_sums = step == Step::kTransfer || step == Step::kRestore;
    if (!call || (fault == ExecutorFault::kDataLoss && !checks_sums)) return false;
    world.workers().inject(*call, fault);
    return true;
  };
}

Fault scheduler(SchedulerFault fault) {
  return [fault](FakeWorld& world, Step step) {
    const std::optional<SchedulerCall> call = schedulers_call(step);
    if (call) world.scheduler().inject(*call, fault);
    return call.has_value();
  };
}

Fault away(bool source) {
  return [source](FakeWorld& world, Step) {
    const std::string node = source ? "r1n0" : "r0n2";
    world.workers().agent_down(node);
    world.at(kOver, [&world, node] { world.workers().agent_up(node); });
    return true;
  };
}

Fault dies(bool source) {
  return [source](FakeWorld& world, Step) {
    const std::string node = source ? "r1n0" : "r0n2";
    world.node_dies(node);
    world.at(kOver, [&world] {
      if (world.workers().broken(kJob)) world.end_job(kJob);
      world.workers().all_agents_up();
    });
    world.at(kHopeless, [&world] { world.end_job(kJob); });
    return true;
  };
}

struct Row {
  std::string name;
  Fault fault;
};

std::vector<Row> rows() {
  return {
      {"controller killed, started again",
       [](FakeWorld& world, Step) {
         world.kill_at(1);
         return true;
       }},
      {"plan cancelled",
       [](FakeWorld& world, Step) {
         world.give_up();
         return true;
       }},
      {"job ends or is cancelled",
       [](FakeWorld& world, Step) {
         world.end_job(kJob);
         return true;
       }},
      {"journal's disk full for a while",
       [](FakeWorld& world, Step) {
         world.refuse_writes(5);
         return true;
       }},
      {"scheduler refuses", scheduler(SchedulerFault::kRefuse)},
      {"scheduler does not answer", scheduler(SchedulerFault::kUnavailable)},
      {"scheduler hangs past the deadline", scheduler(SchedulerFault::kHang)},
      {"scheduler's answer is lost", scheduler(SchedulerFault::kFailAfterDoing)},
      {"agent or worker refuses", agents(ExecutorFault::kRefuse)},
      {"agent does not answer", agents(ExecutorFault::kUnavailable)},
      {"agent hangs past the deadline", agents(ExecutorFault::kHang)},
      {"agent's answer is lost", agents(ExecutorFault::kFailAfterDoing)},
      {"step stops halfway", agents(ExecutorFault::kFailHalfway)},
      {"a byte is wrong", agents(ExecutorFault::kDataLoss)},
      {"agent of the source away", away(true)},
      {"agent of the destination away", away(false)},
      {"source node dies", dies(true)},
      {"destination node dies", dies(false)},
  };
}

/// What became of the job when the fault came in that state; "?" and more where something is wrong.
std::string outcome_of(const Fault& fault, int state) {
  const Scene& scene = scenes().front();
  FakeWorld world(scene.cluster);
  const int64_t plan = world.add_plan(scene.rounds);
  bool met = false, exists = false;
  int when = 0;
  world.kill_at(kForEver);
  world.on_step = [&](const StepNotice& notice) {
    if (met || !notice.began || notice.step != static_cast<Step>(state)) return;
    met = true;
    when = world.calls().made();
    exists = fault(world, notice.step);
  };
  FakeWorld::Outcome outcome = world.run(plan);
  if (!met) return "? the state was not reached";
  if (!exists) return "–";
  const bool waited = world.calls().made() - when > kOver;
  const bool failed = world.workers().broken(kJob);  // by itself, as if it had never moved
  if (world.calls().killed()) {
    world.revive();
    outcome = world.run(plan);
  }
  const std::vector<std::string> faults = faults_at_the_end(world, outcome);
  if (!faults.empty()) return fmt::format("? {}", fmt::join(faults, ", "));
  if (failed) return waited ? "waits, ends" : "ends";
  switch (outcome.migrations.front().state) {
    case MigrationState::kReleased:
      return waited ? "waits, on" : "on";
    case MigrationState::kRolledBack:
      return waited ? "waits, back" : "back";
    case MigrationState::kAbandoned:
      return waited ? "waits, ends" : "ends";
    default:
      return "?";
  }
}

std::string table() {
  std::string text = "| fault |", rule = "|---|";
  for (int state = 0; state < kStates; ++state) {
    text += fmt::format(" {} |", name_of(static_cast<MigrationState>(state)));
    rule += "---|";
  }
  text += "\n" + rule + "\n";
  for (const Row& row : rows()) {
    text += fmt::format("| {} |", row.name);
    for (int state = 0; state < kStates; ++state) {
      text += fmt::format(" {} |", outcome_of(row.fault, state));
    }
    text += "\n";
  }
  return text;
}

TEST(FaultsTable, is_what_happens) {
  const std::string file = std::string(MONKEYTREE_SOURCE_DIR) + "/docs/faults.md";
  const std::string begin = "<!-- played out by faults_table_test -->\n", end = "<!-- end -->\n";
  std::string page;
  {
    std::ifstream in(file);
    std::stringstream all;
    all << in.rdbuf();
    page = all.str();
  }
  const size_t from = page.find(begin), to = page.find(end);
  ASSERT_NE(from, std::string::npos);
  ASSERT_LT(from, to);
  const size_t first = from + begin.size();
  const std::string played = table();
  EXPECT_EQ(played.find('?'), std::string::npos) << played;
  if (std::getenv("MONKEYTREE_WRITE_GOLDEN") != nullptr) {
    std::ofstream(file) << page.replace(first, to - first, "\n" + played + "\n");
    return;
  }
  EXPECT_EQ(page.substr(first, to - first), "\n" + played + "\n")
      << "MONKEYTREE_WRITE_GOLDEN=1 writes the page anew";
}

}  // namespace
}  // namespace monkeytree
