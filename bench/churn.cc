#include "bench/churn.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "cluster/fragmentation.h"

namespace monkeytree::bench {
namespace {

struct Share {
  int nodes;
  int weight;
};

// The paper's workload by size: 16, 24, 32, 48 and 64 GPUs at 8 a node.
constexpr std::array<Share, 5> kCatalogue = {{{2, 133}, {3, 33}, {4, 142}, {6, 8}, {8, 33}}};
constexpr std::array<Share, 6> kLarge = {{{12, 8}, {16, 8}, {24, 4}, {32, 4}, {48, 2}, {64, 1}}};

template <size_t N>
double mean_nodes(const std::array<Share, N>& shares) {
  double nodes = 0, weight = 0;
  for (const Share& share : shares) {
    nodes += share.nodes * share.weight;
    weight += share.weight;
  }
  return nodes / weight;
}

template <size_t N>
int draw_nodes(const std::array<Share, N>& shares, Random& random) {
  int total = 0;
  for (const Share& share : shares) total += share.weight;
  int left = random.below(total);
  for (const Share& share : shares) {
    if (left < share.weight) return share.nodes;
    left -= share.weight;
  }
  return shares[0].nodes;
}

}  // namespace

Churn::Churn(const ChurnOptions& options)
    : options_(options),
      random_(options.seed),
      snapshot_(empty_cluster(options.racks, options.nodes_per_rack, options.uplinks)),
      used_(snapshot_.nodes.size(), 0),
      free_(snapshot_.racks.size(), options.nodes_per_rack),
      degrees_(snapshot_.racks.size(), 0),
      free_total_(options.racks * options.nodes_per_rack),
      spare_(free_total_ - static_cast<int>(options.fill * free_total_)) {
  // As many arrivals in the mean run time of a job as hold `load` of the nodes (Little's law).
  double mean = mean_nodes(kCatalogue);
  if (options.mix == JobMix::kBroad) mean = 0.9 * mean + 0.1 * mean_nodes(kLarge);
  arrival_weight_ = std::max(1, static_cast<int>(options.load * free_total_ / mean));
}

Churn::Waiting Churn::draw() {
  Waiting next{0, 1};
  const bool large = options_.mix == JobMix::kBroad && random_.below(10) == 0;
  next.nodes = large ? draw_nodes(kLarge, random_) : draw_nodes(kCatalogue, random_);
  next.nodes = std::min(next.nodes, options_.racks * options_.nodes_per_rack - spare_);
  if (options_.weighted && random_.below(2) == 0) next.rings = 8;
  return next;
}

ChurnEvent Churn::arrive() {
  ChurnEvent event;
  while (queue_.empty() || !fits(queue_.front())) {
    if (queue_.empty() && (filling_ || options_.full)) {
      queue_.push_back(draw());
      continue;
    }
    filling_ = false;
    const int running = static_cast<int>(snapshot_.jobs.size());
    if (!options_.full && random_.below(arrival_weight_ + running) < arrival_weight_) {
      queue_.push_back(draw());
    } else if (running > 0) {
      event.departed.push_back(end_some_job());
    }
  }
  const Waiting next = queue_.front();
  queue_.pop_front();
  event.arrived = fmt::format("{}", ++placed_);
  const bool scattered = random_.below(100) < options_.scattered;
  count(add_job(snapshot_, event.arrived, next.rings,
                scattered ? scatter(next.nodes) : best_fit(next.nodes)),
        1);
  return event;
}

GroupId Churn::find(std::string_view job) const {
  for (const Job& candidate : snapshot_.jobs) {
    if (candidate.id == job) return candidate.first_group;
  }
  return GroupId();
}

std::string Churn::end_some_job() {
  // Each job has one group, so job and group numbers agree; the last takes the place of the ended.
  const JobId job(random_.below(static_cast<int>(snapshot_.jobs.size())));
  const GroupId group(job.value);
  count(group, -1);
  for (NodeId node : snapshot_.groups[group].workers) release(node);
  std::string id = std::move(snapshot_.jobs[job].id);
  if (static_cast<size_t>(job.value) + 1 < snapshot_.jobs.size()) {
    snapshot_.jobs[job] = std::move(snapshot_.jobs.back());
    snapshot_.jobs[job].first_group = group;
    snapshot_.groups[group] = std::move(snapshot_.groups.back());
    snapshot_.groups[group].job = job;
  }
  snapshot_.jobs.resize(snapshot_.jobs.size() - 1);
  snapshot_.groups.resize(snapshot_.groups.size() - 1);
  return id;
}

std::vector<NodeId> Churn::best_fit(int nodes) {
  std::vector<NodeId> out;
  RackId best;
  for (RackId rack : free_.keys()) {
    if (free_[rack] >= nodes && (!best.valid() || free_[rack] < free_[best])) best = rack;
  }
  if (best.valid()) {
    take(best, nodes, out);
    return out;
  }
  while (nodes > 0) {
    const RackId most(
        static_cast<size_t>(std::max_element(free_.begin(), free_.end()) - free_.begin()));
    const int piece = std::min(nodes, free_[most]);
    take(most, piece, out);
    nodes -= piece;
  }
  return out;
}

std::vector<NodeId> Churn::scatter(int nodes) {
  std::vector<NodeId> out;
  int rack = random_.below(options_.racks);
  for (; nodes > 0; rack = (rack + 1) % options_.racks) {
    const int piece = std::min(nodes, free_[RackId(rack)]);
    take(RackId(rack), piece, out);
    nodes -= piece;
  }
  return out;
}

void Churn::take(RackId rack, int nodes, std::vector<NodeId>& out) {
  for (NodeId node : snapshot_.racks[rack].nodes) {
    if (nodes == 0) break;
    if (used_[node]) continue;
    used_[node] = 1;
    --free_[rack];
    --free_total_;
    --nodes;
    out.push_back(node);
  }
}

void Churn::release(NodeId node) {
  used_[node] = 0;
  ++free_[snapshot_.nodes[node].rack];
  ++free_total_;
}

/// Adds a group to the degrees, or takes it out.
void Churn::count(GroupId group, int sign) {
  const std::vector<RackId> racks = racks_of(snapshot_, group);
  if (racks.size() < 2) return;
  for (RackId rack : racks) {
    const int bound = snapshot_.racks[rack].bound();
    if (degrees_[rack] > bound) --racks_over_;
    degrees_[rack] += sign * snapshot_.groups[group].rings;
    if (degrees_[rack] > bound) ++racks_over_;
  }
}

void Churn::apply(std::span<const Round> rounds) {
  std::vector<GroupId> moved;
  for (const Round& round : rounds) {
    for (const Move& move : round) moved.push_back(move.group);
  }
  std::sort(moved.begin(), moved.end());
  moved.erase(std::unique(moved.begin(), moved.end()), moved.end());
  for (GroupId group : moved) count(group, -1);
  for (const Round& round : rounds) {
    for (const Move& move : round) {
      if (move.from != kStaging) release(move.from);
    }
    for (const Move& move : round) {
      if (move.to == kStaging) continue;
      snapshot_.groups[move.group].workers[static_cast<size_t>(move.worker)] = move.to;
      used_[move.to] = 1;
      --free_[snapshot_.nodes[move.to].rack];
      --free_total_;
    }
  }
  for (GroupId group : moved) count(group, 1);
}

Snapshot neglected_cluster(ChurnOptions options, int over) {
  options.full = true;
  Churn churn(options);
  const int patience = 20 * options.racks * options.nodes_per_rack;
  for (int arrivals = 0; arrivals < patience && churn.racks_over() < over; ++arrivals) {
    churn.arrive();
  }
  return churn.snapshot();
}

}  // namespace monkeytree::bench
