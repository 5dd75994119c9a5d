#include "inventory/emulated_scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <numeric>

#include "inventory/uplinks.h"

namespace monkeytree {
namespace {

double system_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

absl::Status gone(std::string_view what) {
  return absl::NotFoundError(fmt::format("{} is gone", what));
}

}  // namespace

Snapshot uniform_cluster(int racks, int nodes_per_rack, int slots_per_node, int uplinks) {
  Snapshot out;
  out.name = fmt::format("{} racks of {} nodes", racks, nodes_per_rack);
  out.cluster = "emulated";
  out.classes.push_back("default");
  out.islands.push_back("");
  for (int r = 0; r < racks; ++r) {
    Rack rack;
    rack.name = fmt::format("r{}", r);
    set_uplinks(rack, uplinks);
    for (int n = 0; n < nodes_per_rack; ++n) {
      Node node;
      node.name = fmt::format("r{}n{}", r, n);
      node.rack = RackId(r);
      node.slots = slots_per_node;
      rack.nodes.push_back(out.nodes.push_back(std::move(node)));
    }
    out.racks.push_back(std::move(rack));
  }
  return out;
}

std::string_view name_of(SchedulerCall call) {
  switch (call) {
    case SchedulerCall::kObserve:
      return "observe";
    case SchedulerCall::kHold:
      return "hold";
    case SchedulerCall::kStart:
      return "start";
    case SchedulerCall::kGiveBack:
      return "give_back";
    case SchedulerCall::kCancel:
      return "cancel";
    case SchedulerCall::kReserve:
      return "reserve";
    case SchedulerCall::kUnreserve:
      return "unreserve";
    case SchedulerCall::kBooked:
      return "booked";
  }
  return "";
}

EmulatedScheduler::EmulatedScheduler(Snapshot cluster, EmulatedWorkers workers, Clock clock)
    : cluster_(std::move(cluster)),
      workers_(std::move(workers)),
      clock_(clock ? std::move(clock) : Clock(system_seconds)) {
  for (NodeId id : cluster_.nodes.keys()) node_ids_.emplace(cluster_.nodes[id].name, id);
  for (const Job& job : cluster_.jobs) {
    BookedJob booked{job, {}, {}};
    for (int g = 0; g < job.group_count; ++g) {
      const Group& group = cluster_.groups[GroupId(job.first_group.value + g)];
      BookedGroup copy{group.rings, group.slots, {}};
      for (size_t w = 0; w < group.workers.size(); ++w) {
        copy.workers.push_back({group.workers[w], group.is_pinned(static_cast<int>(w))});
      }
      booked.groups.push_back(std::move(copy));
    }
    jobs_.push_back(std::move(booked));
  }
  cluster_.jobs = {};
  cluster_.groups = {};
}

EmulatedScheduler::BookedJob* EmulatedScheduler::find_job(const std::string& id) {
  for (BookedJob& job : jobs_) {
    if (job.job.id == id) return &job;
  }
  return nullptr;
}

const EmulatedScheduler::BookedJob* EmulatedScheduler::find_job(const std::string& id) const {
  return const_cast<EmulatedScheduler*>(this)->find_job(id);
}

EmulatedScheduler::BookedWorker* EmulatedScheduler::find_worker(const WorkerName& name) {
  BookedJob* job = find_job(name.job);
  if (!job || name.group < 0 || name.group >= static_cast<int>(job->groups.size())) return nullptr;
  std::vector<BookedWorker>& workers = job->groups[static_cast<size_t>(name.group)].workers;
  if (name.worker < 0 || name.worker >= static_cast<int>(workers.size())) return nullptr;
  return &workers[static_cast<size_t>(name.worker)];
}

EmulatedScheduler::BookedHold* EmulatedScheduler::find_hold(const WorkerName& worker,
                                                            const std::string& node) {
  for (BookedHold& hold : holds_) {
    if (hold.hold.worker == worker && hold.hold.node == node) return &hold;
  }
  return nullptr;
}

int EmulatedScheduler::used(NodeId node) const {
  int sum = 0;
  for (const BookedJob& job : jobs_) {
    for (const BookedGroup& group : job.groups) {
      for (const BookedWorker& worker : group.workers) sum += worker.own == node ? group.slots : 0;
    }
  }
  for (const BookedHold& hold : holds_) sum += hold.node == node ? hold.slots : 0;
  return sum;
}

bool EmulatedScheduler::reserved(NodeId node) const {
  return std::any_of(reservations_.begin(), reservations_.end(),
                     [&](const auto& entry) { return entry.second.contains(node); });
}

std::set<NodeId> EmulatedScheduler::free() const {
  std::set<NodeId> out;
  for (NodeId id : cluster_.nodes.keys()) {
    if (cluster_.nodes[id].state == NodeState::kUp) out.insert(id);
  }
  for (const BookedJob& job : jobs_) {
    for (const BookedGroup& group : job.groups) {
      for (const BookedWorker& worker : group.workers) out.erase(worker.own);
    }
  }
  for (const BookedHold& hold : holds_) out.erase(hold.node);
  for (const auto& [name, nodes] : reservations_) {
    for (NodeId id : nodes) out.erase(id);
  }
  return out;
}

absl::StatusOr<std::vector<NodeId>> EmulatedScheduler::choose(const EmulatedJob& job,
                                                              PlacementRule rule,
                                                              RandomSequence* random) const {
  const int wanted = std::accumulate(job.groups.begin(), job.groups.end(), 0);
  if (wanted < 1) return absl::InvalidArgumentError("the job has no workers");
  std::set<NodeId> left = free();
  if (!job.nodes.empty()) {
    if (job.nodes.size() != static_cast<size_t>(wanted)) {
      return absl::InvalidArgumentError(
          fmt::format("{} nodes for {} workers", job.nodes.size(), wanted));
    }
    std::vector<NodeId> out;
    for (const std::string& name : job.nodes) {
      const auto found = node_ids_.find(name);
      if (found == node_ids_.end() || left.erase(found->second) == 0) {
        return absl::InvalidArgumentError(fmt::format("node {} is not free", name));
      }
      out.push_back(found->second);
    }
    return out;
  }
  IdVector<NodeId, RackId> rack_of;
  for (const Node& node : cluster_.nodes) rack_of.push_back(node.rack);
  FreeNodes nodes(std::move(rack_of));
  for (NodeId id : cluster_.nodes.keys()) {
    if (!left.contains(id)) nodes.take(id);
  }
  std::optional<std::vector<NodeId>> placed = nodes.place(wanted, rule, FillRule::kPaper, random);
  if (placed) return *std::move(placed);
  return absl::ResourceExhaustedError(
      fmt::format("{} nodes wanted, {} free", wanted, nodes.free_count()));
}

absl::StatusOr<std::string> EmulatedScheduler::submit(const EmulatedJob& job, PlacementRule rule,
                                                      RandomSequence* random) {
  std::vector<std::pair<WorkerName, std::string>> places;
  std::string id = job.id;
  {
    const std::lock_guard lock(mutex_);
    while (id.empty() || (job.id.empty() && find_job(id))) id = fmt::format("{}", next_job_++);
    if (find_job(id)) return absl::AlreadyExistsError(fmt::format("job {} runs already", id));
    const absl::StatusOr<std::vector<NodeId>> nodes = choose(job, rule, random);
    if (!nodes.ok()) return nodes.status();
    BookedJob booked;
    booked.job.id = id;
    booked.job.name = job.name;
    booked.job.user = job.user;
    booked.job.partition = job.partition;
    booked.job.comment = job.comment;
    booked.job.movable = job.movable;
    booked.job.state_bytes = job.state_bytes;
    booked.job.start_s = clock_();
    if (job.limit_s) booked.job.end_s = *booked.job.start_s + *job.limit_s;
    size_t next = 0;
    for (size_t g = 0; g < job.groups.size(); ++g) {
      BookedGroup group{job.rings, cluster_.nodes[(*nodes)[next]].slots, {}};
      for (int w = 0; w < job.groups[g]; ++w) {
        const NodeId node = (*nodes)[next++];
        group.workers.push_back({node, false});
        places.emplace_back(WorkerName{id, static_cast<int>(g), w}, cluster_.nodes[node].name);
      }
      booked.groups.push_back(std::move(group));
    }
    jobs_.push_back(std::move(booked));
  }
  if (!workers_.start || job.command.arguments.empty()) return id;
  for (const auto& [worker, node] : places) {
    WorkerCommand command = job.command;
    command.environment["MONKEYTREE_WORKERS"] =
        std::to_string(job.groups[static_cast<size_t>(worker.group)]);
    if (absl::Status started = workers_.start(worker, node, command, false); !started.ok()) {
      end(id).IgnoreError();
      return started;
    }
  }
  return id;
}

absl::Status EmulatedScheduler::end(const std::string& job) {
  std::set<std::string> nodes;
  {
    const std::lock_guard lock(mutex_);
    const auto found = std::find_if(jobs_.begin(), jobs_.end(),
                                    [&](const BookedJob& booked) { return booked.job.id == job; });
    if (found == jobs_.end()) return gone(fmt::format("job {}", job));
    for (const BookedGroup& group : found->groups) {
      for (const BookedWorker& worker : group.workers) {
        if (worker.own.valid()) nodes.insert(cluster_.nodes[worker.own].name);
      }
    }
    jobs_.erase(found);
  }
  if (workers_.end) {
    for (const std::string& node : nodes) workers_.end(job, node);
  }
  return absl::OkStatus();
}

absl::Status EmulatedScheduler::set_node_state(const std::string& node, NodeState state) {
  const std::lock_guard lock(mutex_);
  const auto found = node_ids_.find(node);
  if (found == node_ids_.end()) return gone(fmt::format("node {}", node));
  cluster_.nodes[found->second].state = state;
  return absl::OkStatus();
}

std::vector<std::string> EmulatedScheduler::running() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> out;
  for (const BookedJob& job : jobs_) out.push_back(job.job.id);
  return out;
}

