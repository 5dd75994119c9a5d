#include "control/fake_world.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <stop_token>

#include "base/status.h"

namespace monkeytree {
namespace {

Deadline never() { return std::chrono::steady_clock::now() + std::chrono::hours(1); }

absl::Status dead() { return absl::UnavailableError("the controller was killed"); }

class CountedScheduler final : public Scheduler {
 public:
  CountedScheduler(Scheduler& scheduler, Calls& calls) : scheduler_(scheduler), calls_(calls) {}
  bool replaces_workers() const override { return scheduler_.replaces_workers(); }

  std::string describe() const override { return scheduler_.describe(); }
  std::string why_read_only() const override { return scheduler_.why_read_only(); }
  absl::StatusOr<Observation> observe(Deadline deadline) override {
    if (!calls_.next()) return dead();
    return scheduler_.observe(deadline);
  }
  absl::StatusOr<Hold> hold(const WorkerName& worker, const std::string& node,
                            const std::string& reservation, Deadline deadline) override {
    if (!calls_.next()) return dead();
    return scheduler_.hold(worker, node, reservation, deadline);
  }
  absl::Status start(const Hold& hold, const WorkerCommand& command, Deadline deadline) override {
    return calls_.next() ? scheduler_.start(hold, command, deadline) : dead();
  }
  absl::Status give_back(const WorkerName& worker, const std::string& node,
                         const std::vector<std::string>& order, Deadline deadline) override {
    return calls_.next() ? scheduler_.give_back(worker, node, order, deadline) : dead();
  }
  absl::Status cancel(const Hold& hold, Deadline deadline) override {
    return calls_.next() ? scheduler_.cancel(hold, deadline) : dead();
  }
  absl::Status reserve(const std::string& name, const std::vector<std::string>& nodes,
                       Deadline deadline) override {
    return calls_.next() ? scheduler_.reserve(name, nodes, deadline) : dead();
  }
  absl::Status unreserve(const std::string& name, Deadline deadline) override {
    return calls_.next() ? scheduler_.unreserve(name, deadline) : dead();
  }
  absl::StatusOr<std::vector<std::string>> booked(const std::string& job,
                                                  Deadline deadline) override {
    if (!calls_.next()) return dead();
    return scheduler_.booked(job, deadline);
  }

 private:
  Scheduler& scheduler_;
  Calls& calls_;
};

class CountedExecutor final : public Executor {
 public:
  CountedExecutor(Executor& executor, Calls& calls) : executor_(executor), calls_(calls) {}

  std::vector<AgentReport> agents() override { return executor_.agents(); }
  absl::Status prepare(const std::string& migration, const WorkerName& worker,
                       const std::string& node, int64_t state_bytes, Deadline deadline) override {
    return calls_.next() ? executor_.prepare(migration, worker, node, state_bytes, deadline)
                         : dead();
  }
  absl::StatusOr<int64_t> pause(const std::string& migration, const std::string& job,
                                const std::map<WorkerName, std::string>& nodes,
                                Deadline deadline) override {
    if (!calls_.next()) return dead();
    return executor_.pause(migration, job, nodes, deadline);
  }
  absl::Status transfer(const std::string& migration, const WorkerName& worker,
                        const std::string& from, const std::string& to,
                        Deadline deadline) override {
    return calls_.next() ? executor_.transfer(migration, worker, from, to, deadline) : dead();
  }
  absl::Status restore(const std::string& migration, const WorkerName& worker,
                       const std::string& node, Deadline deadline) override {
    return calls_.next() ? executor_.restore(migration, worker, node, deadline) : dead();
  }
  absl::Status resume(const std::string& migration, const std::string& job,
                      const std::map<WorkerName, std::string>& nodes, Deadline deadline) override {
    return calls_.next() ? executor_.resume(migration, job, nodes, deadline) : dead();
  }
  absl::Status release(const std::string& migration, const WorkerName& worker,
                       const std::string& node, Deadline deadline) override {
    return calls_.next() ? executor_.release(migration, worker, node, deadline) : dead();
  }
  absl::Status roll_back(const std::string& migration, const std::string& job,
                         const std::map<WorkerName, std::string>& nodes, bool go_on,
                         Deadline deadline) override {
    return calls_.next() ? executor_.roll_back(migration, job, nodes, go_on, deadline) : dead();
  }
  void apply_routes(const std::vector<PreviousRoute>& routes) override {
    executor_.apply_routes(routes);
  }

