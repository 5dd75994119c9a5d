/// SlurmScheduler on a real cluster of 16 nodes in 4 racks. Built for each
/// MONKEYTREE_SLURM_FLAVOUR, which says how its books follow moves.
#include "inventory/slurm_scheduler.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <sstream>
#include <thread>

#include "base/eventually.h"
#include "base/hostlist.h"
#include "cluster/snapshot_json.h"
#include "slurm_cluster.h"

namespace monkeytree {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr SlurmFlavour kFlavour = SlurmFlavour::MONKEYTREE_SLURM_FLAVOUR;
constexpr bool kCompanions = kFlavour == SlurmFlavour::kCompanion;
/// Jobs are not root's: nothing may need that they are.
constexpr const char* kUser = "daemon";

Deadline within(seconds time = seconds(120)) { return std::chrono::steady_clock::now() + time; }

class SlurmSchedulerTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (!SlurmCluster::missing().empty()) return;
    SlurmClusterOptions options;
    options.flavour = kFlavour;
    options.rest = true;
    absl::StatusOr<std::unique_ptr<SlurmCluster>> cluster = SlurmCluster::start(options);
    ASSERT_TRUE(cluster.ok()) << cluster.status();
    cluster_ = *std::move(cluster);
    // Where jobs of another user may write.
    std::filesystem::create_directory(cluster_->folder() + "/jobs");
    chmod((cluster_->folder() + "/jobs").c_str(), 0777);
  }
  static void TearDownTestSuite() { cluster_.reset(); }

  void SetUp() override {
    if (const std::string why = SlurmCluster::missing(); !why.empty()) GTEST_SKIP() << why;
    ASSERT_TRUE(cluster_);
    scheduler_ = std::make_unique<SlurmScheduler>(settings());
  }

  void TearDown() override {
    if (!cluster_) return;
    for (const std::string& job : jobs_) cluster_->try_run({"scancel", job});
    cluster_->try_run({"scancel", "--user=" + std::string(kUser)});
    EXPECT_TRUE(eventually([&] { return cluster_->not_idle().empty(); })) << cluster_->not_idle();
  }

  static SlurmSettings settings() {
    SlurmSettings settings;
    settings.topology = cluster_->topology();
    settings.uplinks = "2";
    settings.slurm_conf = cluster_->slurm_conf();
    return settings;
  }

  /// A job that runs until end() on the nodes; with a batch script or, as salloc --no-shell gives
  /// it, without.
  std::string submit(const std::string& nodes, bool batch, const std::string& more_comment = "") {
    const size_t count = expand_hostlist(nodes)->size();
    std::vector<std::string> words = {batch ? "sbatch" : "salloc",
                                      fmt::format("--nodes={}", count),
                                      "--nodelist=" + nodes,
                                      "--exclusive",
                                      "--ntasks-per-node=1",
                                      "--time=60",
                                      fmt::format("--comment=dp={},tp=8{}", count, more_comment)};
    if (kCompanions) words.push_back("--gres=gpu:8");
    if (!kCompanions) words[6] = fmt::format("--comment=dp={}{}", count, more_comment);
    if (batch) {
      words.insert(
          words.end(),
          {"--parsable", "--output=" + file("out-%j"),
           fmt::format("--wrap=while ! [ -e {}-$SLURM_JOB_ID ]; do sleep 0.1; done", file("end"))});
    } else {
      words.push_back("--no-shell");
    }
    std::string id = cluster_->run(words, kUser);
    const size_t digits = id.find_first_of("0123456789");
    id = id.substr(digits, id.find_first_not_of("0123456789", digits) - digits);
    jobs_.push_back(id);
    EXPECT_TRUE(eventually([&] { return state(id) == "RUNNING"; })) << state(id);
    return id;
  }

  void end(const std::string& job) { std::ofstream(file("end-" + job)); }

  static std::string file(const std::string& name) { return cluster_->folder() + "/jobs/" + name; }
  static std::string text(const std::string& name) {
    std::ifstream in(file(name));
    return {std::istreambuf_iterator<char>(in), {}};
  }

  static std::string state(const std::string& job) {
    const std::string text = cluster_->run({"scontrol", "--oneliner", "show", "job", job});
    return read_one_liners(text).at(0).at("JobState");
  }
  static std::string shown(const std::string& job) {
    return cluster_->run({"scontrol", "--oneliner", "show", "job", job});
  }
  static std::vector<std::string> queued(const std::string& job) {
    std::string nodes = cluster_->run({"squeue", "--noheader", "--jobs=" + job, "--format=%N"});
    while (!nodes.empty() && nodes.back() == '\n') nodes.pop_back();
    return expand_hostlist(nodes).value();
  }

  Observation observe() {
    absl::StatusOr<Observation> seen = scheduler_->observe(within());
    EXPECT_TRUE(seen.ok()) << seen.status();
    return seen.ok() ? *seen : Observation{};
  }
  static const Job* find(const Observation& seen, const std::string& id) {
    for (const Job& job : seen.snapshot.jobs) {
      if (job.id == id) return &job;
    }
    return nullptr;
  }
  /// Nodes of the job's first group in order; a '!' behind those of pinned workers.
  static std::vector<std::string> workers(const Observation& seen, const std::string& id) {
    const Job* job = find(seen, id);
    if (!job) return {};
    const Group& group = seen.snapshot.groups[job->first_group];
    std::vector<std::string> out;
    for (size_t w = 0; w < group.workers.size(); ++w) {
      out.push_back(seen.snapshot.nodes[group.workers[w]].name +
                    (group.is_pinned(static_cast<int>(w)) ? "!" : ""));
    }
    return out;
  }
  std::vector<std::string> workers(const std::string& id) { return workers(observe(), id); }
  static NodeState node_state(const Observation& seen, const std::string& name) {
    for (const Node& node : seen.snapshot.nodes) {
      if (node.name == name) return node.state;
    }
    return NodeState::kDown;
  }
  std::vector<std::string> booked(const std::string& job) {
    absl::StatusOr<std::vector<std::string>> nodes = scheduler_->booked(job, within());
    EXPECT_TRUE(nodes.ok()) << nodes.status();
    return nodes.ok() ? *nodes : std::vector<std::string>{};
  }
  Hold hold(const WorkerName& worker, const std::string& node, const std::string& with = "") {
    absl::StatusOr<Hold> hold = scheduler_->hold(worker, node, with, within());
    EXPECT_TRUE(hold.ok()) << hold.status();
    return hold.ok() ? *hold : Hold{};
  }
  void give_back(const WorkerName& worker, const std::string& node,
                 const std::vector<std::string>& order) {
    const absl::Status done = scheduler_->give_back(worker, node, order, within());
    EXPECT_TRUE(done.ok()) << done;
  }
  absl::StatusCode hold_code(const WorkerName& worker, const std::string& node,
                             const std::string& with = "") {
    return scheduler_->hold(worker, node, with, within()).status().code();
  }

  static inline std::unique_ptr<SlurmCluster> cluster_;
  std::unique_ptr<SlurmScheduler> scheduler_;
  std::vector<std::string> jobs_;
};

