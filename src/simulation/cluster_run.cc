#include "simulation/cluster_run.h"

#include <algorithm>

#include "cluster/fragmentation.h"

namespace monkeytree {
namespace {

Snapshot empty_cluster(const Scenario& scenario) {
  Snapshot cluster;
  cluster.classes.push_back("default");
  cluster.islands.push_back("");
  const int nodes = scenario.fabric.gpus / scenario.fabric.gpus_per_node;
  const int nodes_per_rack = scenario.fabric.gpus_per_rack / scenario.fabric.gpus_per_node;
  for (int r = 0; r < scenario.fabric.racks(); ++r) {
    Rack rack;
    rack.name = "r" + std::to_string(r);
    for (int n = r * nodes_per_rack; n < std::min(nodes, (r + 1) * nodes_per_rack); ++n) {
      Node node;
      node.name = "n" + std::to_string(n);
      node.rack = RackId(r);
      node.gpus = scenario.fabric.gpus_per_node;
      rack.nodes.push_back(cluster.nodes.push_back(std::move(node)));
    }
    cluster.racks.push_back(std::move(rack));
  }
  cluster.set_uplinks(scenario.bound());
  return cluster;
}

IdVector<NodeId, RackId> racks_of_nodes(const Snapshot& cluster) {
  IdVector<NodeId, RackId> racks;
  for (const Node& node : cluster.nodes) racks.push_back(node.rack);
  return racks;
}

EngineOptions engine_options(const Scenario& scenario) {
  EngineOptions options{scenario.fabric, std::nullopt};
  options.fabric.spray = scenario.system->route == RouteRule::kSpray;
  if (scenario.system->route == RouteRule::kSglb) {
    options.sglb = SglbRule();
    options.sglb->count_self = scenario.paper_rules;
  }
  return options;
}

}  // namespace

SimulationResult simulate(const Scenario& scenario, const Catalogue& catalogue, const Trace& trace,
                          const SimulationOptions& options) {
  return ClusterRun(scenario, catalogue, trace, options).run();
}

ClusterRun::ClusterRun(const Scenario& scenario, const Catalogue& catalogue, const Trace& trace,
                       const SimulationOptions& options)
    : scenario_(scenario),
      trace_(trace),
      options_(options),
      programs_(scenario, catalogue),
      engine_(options.plain_engine ? make_plain_engine(engine_options(scenario))
                                   : make_fast_engine(engine_options(scenario))),
      router_(make_router(scenario)),
      planner_(empty_cluster(scenario)),
      free_(racks_of_nodes(planner_.snapshot())),
      random_(scenario.seed),
      jobs_(trace.size()),
      holders_(planner_.snapshot().nodes.size(), 0) {
  result_.jobs.resize(trace.size());
  for (size_t i = 0; i < trace.size(); ++i) {
    jobs_[i].kind = &programs_.of(trace[i].model, trace[i].gpus);
    result_.jobs[i].submit = trace[i].submit_us;
    result_.jobs[i].ideal = jobs_[i].kind->ideal_iteration * trace[i].iterations;
  }
}

SimulationResult ClusterRun::run() {
  std::vector<Notice> notices;
  for (int64_t step = 0;; ++step) {
    if (options_.stop && step % 256 == 0 &&
        options_.stop(static_cast<double>(ended_) / static_cast<double>(trace_.size()))) {
      result_.stopped = true;
      break;
    }
    const Time arrival = arrived_ < trace_.size() ? trace_[arrived_].submit_us : kNever;
    const Time time = std::min({engine_->next(), pauses_.top_time(), arrival});
    if (time == kNever) break;
    now_ = time;
    notices.clear();
    engine_->advance(now_, notices);
    if (notices.empty() && pauses_.top_time() > now_ && arrival > now_) continue;
    for (const Notice& notice : notices) handle(notice);
    while (pauses_.top_time() <= now_) resume(pauses_.top());
    for (; arrived_ < trace_.size() && trace_[arrived_].submit_us <= now_; ++arrived_) {
      queue_.push_back(static_cast<int>(arrived_));
      try_queue_ = true;
    }
    if (try_queue_) try_queue();
    if (replan_) replan();
    commit();
  }
  result_.simulated = now_;
  result_.counters = engine_->counters();
  return std::move(result_);
}

void ClusterRun::handle(const Notice& notice) {
  switch (notice.kind) {
    case Notice::kFinished:
      finish(notice.index);
      break;
    case Notice::kStopped:
      stopped(notice.index);
      break;
    case Notice::kTransfer:
      transferred(notice.index);
      break;
  }
}

// -- Jobs come and go ---------------------------------------------------------------------------

void ClusterRun::try_queue() {
  try_queue_ = false;
  // The authors' program lets arrivals wait while a plan is carried out.
  if (scenario_.paper_rules && !plans_.empty()) return;
  for (auto at = queue_.begin(); at != queue_.end();) {
    if (try_place(*at)) {
      at = queue_.erase(at);
    } else if (scenario_.backfill && free_.free_count() > 0) {
      ++at;
    } else {
      break;
    }
  }
}

bool ClusterRun::try_place(int index) {
  Job& it = job(index);
  const std::optional<std::vector<NodeId>> nodes =
      free_.place(it.kind->nodes, scenario_.scheduler, scenario_.fill, &random_);
  if (!nodes) return false;
  for (const NodeId node : *nodes) hold_node(node);
  std::vector<Group> groups;
  size_t next = 0;
  const int per_node = scenario_.fabric.gpus_per_node;
  for (const RankGroup& ranks : it.kind->groups) {
    Group group;
    group.rings = std::max(1, ranks.rings);
    const auto count = static_cast<size_t>((ranks.ranks + per_node - 1) / per_node);
    for (size_t i = 0; i < count; ++i) group.workers.push_back((*nodes)[next++]);
    it.nodes.push_back(group.workers);
    groups.push_back(std::move(group));
  }
  monkeytree::Job known;
  known.id = std::to_string(index);
  const std::vector<int64_t>& state = it.kind->state_bytes;
  for (size_t r = 0; r < state.size() && r < static_cast<size_t>(per_node); ++r) {
    known.state_bytes += state[r];
  }
  it.id = planner_.add_job(std::move(known), std::move(groups));
  if (static_cast<size_t>(it.id.value) >= job_of_id_.size()) {
    job_of_id_.resize(static_cast<size_t>(it.id.value) + 1, -1);
  }
  job_of_id_[static_cast<size_t>(it.id.value)] = index;
  it.state = State::kRunning;
  result_.jobs[static_cast<size_t>(index)].start = now_;
  go(index);
  starting_.push_back(index);
  replan_ = true;
  note_degrees(index);
  std::vector<int> indexes;
  for (const NodeId node : *nodes) indexes.push_back(node.value);
  tell(SimulationEvent::kStart, index, std::move(indexes));
  return true;
}

/// Ranks ascend with the node index inside each group, so that a ring enters and leaves each rack
/// once; then the router learns where the job's flows run.
void ClusterRun::go(int index) {
  Job& it = job(index);
  const int per_node = scenario_.fabric.gpus_per_node;
  it.hosts.clear();
  for (size_t g = 0; g < it.nodes.size(); ++g) {
    std::vector<NodeId> nodes = it.nodes[g];
    std::sort(nodes.begin(), nodes.end());
    for (int r = 0; r < it.kind->groups[g].ranks; ++r) {
      it.hosts.push_back(nodes[static_cast<size_t>(r / per_node)].value * per_node + r % per_node);
    }
  }
  router_->place(index, it.kind->program, it.hosts, it.kind->work);
}

void ClusterRun::finish(int index) {
  Job& it = job(index);
  it.state = State::kEnded;
  if (it.plan >= 0) drop_member(index);
  router_->remove(index);
  for (const std::vector<NodeId>& group : it.nodes) {
    for (const NodeId node : group) free_node(node);
  }
  planner_.remove_job(it.id);
  it.nodes.clear();
  it.nodes.shrink_to_fit();
  it.hosts.clear();
  it.hosts.shrink_to_fit();
  result_.jobs[static_cast<size_t>(index)].end = now_;
  ++ended_;
  try_queue_ = replan_ = true;
  tell(SimulationEvent::kFinish, index, {});
}

/// A node may have two holders for a moment: one that is about to leave it and one that came.
void ClusterRun::hold_node(NodeId node) {
  if (holders_[node]++ == 0) free_.take(node);
}

void ClusterRun::free_node(NodeId node) {
  if (--holders_[node] == 0) free_.give(node);
}

void ClusterRun::note_degrees(int index) {
  std::set<RackId> racks;
  for (const std::vector<NodeId>& group : job(index).nodes) {
    for (const NodeId node : group) racks.insert(planner_.snapshot().nodes[node].rack);
  }
  if (racks.size() > 1) result_.used_network = true;
  for (const RackId rack : racks) {
    result_.max_fragmentation = std::max(result_.max_fragmentation, planner_.degree(rack));
  }
}

// -- The engine hears of it ---------------------------------------------------------------------

void ClusterRun::commit() {
  const std::vector<int> rerouted = router_->update();
  for (const int index : starting_) {
    const Job& it = job(index);
    engine_->start(index, it.kind->program, it.hosts, router_->spines(index),
                   trace_[static_cast<size_t>(index)].iterations);
  }
  for (const int index : resuming_) {
    engine_->resume(index, job(index).hosts, router_->spines(index));
  }
  for (const int index : rerouted) {
    const State state = job(index).state;
    if (state == State::kRunning || state == State::kStopping) {
      engine_->set_routes(index, router_->spines(index));
    }
  }
  for (const int index : stopping_) {
    if (job(index).state == State::kStopping) engine_->stop(index);  // else it has just ended
  }
  for (Transfer& it : departing_) {
    it.spine = router_->transfer_spine(it.from_host, it.to_host, it.job);
    engine_->transfer(it);
    flights_.push_back(it);
  }
  if (options_.on_sample) sample();
  starting_.clear();
  resuming_.clear();
  stopping_.clear();
  departing_.clear();
}

void ClusterRun::sample() {
  FragmentationSample sample;
  sample.time = now_;
  for (const RackId rack : planner_.snapshot().racks.keys()) {
    const int degree = planner_.degree(rack);
    sample.max_degree = std::max(sample.max_degree, degree);
    sample.excess += std::max(0, degree - scenario_.bound());
    sample.over += degree > scenario_.bound();
  }
  sample.busy_nodes = free_.node_count() - free_.free_count();
  options_.on_sample(sample);
}

}  // namespace monkeytree