int EmulatedScheduler::free_nodes() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(free().size());
}

void EmulatedScheduler::inject(SchedulerCall call, SchedulerFault fault, int times, int skip) {
  const std::lock_guard lock(mutex_);
  faults_.push_back({call, fault, times, skip});
}

void EmulatedScheduler::heal() {
  const std::lock_guard lock(mutex_);
  faults_.clear();
  ++heals_;
  healed_.notify_all();
}

void EmulatedScheduler::set_read_only(std::string why) {
  const std::lock_guard lock(mutex_);
  read_only_ = std::move(why);
}

int EmulatedScheduler::calls(SchedulerCall call) const {
  const std::lock_guard lock(mutex_);
  const auto found = calls_.find(call);
  return found == calls_.end() ? 0 : found->second;
}

std::vector<std::string> EmulatedScheduler::order(const std::string& job) const {
  const std::lock_guard lock(mutex_);
  const BookedJob* found = find_job(job);
  return found ? found->order : std::vector<std::string>{};
}

std::string EmulatedScheduler::inconsistency() const {
  const std::lock_guard lock(mutex_);
  for (NodeId id : cluster_.nodes.keys()) {
    const Node& node = cluster_.nodes[id];
    if (const int sum = used(id); sum > node.slots) {
      return fmt::format("{} of {} slots of {} are given away", sum, node.slots, node.name);
    }
  }
  return "";
}