 private:
  Executor& executor_;
  Calls& calls_;
};

/// In memory where there is such a place: the journal waits for its disk at every write.
std::string scratch_folder() {
  const char* base = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
  std::string folder = fmt::format("{}/monkeytree_world_XXXXXX", base);
  return mkdtemp(folder.data()) != nullptr ? folder : "";
}

}  // namespace

void Calls::at(int number, std::function<void()> then) {
  const std::lock_guard lock(mutex_);
  then_.emplace(number, std::move(then));
}

void Calls::kill_at(int number, std::function<void()> dead) {
  const std::lock_guard lock(mutex_);
  kill_at_ = number;
  on_death_ = std::move(dead);
}

void Calls::revive() {
  const std::lock_guard lock(mutex_);
  kill_at_ = -1;
  dead_ = false;
  then_.clear();
  on_death_ = nullptr;
}

int Calls::made() const {
  const std::lock_guard lock(mutex_);
  return made_;
}

bool Calls::killed() const {
  const std::lock_guard lock(mutex_);
  return dead_;
}

bool Calls::next() {
  std::vector<std::function<void()>> now;
  bool may = true;
  {
    const std::lock_guard lock(mutex_);
    if (dead_) return false;
    const int number = made_++;
    for (auto due = then_.begin(); due != then_.end() && due->first <= number;) {
      now.push_back(std::move(due->second));
      due = then_.erase(due);
    }
    if (number == kill_at_) {
      dead_ = true;
      may = false;
      now.push_back(std::move(on_death_));
    }
  }
  for (const std::function<void()>& one : now) one();
  return may;
}

Snapshot drawn_cluster(const std::vector<std::string>& racks, int uplinks) {
  size_t nodes = 0;
  for (const std::string& rack : racks) nodes = std::max(nodes, rack.size());
  Snapshot cluster =
      uniform_cluster(static_cast<int>(racks.size()), static_cast<int>(nodes), 1, uplinks);
  std::map<char, std::vector<NodeId>> jobs;
  for (size_t r = 0; r < racks.size(); ++r) {
    for (size_t n = 0; n < racks[r].size(); ++n) {
      if (racks[r][n] != '.') jobs[racks[r][n]].push_back(cluster.racks[RackId(r)].nodes[n]);
    }
  }
  for (const auto& [letter, places] : jobs) {
    Job job;
    job.id = std::string(1, letter);
    job.first_group = GroupId(cluster.groups.size());
    job.group_count = 1;
    Group group;
    group.job = JobId(cluster.jobs.size());
    group.workers = places;
    cluster.groups.push_back(std::move(group));
    cluster.jobs.push_back(std::move(job));
  }
  return cluster;
}

FakeWorld::FakeWorld(const Snapshot& snapshot) : snapshot_(snapshot), folder_(scratch_folder()) {
  journal_file_ = folder_ + "/journal.db";
  workers_.adopt(snapshot_);
  scheduler_ = std::make_unique<EmulatedScheduler>(snapshot_, workers_.callbacks());
}

FakeWorld::~FakeWorld() {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

StepLimits FakeWorld::limits() {
  using Milliseconds = StepLimits::Milliseconds;
  StepLimits limits;
  limits.hold = limits.prepare = limits.pause = limits.transfer = Milliseconds(3);
  limits.restore = limits.resume = limits.release = limits.roll_back = Milliseconds(3);
  limits.first_retry = Milliseconds(1);
  limits.longest_retry = Milliseconds(1);
  return limits;
}

int64_t FakeWorld::add_plan(const std::vector<Round>& rounds) {
  absl::StatusOr<Journal> journal = Journal::open(journal_file_);
  if (!journal.ok()) return -1;
  PlanEntry entry;
  entry.state = PlanState::kRunning;
  const absl::StatusOr<int64_t> id = journal->add_plan(entry);
  if (!id.ok()) return -1;
  WorkerReports reports;
  for (const AgentReport& agent : workers_.agents()) {
    for (const WorkerReport& worker : agent.workers) reports[worker.name] = worker;
  }
  const std::vector<Migration> migrations = migrations_of(*id, snapshot_, rounds, reports);
  return journal->add_migrations(migrations, 0).ok() ? *id : -1;
}

FakeWorld::Outcome FakeWorld::run(int64_t plan) {
  Outcome outcome;
  absl::StatusOr<Journal> journal = Journal::open(journal_file_);
  if (!journal.ok()) {
    outcome.trouble.push_back(text_of(journal.status()));
    return outcome;
  }
  std::atomic<int> refused = 0;
  journal->set_gate([&] {
    if (!calls_.next()) return false;
    if (refuse_writes_ <= 0) return true;
    --refuse_writes_;
    ++refused;
    return false;
  });
  absl::StatusOr<std::vector<Migration>> migrations = journal->migrations(plan);
  if (!migrations.ok()) {
    outcome.trouble.push_back(text_of(migrations.status()));
    return outcome;
  }
  CountedScheduler scheduler(*scheduler_, calls_);
  CountedExecutor executor(workers_, calls_);
  const std::function<double()> clock = [] { return 0.0; };
  const auto notice = [this](const StepNotice& step) {
    if (on_step) on_step(step);
  };
  Mover mover({scheduler, executor, *journal, clock, notice}, limits());
  std::mutex trouble_mutex;
  PlanRun::Hooks hooks;
  hooks.find_nodes = [this](const WorkerName&, const std::string&) { return free_nodes(); };
  hooks.ended = [](const Migration&) {};
  hooks.trouble = [&](const std::string& text) {
    const std::lock_guard lock(trouble_mutex);
    if (outcome.trouble.size() < 20) outcome.trouble.push_back(text);
  };
  PlanRun run(plan, *migrations, mover, scheduler, *journal, clock, std::move(hooks));
  {
    const std::lock_guard lock(mutex_);
    running_ = &run;
  }
  outcome.end = run.run(stop_.get_token());
  {
    const std::lock_guard lock(mutex_);
    running_ = nullptr;
  }
  outcome.refused_writes = refused;
  journal->set_gate({});
  outcome.migrations = journal->migrations(plan).value_or(std::vector<Migration>());
  return outcome;
}

void FakeWorld::kill_at(int number) {
  calls_.kill_at(calls_.made() + number, [this] { stop_.request_stop(); });
}

void FakeWorld::at(int number, std::function<void()> then) {
  calls_.at(calls_.made() + number, std::move(then));
}

void FakeWorld::revive() {
  calls_.revive();
  stop_ = std::stop_source();
}

void FakeWorld::give_up() {
  const std::lock_guard lock(mutex_);
  if (running_ != nullptr) running_->give_up();
}

void FakeWorld::node_dies(const std::string& node) {
  scheduler_->set_node_state(node, NodeState::kDown).IgnoreError();
  workers_.node_dies(node);
}

void FakeWorld::end_job(const std::string& job) {
  workers_.job_ends(job);
  scheduler_->end(job).IgnoreError();
}

std::vector<std::string> FakeWorld::free_nodes() {
  std::vector<std::string> nodes;
  const absl::StatusOr<Observation> seen = scheduler_->observe(never());
  if (!seen.ok()) return nodes;
  std::set<NodeId> taken;
  for (const Group& group : seen->snapshot.groups) {
    taken.insert(group.workers.begin(), group.workers.end());
  }
  for (const NodeId node : seen->snapshot.nodes.keys()) {
    if (seen->snapshot.nodes[node].state == NodeState::kUp && !taken.contains(node)) {
      nodes.push_back(seen->snapshot.nodes[node].name);
    }
  }
  return nodes;
}

std::map<WorkerName, std::string> FakeWorld::expected(
    const std::string& job, const std::vector<Migration>& migrations) const {
  std::map<WorkerName, std::string> nodes;
  for (size_t g = 0; g < snapshot_.groups.size(); ++g) {
    const Group& group = snapshot_.groups[GroupId(g)];
    if (snapshot_.jobs[group.job].id != job) continue;
    for (size_t w = 0; w < group.workers.size(); ++w) {
      nodes[{job, snapshot_.group_index(GroupId(g)), static_cast<int>(w)}] =
          snapshot_.nodes[group.workers[w]].name;
    }
  }
  for (const Migration& migration : migrations) {
    if (migration.job != job || migration.state != MigrationState::kReleased) continue;
    for (const WorkerMove& move : migration.moves) nodes[move.worker] = move.to;
  }
  return nodes;
}

void FakeWorld::check_job(const std::string& job, const std::vector<Migration>& migrations,
                          std::vector<std::string>& faults) {
  const std::map<WorkerName, std::string> wanted = expected(job, migrations);
  if (workers_.running(job) != wanted) {
    faults.push_back(fmt::format("job {} does not run where the journal says", job));
  }
  std::set<std::string> nodes;
  for (const auto& [worker, node] : wanted) nodes.insert(node);
  const std::vector<std::string> booked = *scheduler_->booked(job, never());
  if (!std::equal(booked.begin(), booked.end(), nodes.begin(), nodes.end())) {
    faults.push_back(fmt::format("the books give job {} {}, and it is on {}", job,
                                 fmt::join(booked, " "), fmt::join(nodes, " ")));
  }
  if (const std::vector<std::string> told = scheduler_->order(job); !told.empty()) {
    std::vector<std::string> order;
    for (const auto& [worker, node] : wanted) order.push_back(node);
    if (told != order) {
      faults.push_back(fmt::format("job {} was told as {} in order, and it is {}", job,
                                   fmt::join(told, " "), fmt::join(order, " ")));
    }
  }
  const int64_t before = workers_.iteration(job);
  workers_.step();
  if (workers_.iteration(job) != before + 1) {
    faults.push_back(fmt::format("job {} does not go on", job));
  }
}

std::vector<std::string> FakeWorld::faults(const std::vector<Migration>& migrations) {
  scheduler_->heal();
  workers_.heal();
  absl::StatusOr<Observation> seen = scheduler_->observe(never());
  std::vector<std::string> faults;
  if (!seen.ok()) return {text_of(seen.status())};
  for (const Hold& orphan : seen->orphans) scheduler_->cancel(orphan, never()).IgnoreError();
  for (const std::string& job : scheduler_->running()) check_job(job, migrations, faults);
  for (const Hold& hold : seen->holds) {
    if (expected(hold.worker.job, migrations).at(hold.worker) != hold.node) {
      faults.push_back(fmt::format("node {} is held for worker {}, which is elsewhere", hold.node,
                                   to_string(hold.worker)));
    }
  }
  for (const std::string& name : seen->reservations) {
    faults.push_back(fmt::format("reservation {} still stands", name));
  }
  for (const Migration& migration : migrations) {
    if (!ended(migration)) {
      faults.push_back(
          fmt::format("migration {} is still {}", migration.id, name_of(migration.state)));
    }
  }
  if (const std::string fault = scheduler_->inconsistency(); !fault.empty()) {
    faults.push_back(fault);
  }
  for (const std::string& left : workers_.leftovers()) faults.push_back(left + " is left over");
  for (const std::string& violation : workers_.violations()) faults.push_back(violation);
  return faults;
}

}  // namespace monkeytree
