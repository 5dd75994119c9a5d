#include "control/fake_workers.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/random.h"

namespace monkeytree {
namespace {

constexpr size_t kMostViolations = 20;

absl::Status lost_answer(ExecutorCall call) {
  return absl::DeadlineExceededError(
      fmt::format("{}: the answer was lost, as injected", name_of(call)));
}

}  // namespace

std::string_view name_of(ExecutorCall call) {
  constexpr std::string_view kNames[] = {"prepare", "pause",   "transfer", "restore",
                                         "resume",  "release", "roll_back"};
  return kNames[static_cast<size_t>(call)];
}

EmulatedWorkers FakeWorkers::callbacks() {
  return {[this](const WorkerName& worker, const std::string& node, const WorkerCommand& command,
                 bool successor) { return start(worker, node, command, successor); },
          [this](const std::string& job, const std::string& node) { end(job, node); }};
}

void FakeWorkers::adopt(const Snapshot& snapshot) {
  const Lock lock(mutex_);
  for (size_t g = 0; g < snapshot.groups.size(); ++g) {
    const Group& group = snapshot.groups[GroupId(g)];
    const std::string& job = snapshot.jobs[group.job].id;
    for (size_t w = 0; w < group.workers.size(); ++w) {
      const WorkerName name{job, snapshot.group_index(GroupId(g)), static_cast<int>(w)};
      jobs_[job].workers.insert(name);
      processes_[{name, snapshot.nodes[group.workers[w]].name}] = {Phase::kRunning, "",
                                                                   state_of(name, 0), true};
    }
  }
}

FakeWorkers::State FakeWorkers::state_of(const WorkerName& worker, int64_t iteration) {
  uint64_t seed = static_cast<uint64_t>(iteration) + 1;
  for (const char letter : to_string(worker)) {
    seed = seed * 0x100000001b3ULL ^ static_cast<unsigned char>(letter);
  }
  return {iteration, RandomSequence(seed).next()};
}

void FakeWorkers::violated(std::string what) {
  if (violations_.size() < kMostViolations) violations_.push_back(std::move(what));
}

FakeWorkers::Process* FakeWorkers::find(const WorkerName& worker, const std::string& node) {
  const auto found = processes_.find({worker, node});
  return found == processes_.end() ? nullptr : &found->second;
}

/// False for workers of jobs that have ended or broken: nothing is promised for them.
bool FakeWorkers::counts(const WorkerName& worker) const {
  const auto job = jobs_.find(worker.job);
  return job != jobs_.end() && !job->second.ended && !job->second.broken;
}

bool FakeWorkers::staged_job(const std::string& job) const {
  return std::any_of(staging_.begin(), staging_.end(), [&](const auto& entry) {
    return entry.first.job == job && entry.second.state &&
           !dropped_.contains(entry.second.migration);
  });
}

bool FakeWorkers::exists(const WorkerName& worker) const {
  const State wanted = state_of(worker, jobs_.at(worker.job).iteration);
  const auto staged = staging_.find(worker);
  if (staged != staging_.end() && staged->second.state == wanted) return true;
  return std::any_of(processes_.begin(), processes_.end(), [&](const auto& entry) {
    return entry.first.first == worker && entry.second.state == wanted;
  });
}

void FakeWorkers::check() {
  for (const auto& [id, job] : jobs_) {
    if (!job.ended && !job.broken) check_job(job);
  }
}

void FakeWorkers::check_job(const JobKnown& job) {
  for (const WorkerName& worker : job.workers) {
    int running = 0;
    for (const auto& [place, process] : processes_) {
      running += place.first == worker && process.phase == Phase::kRunning;
    }
    if (!exists(worker)) {
      violated(fmt::format("the state of worker {} after iteration {} exists nowhere",
                           to_string(worker), job.iteration));
    }
    if (running > 1) violated(fmt::format("worker {} runs {} times", to_string(worker), running));
  }
}

bool FakeWorkers::step_job(const std::string& id, JobKnown& job) {
  if (job.ended || job.broken) return false;
  std::vector<std::pair<WorkerName, Process*>> all;
  for (auto& [place, process] : processes_) {
    if (place.first.job == id && process.phase == Phase::kRunning) {
      all.emplace_back(place.first, &process);
    }
  }
  if (all.size() != job.workers.size()) return false;
  for (auto& [worker, process] : all) {
    if (process->state != state_of(worker, job.iteration)) {
      violated(fmt::format("worker {} goes on from another state than that of iteration {}",
                           to_string(worker), job.iteration));
      return false;
    }
  }
  ++job.iteration;
  for (auto& [worker, process] : all) process->state = state_of(worker, job.iteration);
  return true;
}

void FakeWorkers::step_all() {
  for (auto& [id, job] : jobs_) step_job(id, job);
}

void FakeWorkers::step() {
  const Lock lock(mutex_);
  step_all();
  check();
}

absl::Status FakeWorkers::start(const WorkerName& worker, const std::string& node,
                                const WorkerCommand& command, bool successor) {
  const Lock lock(mutex_);
  if (find(worker, node) != nullptr) {
    violated(fmt::format("worker {} is started on {}, where it is", to_string(worker), node));
    return absl::OkStatus();
  }
  if (!successor) {
    jobs_[worker.job].workers.insert(worker);
    processes_[{worker, node}] = {Phase::kRunning, "", state_of(worker, 0), true};
    return absl::OkStatus();
  }
  const auto migration = command.environment.find("MONKEYTREE_SUCCESSOR_OF");
  if (migration == command.environment.end() || command.arguments.empty()) {
    violated(fmt::format("the successor of {} does not know what it is", to_string(worker)));
    return absl::OkStatus();
  }
  // One whose migration was undone meanwhile learns so from its agent and ends.
  if (!dropped_.contains(migration->second)) {
    processes_[{worker, node}] = {Phase::kWaiting, migration->second, std::nullopt, false};
  }
  check();
  return absl::OkStatus();
}

void FakeWorkers::end(const std::string& job, const std::string& node) {
  const Lock lock(mutex_);
  std::erase_if(processes_, [&](const auto& entry) {
    return entry.first.first.job == job && entry.first.second == node;
  });
  check();
}

void FakeWorkers::job_ends(const std::string& job) {
  const Lock lock(mutex_);
  jobs_[job].ended = true;
}

void FakeWorkers::agent_down(const std::string& node) {
  const Lock lock(mutex_);
  down_.insert(node);
}

void FakeWorkers::agent_up(const std::string& node) {
  const Lock lock(mutex_);
  down_.erase(node);
  for (const std::string& migration : dropped_) drop(migration);
}

void FakeWorkers::all_agents_up() {
  const Lock lock(mutex_);
  down_.clear();
  for (const std::string& migration : dropped_) drop(migration);
}

void FakeWorkers::node_dies(const std::string& node) {
  const Lock lock(mutex_);
  down_.insert(node);
  std::vector<WorkerName> gone;
  std::erase_if(processes_, [&](const auto& entry) {
    if (entry.first.second != node) return false;
    gone.push_back(entry.first.first);
    if (entry.second.phase == Phase::kRunning) jobs_[gone.back().job].broken = true;
    if (entry.second.phase == Phase::kRestored) unnoticed_.insert(gone.back());
    return true;
  });
  for (const WorkerName& worker : gone) {
    if (!exists(worker)) jobs_[worker.job].broken = true;
  }
}

void FakeWorkers::kill(const WorkerName& worker, const std::string& node) {
  const Lock lock(mutex_);
  const Process* process = find(worker, node);
  if (process == nullptr) return;
  const bool ran = process->phase == Phase::kRunning;
  processes_.erase({worker, node});
  if (ran || !exists(worker)) jobs_[worker.job].broken = true;
}

void FakeWorkers::inject(ExecutorCall call, ExecutorFault fault, int times, int skip) {
  const Lock lock(mutex_);
  faults_.push_back({call, fault, times, skip});
}

void FakeWorkers::heal() {
  const Lock lock(mutex_);
  faults_.clear();
  ++heals_;
  healed_.notify_all();
}

std::optional<ExecutorFault> FakeWorkers::meet(ExecutorCall call) {
  step_all();
  ++calls_[call];
  for (auto fault = faults_.begin(); fault != faults_.end(); ++fault) {
    if (fault->call != call) continue;
    if (fault->skip > 0) {
      --fault->skip;
      return std::nullopt;
    }
    const ExecutorFault met = fault->fault;
    if (--fault->times <= 0) faults_.erase(fault);
    return met;
  }
  return std::nullopt;
}

absl::Status FakeWorkers::fail_before(Lock& lock, ExecutorCall call,
                                      std::optional<ExecutorFault> fault, Deadline deadline) {
  const std::string name(name_of(call));
  if (fault == ExecutorFault::kRefuse) {
    return absl::FailedPreconditionError(name + ": refused, as injected");
  }
  if (fault == ExecutorFault::kUnavailable) {
    return absl::UnavailableError(name + ": no answer, as injected");
  }
  if (fault == ExecutorFault::kDataLoss) {
    return absl::DataLossError(name + ": a checksum does not hold, as injected");
  }
  if (fault == ExecutorFault::kHang) {
    const uint64_t before = heals_;
    healed_.wait_until(lock, deadline, [&] { return heals_ != before; });
    return absl::DeadlineExceededError(name + ": no answer by the deadline, as injected");
  }
  return absl::OkStatus();
}

absl::Status FakeWorkers::after(ExecutorCall call, std::optional<ExecutorFault> fault,
                                absl::Status done) {
  check();
  if (done.ok() && fault) return lost_answer(call);
  return done;
}

absl::Status FakeWorkers::reach(const std::string& node) const {
  if (!down_.contains(node)) return absl::OkStatus();
  return absl::UnavailableError(fmt::format("the agent of {} is not connected", node));
}

absl::Status FakeWorkers::prepare(const std::string& migration, const WorkerName& worker,
                                  const std::string& node, int64_t /*state_bytes*/,
                                  Deadline deadline) {
  Lock lock(mutex_);
  const std::optional<ExecutorFault> fault = meet(ExecutorCall::kPrepare);
  absl::Status failed = fail_before(lock, ExecutorCall::kPrepare, fault, deadline);
  if (!failed.ok()) return failed;
  if (failed = reach(node); !failed.ok()) return failed;
  if (node == kStagingNode) {
    if (const auto known = staging_.find(worker);
        known != staging_.end() && known->second.migration != migration) {
      violated(fmt::format("worker {} is staged twice", to_string(worker)));
    }
    staging_.try_emplace(worker, Staged{migration, std::nullopt});
    return after(ExecutorCall::kPrepare, fault, absl::OkStatus());
  }
  Process* process = find(worker, node);
  if (process == nullptr || process->migration != migration) {
    return absl::DeadlineExceededError("the successor has not come");
  }
  process->warm = fault != ExecutorFault::kFailHalfway;
  return after(ExecutorCall::kPrepare, fault, absl::OkStatus());
}

absl::Status FakeWorkers::do_pause(const std::map<WorkerName, std::string>& nodes, bool half) {
  size_t done = 0;
  for (const auto& [worker, node] : nodes) {
    if (half && 2 * done++ >= nodes.size()) break;
    if (absl::Status status = reach(node); !status.ok()) return status;
    Process* process = find(worker, node);
    if (process == nullptr) {
      return absl::NotFoundError(fmt::format("worker {} is not on {}", to_string(worker), node));
    }
    if (process->phase == Phase::kRunning) process->phase = Phase::kPaused;
    if (process->phase != Phase::kPaused && process->phase != Phase::kRestored) {
      violated(fmt::format("worker {} is paused on {}, where it does not live", to_string(worker),
                           node));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<int64_t> FakeWorkers::pause(const std::string& migration, const std::string& job,
                                           const std::map<WorkerName, std::string>& nodes,
                                           Deadline deadline) {
  Lock lock(mutex_);
  const std::optional<ExecutorFault> fault = meet(ExecutorCall::kPause);
  absl::Status failed = fail_before(lock, ExecutorCall::kPause, fault, deadline);
  if (!failed.ok()) return failed;
  if (dropped_.contains(migration)) {
    return absl::FailedPreconditionError("the migration was rolled back");
  }
  const absl::Status done = do_pause(nodes, fault == ExecutorFault::kFailHalfway);
  if (absl::Status status = after(ExecutorCall::kPause, fault, done); !status.ok()) return status;
  for (const auto& [place, process] : processes_) {
    if (counts(place.first) && place.first.job == job && process.phase == Phase::kRunning) {
      violated(fmt::format("worker {} runs on {} though its job is paused", to_string(place.first),
                           place.second));
    }
  }
  return jobs_[job].iteration;
}

absl::Status FakeWorkers::do_transfer(const std::string& migration, const WorkerName& worker,
                                      const std::string& from, const std::string& to, bool half) {
  for (const std::string& end : {from, to}) {
    if (absl::Status status = reach(end); !status.ok()) return status;
  }
  std::optional<State> state;
  if (from == kStagingNode) {
    const auto staged = staging_.find(worker);
    if (staged != staging_.end()) state = staged->second.state;
  } else if (const Process* source = find(worker, from)) {
    if (source->phase == Phase::kRunning) {
      return absl::FailedPreconditionError(
          fmt::format("worker {} is not paused", to_string(worker)));
    }
    state = source->state;
  }
  if (!state) return absl::NotFoundError(fmt::format("{} has no state of it", from));
  if (half) state.reset();
  if (to == kStagingNode) {
    const auto room = staging_.find(worker);
    if (room == staging_.end() || room->second.migration != migration) {
      return absl::FailedPreconditionError("no room was granted");
    }
    room->second.state = state;
    return absl::OkStatus();
  }
  Process* successor = find(worker, to);
  if (successor == nullptr || successor->migration != migration) {
    return absl::NotFoundError(fmt::format("no successor on {}", to));
  }
  successor->state = state;
  return absl::OkStatus();
}

absl::Status FakeWorkers::transfer(const std::string& migration, const WorkerName& worker,
                                   const std::string& from, const std::string& to,
                                   Deadline deadline) {
  Lock lock(mutex_);
  const std::optional<ExecutorFault> fault = meet(ExecutorCall::kTransfer);
  absl::Status failed = fail_before(lock, ExecutorCall::kTransfer, fault, deadline);
  if (!failed.ok()) return failed;
  return after(ExecutorCall::kTransfer, fault,
               do_transfer(migration, worker, from, to, fault == ExecutorFault::kFailHalfway));
}

absl::Status FakeWorkers::restore(const std::string& migration, const WorkerName& worker,
                                  const std::string& node, Deadline deadline) {
  Lock lock(mutex_);
  const std::optional<ExecutorFault> fault = meet(ExecutorCall::kRestore);
  unnoticed_.erase(worker);
  absl::Status failed = fail_before(lock, ExecutorCall::kRestore, fault, deadline);
  if (!failed.ok()) return failed;
  if (failed = reach(node); !failed.ok()) return failed;
  Process* successor = find(worker, node);
  if (successor == nullptr || successor->migration != migration) {
    return absl::NotFoundError(fmt::format("no successor on {}", node));
  }
  if (!successor->state) return absl::FailedPreconditionError("its state is not complete");
  if (fault != ExecutorFault::kFailHalfway) successor->phase = Phase::kRestored;
  return after(ExecutorCall::kRestore, fault, absl::OkStatus());
}

absl::Status FakeWorkers::do_resume(const std::string& migration, const std::string& job,
                                    const std::map<WorkerName, std::string>& nodes, bool half) {
  JobKnown& known = jobs_[job];
  if (counts({job, 0, 0}) && nodes.size() != known.workers.size()) {
    violated(fmt::format("job {} resumes with {} of its {} workers", job, nodes.size(),
                         known.workers.size()));
  }
  for (auto& [place, process] : processes_) {
    const auto lives = nodes.find(place.first);
    if (place.first.job != job || (lives != nodes.end() && lives->second == place.second)) continue;
    if (process.phase == Phase::kRunning && counts(place.first)) {
      violated(fmt::format("migration {}: worker {} still runs on {}, which it left", migration,
                           to_string(place.first), place.second));
    }
    process.phase = Phase::kReplaced;
  }
  size_t done = 0;
  for (const auto& [worker, node] : nodes) {
    if (half && 2 * done++ >= nodes.size()) break;
    if (absl::Status status = reach(node); !status.ok()) return status;
    Process* process = find(worker, node);
    if (process == nullptr) {
      return absl::NotFoundError(fmt::format("worker {} is not on {}", to_string(worker), node));
    }
    if (process->phase == Phase::kReplaced || process->phase == Phase::kWaiting) {
      violated(fmt::format("worker {} would run on {} without having taken up its state",
                           to_string(worker), node));
      continue;
    }
    process->phase = Phase::kRunning;
    process->migration.clear();
  }
  if (!half && !step_job(job, known) && counts({job, 0, 0})) {
    violated(fmt::format("job {} resumed and does not go on", job));
  }
  return absl::OkStatus();
}

absl::Status FakeWorkers::resume(const std::string& migration, const std::string& job,
                                 const std::map<WorkerName, std::string>& nodes,
                                 Deadline deadline) {
  Lock lock(mutex_);
  const std::optional<ExecutorFault> fault = meet(ExecutorCall::kResume);
  absl::Status failed = fail_before(lock, ExecutorCall::kResume, fault, deadline);
  if (!failed.ok()) return failed;
  return after(ExecutorCall::kResume, fault,
               do_resume(migration, job, nodes, fault == ExecutorFault::kFailHalfway));
}

absl::Status FakeWorkers::do_release(const WorkerName& worker, const std::string& node) {
  if (absl::Status status = reach(node); !status.ok()) return status;
  // Nothing can be done against a successor that dies after it was asked for the last time.
  if (unnoticed_.contains(worker)) jobs_[worker.job].broken = true;
  if (node == kStagingNode) {
    staging_.erase(worker);
    return absl::OkStatus();
  }
  const auto found = processes_.find({worker, node});
  if (found == processes_.end()) return absl::NotFoundError("it is gone already");
  if (counts(worker)) {
    if (found->second.phase == Phase::kRunning) {
      violated(fmt::format("worker {} is released on {} while it runs", to_string(worker), node));
    }
    const bool goes_on = std::any_of(processes_.begin(), processes_.end(), [&](const auto& entry) {
      return entry.first.first == worker && entry.second.phase == Phase::kRunning;
    });
    if (!goes_on && !staged_job(worker.job)) {
      violated(fmt::format("worker {} is released on {} before its successor has done a good step",
                           to_string(worker), node));
    }
  }
  processes_.erase(found);
  return absl::OkStatus();
}

absl::Status FakeWorkers::release(const std::string& /*migration*/, const WorkerName& worker,
                                  const std::string& node, Deadline deadline) {
  Lock lock(mutex_);
  const std::optional<ExecutorFault> fault = meet(ExecutorCall::kRelease);
  absl::Status failed = fail_before(lock, ExecutorCall::kRelease, fault, deadline);
  if (!failed.ok()) return failed;
  if (fault == ExecutorFault::kFailHalfway) return lost_answer(ExecutorCall::kRelease);
  return after(ExecutorCall::kRelease, fault, do_release(worker, node));
}

/// Agents that are connected end the migration's successors and drop the copies it has made.
void FakeWorkers::drop(const std::string& migration) {
  std::erase_if(processes_, [&](const auto& entry) {
    return entry.second.migration == migration && !down_.contains(entry.first.second);
  });
  if (down_.contains(kStagingNode)) return;
  std::erase_if(staging_, [&](const auto& entry) { return entry.second.migration == migration; });
}

absl::Status FakeWorkers::do_roll_back(const std::string& migration, const std::string& job,
                                       const std::map<WorkerName, std::string>& nodes, bool go_on,
                                       bool half) {
  dropped_.insert(migration);
  drop(migration);
  if (!go_on) return absl::OkStatus();
  if (staged_job(job) && counts({job, 0, 0})) {
    violated(fmt::format("job {} goes on while a worker of it is staged", job));
  }
  size_t done = 0;
  absl::Status worst;
  for (const auto& [worker, node] : nodes) {
    if (half && 2 * done++ >= nodes.size()) break;
    const absl::Status reached = reach(node);
    Process* process = find(worker, node);
    if (!reached.ok()) {
      worst = reached;
    } else if (process == nullptr) {
      worst = absl::NotFoundError(fmt::format("worker {} is not on {}", to_string(worker), node));
    } else if (process->phase == Phase::kReplaced) {
      violated(
          fmt::format("worker {} would run again on {}, which it left", to_string(worker), node));
    } else {
      process->phase = Phase::kRunning;
    }
  }
  return worst;
}

absl::Status FakeWorkers::roll_back(const std::string& migration, const std::string& job,
                                    const std::map<WorkerName, std::string>& nodes, bool go_on,
                                    Deadline deadline) {
  Lock lock(mutex_);
  const std::optional<ExecutorFault> fault = meet(ExecutorCall::kRollBack);
  absl::Status failed = fail_before(lock, ExecutorCall::kRollBack, fault, deadline);
  if (!failed.ok()) return failed;
  return after(ExecutorCall::kRollBack, fault,
               do_roll_back(migration, job, nodes, go_on, fault == ExecutorFault::kFailHalfway));
}

std::vector<AgentReport> FakeWorkers::agents() {
  const Lock lock(mutex_);
  std::map<std::string, AgentReport> reports;
  for (const auto& [place, process] : processes_) {
    AgentReport& report = reports[place.second];
    report.node = place.second;
    report.connected = !down_.contains(place.second);
    WorkerReport worker;
    worker.name = place.first;
    worker.node = place.second;
    worker.migration = process.migration;
    worker.successor = !process.migration.empty();
    worker.paused = process.phase != Phase::kRunning;
    worker.iteration = jobs_[place.first.job].iteration;
    worker.command.arguments = {"train"};
    report.workers.push_back(std::move(worker));
  }
  std::vector<AgentReport> all;
  for (auto& [node, report] : reports) all.push_back(std::move(report));
  return all;
}

void FakeWorkers::apply_routes(const std::vector<PreviousRoute>& routes) {
  const Lock lock(mutex_);
  routes_ = routes;
}

std::vector<std::string> FakeWorkers::violations() const {
  const Lock lock(mutex_);
  return violations_;
}

std::map<WorkerName, std::string> FakeWorkers::running(const std::string& job) const {
  const Lock lock(mutex_);
  std::map<WorkerName, std::string> nodes;
  for (const auto& [place, process] : processes_) {
    if (place.first.job == job && process.phase == Phase::kRunning) {
      nodes[place.first] = place.second;
    }
  }
  return nodes;
}

int64_t FakeWorkers::iteration(const std::string& job) const {
  const Lock lock(mutex_);
  const auto found = jobs_.find(job);
  return found == jobs_.end() ? 0 : found->second.iteration;
}

bool FakeWorkers::broken(const std::string& job) const {
  const Lock lock(mutex_);
  const auto found = jobs_.find(job);
  return found != jobs_.end() && found->second.broken;
}

std::vector<std::string> FakeWorkers::leftovers() const {
  const Lock lock(mutex_);
  std::vector<std::string> all;
  for (const auto& [place, process] : processes_) {
    if (process.phase == Phase::kRunning && counts(place.first)) continue;
    all.push_back(
        fmt::format("a process of worker {} on {}", to_string(place.first), place.second));
  }
  for (const auto& [worker, staged] : staging_) {
    all.push_back(fmt::format("the staged state of worker {}", to_string(worker)));
  }
  return all;
}

int FakeWorkers::calls(ExecutorCall call) const {
  const Lock lock(mutex_);
  const auto found = calls_.find(call);
  return found == calls_.end() ? 0 : found->second;
}

}  // namespace monkeytree