// The faces of Scheduler.

std::optional<SchedulerFault> EmulatedScheduler::meet(SchedulerCall call) {
  const std::lock_guard lock(mutex_);
  ++calls_[call];
  for (auto fault = faults_.begin(); fault != faults_.end(); ++fault) {
    if (fault->call != call) continue;
    if (fault->skip > 0) {
      --fault->skip;
      return std::nullopt;
    }
    const SchedulerFault met = fault->fault;
    if (--fault->times <= 0) faults_.erase(fault);
    return met;
  }
  return std::nullopt;
}

absl::Status EmulatedScheduler::with_faults(SchedulerCall call, Deadline deadline,
                                            const std::function<absl::Status()>& act) {
  const std::optional<SchedulerFault> fault = meet(call);
  const std::string name(name_of(call));
  if (fault == SchedulerFault::kRefuse) {
    return absl::FailedPreconditionError(name + ": refused, as injected");
  }
  if (fault == SchedulerFault::kUnavailable) {
    return absl::UnavailableError(name + ": no answer, as injected");
  }
  if (fault == SchedulerFault::kHang) {
    std::unique_lock lock(mutex_);
    const uint64_t before = heals_;
    if (healed_.wait_until(lock, deadline, [&] { return heals_ != before; })) {
      return absl::UnavailableError(name + ": no answer, as injected");
    }
    return absl::DeadlineExceededError(name + ": no answer by the deadline, as injected");
  }
  absl::Status done = act();
  if (fault == SchedulerFault::kFailAfterDoing && done.ok()) {
    return absl::DeadlineExceededError(name + ": the answer was lost, as injected");
  }
  return done;
}