TEST_F(SlurmSchedulerTest, says_what_it_is) {
  EXPECT_THAT(scheduler_->why_read_only(), HasSubstr("not answered"));
  const Observation seen = observe();
  EXPECT_EQ(scheduler_->why_read_only(), "");
  EXPECT_THAT(scheduler_->describe(),
              HasSubstr(kCompanions ? "by companion jobs" : "by merge and shrink"));
  EXPECT_EQ(seen.snapshot.racks.size(), 4u);
  EXPECT_EQ(seen.snapshot.nodes.size(), 16u);
  EXPECT_EQ(seen.snapshot.cluster, "lab");
  EXPECT_THAT(seen.findings, IsEmpty());
}

/// One worker moves, moves on, the job ends well, and nothing is left.
TEST_F(SlurmSchedulerTest, books_follow_a_worker) {
  const std::string job = submit("r0n[0-2]", true);
  cluster_->run({"scontrol", "update", "JobId=" + job, "AdminComment=cost centre 7"});
  EXPECT_THAT(workers(job), ElementsAre("r0n0!", "r0n1", "r0n2"));
  const WorkerName worker{job, 0, 1};

  const Hold first = hold(worker, "r1n0");
  EXPECT_EQ(hold(worker, "r1n0"), first);
  EXPECT_THAT(booked(job), ElementsAre("r0n0", "r0n1", "r0n2", "r1n0"));
  Observation seen = observe();
  EXPECT_THAT(workers(seen, job), ElementsAre("r0n0!", "r0n1", "r0n2"));
  EXPECT_EQ(node_state(seen, "r1n0"), NodeState::kReserved);
  EXPECT_THAT(seen.holds, ElementsAre(first));

  WorkerCommand command;
  command.arguments = {
      "sh", "-c",
      "echo $A $(id -un) $SLURMD_NODENAME $PWD > " + file(job) + "; echo said; exec sleep 600"};
  command.folder = "/tmp";
  command.environment = {{"A", "b c"}, {"SLURM_JOB_ID", "1"}, {"PATH", "/usr/bin:/bin"}};
  absl::Status started = scheduler_->start(first, command, within());
  ASSERT_TRUE(started.ok()) << started;
  EXPECT_TRUE(eventually([&] { return !text(job).empty(); }));
  EXPECT_EQ(text(job), "b c daemon r1n0 /tmp\n");
  EXPECT_TRUE(eventually([&] { return text("out-" + job) == "said\n"; }));
  EXPECT_TRUE(scheduler_->start(first, command, within()).ok());

  give_back(worker, "r0n1", {"r0n0", "r1n0", "r0n2"});
  give_back(worker, "r0n1", {"r0n0", "r1n0", "r0n2"});
  EXPECT_THAT(booked(job), ElementsAre("r0n0", "r0n2", "r1n0"));
  EXPECT_THAT(shown(job), HasSubstr("=cost centre 7 monkeytree-ranks=r0n0,r1n0,r0n2 "));
  EXPECT_TRUE(eventually([&] { return node_state(observe(), "r0n1") == NodeState::kUp; }));
  seen = observe();
  EXPECT_THAT(workers(seen, job), ElementsAre("r0n0!", "r1n0", "r0n2"));
  EXPECT_EQ(node_state(seen, "r1n0"), NodeState::kUp);
  EXPECT_THAT(seen.unmovable, IsEmpty());
  EXPECT_THAT(seen.holds, SizeIs(kCompanions ? 1 : 0));

  // On from there.
  hold(worker, "r2n3");
  EXPECT_THAT(workers(job), ElementsAre("r0n0!", "r1n0", "r0n2"));
  give_back(worker, "r1n0", {"r0n0", "r2n3", "r0n2"});
  EXPECT_TRUE(eventually([&] {
    return booked(job) == std::vector<std::string>{"r0n0", "r0n2", "r2n3"};
  }));
  EXPECT_THAT(workers(job), ElementsAre("r0n0!", "r2n3", "r0n2"));

  end(job);
  EXPECT_TRUE(eventually([&] { return state(job) == "COMPLETED"; })) << state(job);
  EXPECT_THAT(booked(job), IsEmpty());
  seen = observe();
  EXPECT_THAT(seen.holds, IsEmpty());
  ASSERT_THAT(seen.orphans, SizeIs(kCompanions ? 1 : 0));
  for (const Hold& orphan : seen.orphans) {
    EXPECT_EQ(orphan.worker, worker);
    EXPECT_TRUE(scheduler_->cancel(orphan, within()).ok());
  }
  EXPECT_TRUE(eventually([&] { return cluster_->not_idle().empty(); })) << cluster_->not_idle();
  EXPECT_EQ(scheduler_->give_back(worker, "r2n3", {}, within()).code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(hold_code(worker, "r1n0"), absl::StatusCode::kNotFound);
}

TEST_F(SlurmSchedulerTest, two_workers_move_at_once_and_one_is_rolled_back) {
  const std::string job = submit("r0n[0-3]", true);
  const std::vector<WorkerName> names = {{job, 0, 1}, {job, 0, 2}, {job, 0, 3}};
  std::vector<Hold> holds(3);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < 3; ++i) {
    threads.emplace_back([&, i] { holds[i] = hold(names[i], fmt::format("r3n{}", i)); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(booked(job), SizeIs(7));
  EXPECT_THAT(observe().holds, testing::UnorderedElementsAreArray(holds));
  EXPECT_THAT(workers(job), ElementsAre("r0n0!", "r0n1", "r0n2", "r0n3"));
  EXPECT_TRUE(scheduler_->cancel(holds[0], within()).ok());
  EXPECT_TRUE(scheduler_->cancel(holds[0], within()).ok());
  threads.clear();
  for (size_t i : {1u, 2u}) {
    threads.emplace_back([&, i] {
      give_back(names[i], fmt::format("r0n{}", i + 1), {"r0n0", "r0n1", "r3n1", "r3n2"});
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(eventually([&] {
    return booked(job) == std::vector<std::string>{"r0n0", "r0n1", "r3n1", "r3n2"};
  }));
  EXPECT_THAT(workers(job), ElementsAre("r0n0!", "r0n1", "r3n1", "r3n2"));
  EXPECT_EQ(scheduler_->start(holds[0], {{"true"}, "", {}}, within()).code(),
            absl::StatusCode::kNotFound);
  end(job);
  EXPECT_TRUE(eventually([&] { return state(job) == "COMPLETED"; }));
  for (const Hold& orphan : observe().orphans) scheduler_->cancel(orphan, within()).IgnoreError();
}

/// Two workers change places on a full cluster, and a job that waits does not get in between.
TEST_F(SlurmSchedulerTest, a_swap_on_a_full_cluster) {
  const std::string a = submit("r0n[0-3],r1n[0-3]", true);
  const std::string b = submit("r2n[0-3],r3n[0-3]", true);
  const std::string waiting = [&] {
    std::vector<std::string> words = {"sbatch",          "--parsable", "--nodes=1",
                                      "--exclusive",     "--time=60",  "--output=/dev/null",
                                      "--wrap=sleep 600"};
    if (kCompanions) words.push_back("--gres=gpu:8");
    std::string id = cluster_->run(words, kUser);
    id.pop_back();
    jobs_.push_back(id);
    return id;
  }();
  ASSERT_TRUE(scheduler_->reserve("swap-1", {"r3n3", "r1n3"}, within()).ok());
  ASSERT_TRUE(scheduler_->reserve("swap-1", {"r1n3", "r3n3"}, within()).ok());
  EXPECT_EQ(scheduler_->reserve("swap-1", {"r1n3"}, within()).code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(scheduler_->reserve("swap-2", {"r1n3"}, within()).code(), absl::StatusCode::kAborted);
  EXPECT_THAT(observe().reservations, ElementsAre("swap-1"));

  const WorkerName of_a{a, 0, 7}, of_b{b, 0, 7};
  std::vector<std::string> order_a = {"r0n0", "r0n1", "r0n2", "r0n3", "r1n0", "r1n1", "r1n2", ""};
  std::vector<std::string> order_b = {"r2n0", "r2n1", "r2n2", "r2n3", "r3n0", "r3n1", "r3n2", ""};
  give_back(of_a, "r1n3", order_a);  // its state is staged
  Observation seen = observe();
  EXPECT_THAT(workers(seen, a), SizeIs(7));
  EXPECT_THAT(seen.unmovable, ElementsAre(testing::Pair(a, HasSubstr("staged"))));
  hold(of_b, "r1n3", "swap-1");
  order_b[7] = "r1n3";
  give_back(of_b, "r3n3", order_b);
  hold(of_a, "r3n3", "swap-1");
  order_a[7] = "r3n3";
  give_back(of_a, "", order_a);
  EXPECT_EQ(state(waiting), "PENDING");
  ASSERT_TRUE(scheduler_->unreserve("swap-1", within()).ok());
  ASSERT_TRUE(scheduler_->unreserve("swap-1", within()).ok());
  seen = observe();
  EXPECT_THAT(seen.reservations, IsEmpty());
  EXPECT_THAT(seen.unmovable, IsEmpty());
  EXPECT_THAT(workers(seen, a),
              ElementsAre("r0n0!", "r0n1", "r0n2", "r0n3", "r1n0", "r1n1", "r1n2", "r3n3"));
  EXPECT_THAT(workers(seen, b),
              ElementsAre("r2n0!", "r2n1", "r2n2", "r2n3", "r3n0", "r3n1", "r3n2", "r1n3"));
  EXPECT_EQ(state(waiting), "PENDING");
  cluster_->run({"scancel", waiting});
  end(a);
  end(b);
  EXPECT_TRUE(eventually([&] { return state(a) == "COMPLETED" && state(b) == "COMPLETED"; }));
  for (const Hold& orphan : observe().orphans) scheduler_->cancel(orphan, within()).IgnoreError();
}

TEST_F(SlurmSchedulerTest, refuses_what_cannot_be) {
  const std::string job = submit("r0n[0-1]", true);
  const std::string other = submit("r1n[0-1]", false);
  // Taken by another job, unknown, drained.
  EXPECT_EQ(hold_code({job, 0, 1}, "r1n0"), absl::StatusCode::kAborted);
  EXPECT_NE(hold_code({job, 0, 1}, "r9n9"), absl::StatusCode::kOk);
  cluster_->run({"scontrol", "update", "NodeName=r2n0", "State=DRAIN", "Reason=test"});
  EXPECT_NE(hold_code({job, 0, 1}, "r2n0"), absl::StatusCode::kOk);
  EXPECT_EQ(node_state(observe(), "r2n0"), NodeState::kDrain);
  cluster_->run({"scontrol", "update", "NodeName=r2n0", "State=RESUME"});
  // The batch script's node; the job goes on.
  EXPECT_EQ(scheduler_->give_back({job, 0, 0}, "r0n0", {}, within()).code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(state(job), "RUNNING");
  EXPECT_THAT(queued(job), ElementsAre("r0n0", "r0n1"));
  // A job without a batch script; companions cannot take its last node.
  if (kCompanions) {
    EXPECT_THAT(workers(other), ElementsAre("r1n0!", "r1n1"));
  } else {
    EXPECT_THAT(workers(other), ElementsAre("r1n0", "r1n1"));
    hold({other, 0, 0}, "r3n0");
    give_back({other, 0, 0}, "r1n0", {"r3n0", "r1n1"});
    EXPECT_THAT(workers(other), ElementsAre("r3n0", "r1n1"));
  }
  // A node that is held for one worker is not another's.
  hold({job, 0, 1}, "r3n3");
  EXPECT_EQ(hold_code({job, 0, 0}, "r3n3"), absl::StatusCode::kAborted);
  EXPECT_EQ(hold_code({other, 0, 1}, "r3n3"), absl::StatusCode::kAborted);
  // Names that would be options, or more than one word.
  for (const char* name : {"", "-w", "--nodelist", "r0n0,r0n1", "r0n[0-1]", "a b", "r0n0\n"}) {
    EXPECT_EQ(hold_code({job, 0, 1}, name), absl::StatusCode::kInvalidArgument) << name;
    EXPECT_EQ(hold_code({name, 0, 1}, "r3n1"), absl::StatusCode::kInvalidArgument) << name;
    EXPECT_EQ(scheduler_->reserve(name, {"r3n1"}, within()).code(),
              absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(scheduler_->reserve("x", {name}, within()).code(),
              absl::StatusCode::kInvalidArgument);
  }
  EXPECT_THAT(observe().reservations, IsEmpty());
}

/// A command that cannot be started says so at once.
TEST_F(SlurmSchedulerTest, a_successor_that_cannot_start) {
  const std::string job = submit("r0n[0-1]", false);
  const Hold held = hold({job, 0, 1}, "r1n1");
  const absl::Status started = scheduler_->start(held, {{"true"}, "/no/such/folder", {}}, within());
  EXPECT_FALSE(started.ok());
  EXPECT_TRUE(scheduler_->cancel(held, within()).ok());
  EXPECT_TRUE(eventually([&] { return booked(job) == std::vector<std::string>{"r0n0", "r0n1"}; }));
}

/// What Slurm shows of itself, without what changes by itself.
std::string everything(SlurmCluster& cluster) {
  std::string out;
  for (const char* what : {"job", "node", "reservation", "partition", "step"}) {
    for (auto& record : read_one_liners(cluster.run({"scontrol", "--oneliner", "show", what}))) {
      for (const char* key : {"RunTime", "LastSchedEval", "CPULoad", "FreeMem", "LastBusyTime"}) {
        record.erase(key);
      }
      for (const auto& [key, value] : record) out += fmt::format("{}={} ", key, value);
      out += "\n";
    }
  }
  return out;
}

TEST_F(SlurmSchedulerTest, looking_changes_nothing) {
  const std::string job = submit("r0n[0-1]", true, ",monkeytree=on");
  const std::string before = everything(*cluster_);
  for (int i = 0; i < 3; ++i) observe();
  booked(job);
  EXPECT_EQ(everything(*cluster_), before);
}

/// A job whose limit is raised keeps the nodes that it has moved to.
TEST_F(SlurmSchedulerTest, a_raised_time_limit) {
  const std::string job = submit("r0n[0-1]", true);
  const Hold moved = hold({job, 0, 1}, "r1n0");
  give_back({job, 0, 1}, "r0n1", {"r0n0", "r1n0"});
  EXPECT_THAT(observe().short_holds, IsEmpty());
  EXPECT_TRUE(scheduler_->extend(moved, within()).ok());
  cluster_->run({"scontrol", "update", "JobId=" + job, "TimeLimit=300"});
  if (kCompanions) {
    EXPECT_THAT(observe().short_holds, ElementsAre(moved));
  }
  EXPECT_TRUE(scheduler_->extend(moved, within()).ok());
  const Observation seen = observe();
  EXPECT_THAT(seen.short_holds, IsEmpty());
  EXPECT_THAT(seen.findings, IsEmpty());
}

/// What is read from slurmrestd is what the programs print.
TEST_F(SlurmSchedulerTest, sees_the_same_through_slurmrestd) {
  const std::string job = submit("r0n[0-2]", true, ",monkeytree=on");
  hold({job, 0, 1}, "r1n0");
  SlurmSettings settings = SlurmSchedulerTest::settings();
  settings.slurmrestd = cluster_->folder() + "/rest/socket";
  SlurmScheduler rest(settings);
  const absl::StatusOr<Observation> seen = rest.observe(within());
  ASSERT_TRUE(seen.ok()) << seen.status();
  const Observation expected = observe();
  EXPECT_EQ(write_snapshot(seen->snapshot), write_snapshot(expected.snapshot));
  EXPECT_EQ(seen->holds, expected.holds);
  EXPECT_EQ(seen->findings, expected.findings);
  EXPECT_THAT(*rest.booked(job, within()), ElementsAre("r0n0", "r0n1", "r0n2", "r1n0"));

  settings.slurmrestd_version = "v9";
  EXPECT_EQ(SlurmScheduler(settings).observe(within()).status().code(),
            absl::StatusCode::kUnavailable);
  settings.slurmrestd = "/nowhere/socket";
  const absl::Status nobody = SlurmScheduler(settings).observe(within()).status();
  EXPECT_EQ(nobody.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(nobody.message()), HasSubstr("slurmrestd at /nowhere/socket: "));
}

TEST_F(SlurmSchedulerTest, a_slurmctld_that_does_not_answer) {
  const std::string job = submit("r0n[0-1]", true);
  observe();
  // Once slurmctld takes a comment, slurmdbd knows the job: what a restart must not lose.
  EXPECT_TRUE(eventually([&] {
    return cluster_->try_run({"scontrol", "update", "JobId=" + job, "AdminComment=x"}).exit_code ==
           0;
  }));
  cluster_->tell("pause", "slurmctld");
  const auto before = std::chrono::steady_clock::now();
  const WorkerName worker{job, 0, 1};
  const Deadline soon = before + seconds(1);
  EXPECT_EQ(scheduler_->observe(soon).status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(scheduler_->hold(worker, "r1n0", "", within(seconds(1))).status().code(),
            absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(scheduler_->give_back(worker, "r0n1", {}, within(seconds(1))).code(),
            absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(scheduler_->cancel({"1", worker, "r1n0"}, within(seconds(1))).code(),
            absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(scheduler_->booked(job, within(seconds(1))).status().code(),
            absl::StatusCode::kDeadlineExceeded);
  EXPECT_LT(std::chrono::steady_clock::now() - before, seconds(60));
  cluster_->tell("continue", "slurmctld");
  EXPECT_THAT(workers(job), ElementsAre("r0n0!", "r0n1"));

  cluster_->tell("stop", "slurmctld");
  const auto no_answer =
      testing::AnyOf(absl::StatusCode::kUnavailable, absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(scheduler_->observe(within(seconds(2))).status().code(), no_answer);
  EXPECT_THAT(scheduler_->booked(job, within(seconds(2))).status().code(), no_answer);
  cluster_->tell("start", "slurmctld");
  EXPECT_TRUE(eventually([&] { return scheduler_->observe(within()).ok(); }));
  EXPECT_THAT(workers(job), ElementsAre("r0n0!", "r0n1"));
  EXPECT_EQ(state(job), "RUNNING");
  // The books still follow.
  EXPECT_TRUE(eventually([&] { return scheduler_->hold(worker, "r1n0", "", within()).ok(); }));
  give_back(worker, "r0n1", {"r0n0", "r1n0"});
  EXPECT_THAT(workers(job), ElementsAre("r0n0!", "r1n0"));
}

/// Somebody else's job that calls itself a companion is none.
TEST_F(SlurmSchedulerTest, companions_of_other_users_do_not_count) {
  const std::string job = submit("r0n[0-1]", true);
  std::vector<std::string> words = {"salloc",
                                    "--no-shell",
                                    "--nodes=1",
                                    "--nodelist=r2n2",
                                    "--exclusive",
                                    "--time=60",
                                    fmt::format("--comment=companion-of={},group=0,worker=1", job)};
  if (kCompanions) words.push_back("--gres=gpu:8");
  std::string id = cluster_->run(words);
  id = id.substr(id.rfind(' ') + 1);
  id.pop_back();
  jobs_.push_back(id);
  EXPECT_THAT(booked(job), ElementsAre("r0n0", "r0n1"));
  const Observation seen = observe();
  EXPECT_THAT(seen.holds, IsEmpty());
  EXPECT_THAT(seen.orphans, IsEmpty());
  EXPECT_THAT(seen.findings, Contains(HasSubstr("another user's")));
  EXPECT_THAT(workers(seen, job), ElementsAre("r0n0!", "r0n1"));
}

}  // namespace
}  // namespace monkeytree