std::string EmulatedScheduler::describe() const {
  return fmt::format("emulated cluster, {} racks, {} nodes", cluster_.racks.size(),
                     cluster_.nodes.size());
}

std::string EmulatedScheduler::why_read_only() const {
  const std::lock_guard lock(mutex_);
  return read_only_;
}

NodeId EmulatedScheduler::place_of(const WorkerName& name, const BookedWorker& worker) const {
  if (worker.own.valid()) return worker.own;
  for (const BookedHold& hold : holds_) {
    if (hold.hold.worker == name) return hold.node;
  }
  return NodeId();
}

void EmulatedScheduler::add_job(const BookedJob& booked, Observation& out) const {
  Snapshot& snapshot = out.snapshot;
  Job job = booked.job;
  job.first_group = GroupId(snapshot.groups.size());
  job.group_count = static_cast<int>(booked.groups.size());
  const JobId id(snapshot.jobs.size());
  for (size_t g = 0; g < booked.groups.size(); ++g) {
    Group group;
    group.job = id;
    group.rings = booked.groups[g].rings;
    group.slots = booked.groups[g].slots;
    for (size_t w = 0; w < booked.groups[g].workers.size(); ++w) {
      const BookedWorker& worker = booked.groups[g].workers[w];
      const NodeId node = place_of({job.id, static_cast<int>(g), static_cast<int>(w)}, worker);
      if (!node.valid()) {
        job.movable = false;
        out.unmovable[job.id] = "the state of a worker is staged";
        continue;
      }
      if (worker.pinned) group.pinned.push_back(static_cast<int>(group.workers.size()));
      group.workers.push_back(node);
    }
    if (group.workers.empty()) {
      --job.group_count;
    } else {
      snapshot.groups.push_back(std::move(group));
    }
  }
  if (job.group_count > 0) snapshot.jobs.push_back(std::move(job));
}

Observation EmulatedScheduler::look() const {
  Observation out;
  out.snapshot = cluster_;
  out.snapshot.time_s = clock_();
  for (const BookedJob& job : jobs_) add_job(job, out);
  std::set<NodeId> kept;
  for (const auto& [name, nodes] : reservations_) {
    out.reservations.push_back(name);
    kept.insert(nodes.begin(), nodes.end());
  }
  for (const BookedHold& hold : holds_) {
    const bool runs = find_job(hold.hold.worker.job) != nullptr;
    (runs ? out.holds : out.orphans).push_back(hold.hold);
    const BookedWorker* worker =
        const_cast<EmulatedScheduler*>(this)->find_worker(hold.hold.worker);
    if (!worker || place_of(hold.hold.worker, *worker) != hold.node) kept.insert(hold.node);
  }
  for (NodeId id : kept) {
    if (out.snapshot.nodes[id].state == NodeState::kUp) {
      out.snapshot.nodes[id].state = NodeState::kReserved;
    }
  }
  return out;
}

absl::StatusOr<Observation> EmulatedScheduler::observe(Deadline deadline) {
  Observation out;
  const absl::Status done = with_faults(SchedulerCall::kObserve, deadline, [&] {
    const std::lock_guard lock(mutex_);
    out = look();
    return absl::OkStatus();
  });
  if (!done.ok()) return done;
  return out;
}

absl::StatusOr<Hold> EmulatedScheduler::take(const WorkerName& worker, const std::string& node,
                                             const std::string& reservation) {
  if (!read_only_.empty()) return absl::FailedPreconditionError(read_only_);
  const BookedWorker* booked = find_worker(worker);
  if (!booked) return gone(fmt::format("worker {}", to_string(worker)));
  if (const BookedHold* held = find_hold(worker, node)) return held->hold;
  const auto id = node_ids_.find(node);
  if (id == node_ids_.end()) return gone(fmt::format("node {}", node));
  if (cluster_.nodes[id->second].state != NodeState::kUp) {
    return absl::FailedPreconditionError(
        fmt::format("node {} is {}", node, name_of(cluster_.nodes[id->second].state)));
  }
  if (!reservation.empty()) {
    const auto found = reservations_.find(reservation);
    if (found == reservations_.end() || !found->second.contains(id->second)) {
      return absl::FailedPreconditionError(
          fmt::format("node {} is not in the reservation {}", node, reservation));
    }
  } else if (reserved(id->second)) {
    return absl::AbortedError(fmt::format("node {} is reserved", node));
  }
  const BookedJob& job = *find_job(worker.job);
  const int slots = job.groups[static_cast<size_t>(worker.group)].slots;
  if (used(id->second) + slots > cluster_.nodes[id->second].slots) {
    return absl::AbortedError(fmt::format("node {} is taken", node));
  }
  BookedHold hold{{fmt::format("h{}", next_hold_++), worker, node}, id->second, slots, false};
  holds_.push_back(hold);
  return hold.hold;
}

absl::StatusOr<Hold> EmulatedScheduler::hold(const WorkerName& worker, const std::string& node,
                                             const std::string& reservation, Deadline deadline) {
  absl::StatusOr<Hold> out = absl::InternalError("");
  const absl::Status done = with_faults(SchedulerCall::kHold, deadline, [&] {
    const std::lock_guard lock(mutex_);
    out = take(worker, node, reservation);
    return out.status();
  });
  if (!done.ok()) return done;
  return out;
}

absl::Status EmulatedScheduler::start(const Hold& hold, const WorkerCommand& command,
                                      Deadline deadline) {
  return with_faults(SchedulerCall::kStart, deadline, [&]() -> absl::Status {
    {
      const std::lock_guard lock(mutex_);
      BookedHold* held = find_hold(hold.worker, hold.node);
      if (!held || held->hold.id != hold.id) return gone(fmt::format("hold {}", hold.id));
      if (held->started) return absl::OkStatus();
      held->started = true;
    }
    absl::Status started =
        workers_.start ? workers_.start(hold.worker, hold.node, command, true) : absl::OkStatus();
    if (!started.ok()) {
      const std::lock_guard lock(mutex_);
      if (BookedHold* held = find_hold(hold.worker, hold.node)) held->started = false;
    }
    return started;
  });
}

absl::Status EmulatedScheduler::let_go(const WorkerName& worker, const std::string& node,
                                       const std::vector<std::string>& order) {
  BookedWorker* booked = find_worker(worker);
  if (!booked) return gone(fmt::format("job {}", worker.job));
  if (booked->own.valid() && cluster_.nodes[booked->own].name == node) {
    if (booked->pinned) {
      return absl::FailedPreconditionError(fmt::format("{} is the job's batch host", node));
    }
    booked->own = NodeId();
  }
  holds_.remove_if(
      [&](const BookedHold& hold) { return hold.hold.worker == worker && hold.hold.node == node; });
  find_job(worker.job)->order = order;
  return absl::OkStatus();
}

absl::Status EmulatedScheduler::give_back(const WorkerName& worker, const std::string& node,
                                          const std::vector<std::string>& order,
                                          Deadline deadline) {
  return with_faults(SchedulerCall::kGiveBack, deadline, [&] {
    absl::Status done;
    {
      const std::lock_guard lock(mutex_);
      done = let_go(worker, node, order);
    }
    if (done.ok() && workers_.end && !node.empty()) workers_.end(worker.job, node);
    return done;
  });
}

absl::Status EmulatedScheduler::cancel(const Hold& hold, Deadline deadline) {
  return with_faults(SchedulerCall::kCancel, deadline, [&] {
    size_t ended = 0;
    {
      const std::lock_guard lock(mutex_);
      ended = holds_.remove_if([&](const BookedHold& held) {
        return held.hold.id == hold.id ||
               (hold.id.empty() && held.hold.worker == hold.worker && held.hold.node == hold.node);
      });
    }
    if (ended > 0 && workers_.end) workers_.end(hold.worker.job, hold.node);
    return absl::OkStatus();
  });
}

absl::Status EmulatedScheduler::reserve(const std::string& name,
                                        const std::vector<std::string>& nodes, Deadline deadline) {
  return with_faults(SchedulerCall::kReserve, deadline, [&]() -> absl::Status {
    const std::lock_guard lock(mutex_);
    if (!read_only_.empty()) return absl::FailedPreconditionError(read_only_);
    std::set<NodeId> ids;
    for (const std::string& node : nodes) {
      const auto found = node_ids_.find(node);
      if (found == node_ids_.end()) return gone(fmt::format("node {}", node));
      ids.insert(found->second);
    }
    const auto found = reservations_.find(name);
    if (found != reservations_.end()) {
      if (found->second == ids) return absl::OkStatus();
      return absl::FailedPreconditionError(
          fmt::format("the reservation {} stands for other nodes", name));
    }
    for (NodeId id : ids) {
      if (!reserved(id)) continue;
      return absl::AbortedError(fmt::format("node {} is reserved", cluster_.nodes[id].name));
    }
    reservations_.emplace(name, std::move(ids));
    return absl::OkStatus();
  });
}

absl::Status EmulatedScheduler::unreserve(const std::string& name, Deadline deadline) {
  return with_faults(SchedulerCall::kUnreserve, deadline, [&] {
    const std::lock_guard lock(mutex_);
    reservations_.erase(name);
    return absl::OkStatus();
  });
}

absl::StatusOr<std::vector<std::string>> EmulatedScheduler::booked(const std::string& job,
                                                                   Deadline deadline) {
  std::set<std::string> nodes;
  const absl::Status done = with_faults(SchedulerCall::kBooked, deadline, [&] {
    const std::lock_guard lock(mutex_);
    const BookedJob* found = find_job(job);
    if (!found) return absl::OkStatus();
    for (const BookedGroup& group : found->groups) {
      for (const BookedWorker& worker : group.workers) {
        if (worker.own.valid()) nodes.insert(cluster_.nodes[worker.own].name);
      }
    }
    for (const BookedHold& hold : holds_) {
      if (hold.hold.worker.job == job) nodes.insert(hold.hold.node);
    }
    return absl::OkStatus();
  });
  if (!done.ok()) return done;
  return std::vector<std::string>(nodes.begin(), nodes.end());
}

EmulatedChurn::EmulatedChurn(EmulatedScheduler& cluster, uint64_t seed, Settings settings)
    : cluster_(cluster),
      random_(seed),
      settings_(std::move(settings)),
      nodes_(cluster.free_nodes()) {}

std::string EmulatedChurn::end_one(const std::vector<std::string>& running) {
  const std::string& job = running[random_.below(running.size())];
  return cluster_.end(job).ok() ? fmt::format("job {} ends", job) : "";
}

std::string EmulatedChurn::step() {
  const std::vector<std::string> running = cluster_.running();
  const int free = cluster_.free_nodes();
  const bool full = nodes_ - free >= settings_.load * nodes_;
  if (full && !running.empty()) return end_one(running);
  EmulatedJob job = settings_.pattern;
  const int size = settings_.sizes[random_.below(settings_.sizes.size())];
  job.groups = {size};
  const absl::StatusOr<std::string> id = cluster_.submit(job, settings_.rule, &random_);
  if (id.ok()) return fmt::format("job {} comes, {} nodes", *id, size);
  return running.empty() ? "" : end_one(running);
}

}  // namespace monkeytree
