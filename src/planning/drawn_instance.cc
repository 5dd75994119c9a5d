#include "planning/drawn_instance.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "cluster/fragmentation.h"
#include "planning/random_snapshot.h"

namespace monkeytree {
namespace {

/// How many slots nodes have and workers take. Racks keep about as many places for workers.
void draw_slots(Random& random, DrawnSize size, RandomShape& shape) {
  switch (random.below(16)) {
    case 0:
    case 1:  // whole nodes
      shape.slots_per_node = 8;
      shape.worker_slots = {8};
      break;
    case 2:
    case 3:  // two workers a node
      shape.slots_per_node = 8;
      shape.worker_slots = {4};
      shape.nodes_per_rack = std::max(1, shape.nodes_per_rack / 2);
      break;
    case 4:  // a slot of each node is of no use
      shape.slots_per_node = 9;
      shape.worker_slots = {4};
      shape.nodes_per_rack = std::max(1, shape.nodes_per_rack / 2);
      break;
    case 5:  // counts alone do not promise that nodes can take them: hard, so for few racks only
      if (size != DrawnSize::kTiny) break;
      shape.slots_per_node = 8;
      shape.worker_slots = {2, 8};
      break;
    default:
      break;
  }
  if (shape.slots_per_node > 1) {
    shape.largest_group = random.between(2, 6);
  }
}

void set_size(DrawnSize size, RandomShape& shape) {
  switch (size) {
    case DrawnSize::kTiny:
      shape.racks_low = 3;
      shape.racks_high = 4;
      shape.nodes_per_rack = 3;
      shape.bound_low = 0;
      shape.bound_high = 2;
      break;
    case DrawnSize::kSmall:
      break;
    case DrawnSize::kTight:
      shape.racks_low = 8;
      shape.racks_high = 12;
      shape.bound_high = 2;
      break;
    case DrawnSize::kLarge:
      shape.racks_low = 12;
      shape.racks_high = 16;
      break;
  }
}

void draw_features(Random& random, RandomShape& shape) {
  // Where many racks are to be mended at once, the integer program takes minutes.
  constexpr double kScatter[] = {0.05, 0.1, 0.2, 0.3, 0.5, 0.8, 1.0};
  shape.scatter = kScatter[random.below(shape.racks_high > 8 ? 3 : 7)];
  if (random.chance(0.5)) shape.weights = {1, 8};
  if (random.chance(0.1)) shape.weights = {1, 2, 3};
  if (random.chance(0.25)) shape.largest_group = random.between(2, 10);
  if (random.chance(0.25)) shape.pinned = 0.15;
  if (random.chance(0.15)) shape.immovable_jobs = 0.15;
  if (random.chance(0.25)) shape.drained = 0.15;
  if (random.chance(0.2)) shape.classes = random.between(2, 3);
  if (random.chance(0.2)) shape.islands = 2;
  if (random.chance(0.2)) {
    shape.uneven_racks = true;
    shape.nodes_per_rack = 3;
  }
  if (random.chance(0.2)) shape.uneven_bounds = true;
}

void set_bound(Rack& rack, int bound) {
  rack.uplinks = bound;
  rack.spines.resize(static_cast<size_t>(bound));
  std::iota(rack.spines.begin(), rack.spines.end(), 0);
}

/// Bounds that are no multiple of the largest weight.
void loosen_bounds(Random& random, Snapshot& snapshot) {
  const bool together = random.chance(0.5);
  const int more = random.below(4);
  for (Rack& rack : snapshot.racks)
    set_bound(rack, rack.bound() + (together ? more : random.below(8)));
}

/// Racks to mend: some of those over their bound, and any other.
std::vector<RackId> draw_racks(Random& random, const Snapshot& snapshot) {
  std::vector<RackId> out;
  for (RackId rack : snapshot.racks.keys()) {
    if (random.chance(0.4)) out.push_back(rack);
  }
  return out;
}

DrawnInstance draw_once(Random& random, DrawnSize size) {
  RandomShape shape;
  set_size(size, shape);
  draw_features(random, shape);
  draw_slots(random, size, shape);
  constexpr double kFill[] = {1.0, 1.0, 0.95, 0.9, 0.8, 0.7};
  shape.fill = kFill[random.below(size == DrawnSize::kTight ? 3 : 6)];
  DrawnInstance out;
  out.snapshot = random_snapshot(random.next(), shape);
  if (shape.weights.size() > 1 && random.chance(0.3)) loosen_bounds(random, out.snapshot);
  if (random.chance(0.2)) out.snapshot = with_merged_jobs(std::move(out.snapshot), random.next());
  out.best_effort = random.chance(0.35);
  if (random.chance(0.15)) out.mend = draw_racks(random, out.snapshot);
  return out;
}

bool nothing_to_do(const DrawnInstance& instance) {
  const IdVector<RackId, int> degrees = fragmentation(instance.snapshot);
  if (!instance.mend) return excess(degrees, bounds(instance.snapshot)) == 0;
  return std::all_of(instance.mend->begin(), instance.mend->end(), [&](RackId rack) {
    return degrees[rack] <= instance.snapshot.racks[rack].bound();
  });
}

}  // namespace

PlanOptions DrawnInstance::options() const {
  PlanOptions options;
  options.best_effort = best_effort;
  options.mend = mend;
  return options;
}

std::string DrawnInstance::describe() const {
  std::string out = fmt::format("{} racks, {} nodes, {} groups, excess {}{}", snapshot.racks.size(),
                                snapshot.nodes.size(), snapshot.groups.size(),
                                excess(fragmentation(snapshot), bounds(snapshot)),
                                best_effort ? ", best effort" : "");
  if (!mend) return out;
  out += ", mend";
  for (RackId rack : *mend) out += " " + snapshot.racks[rack].name;
  return out;
}

DrawnInstance draw_instance(uint64_t seed, DrawnSize size) {
  Random random(seed * 4 + static_cast<uint64_t>(size));
  // Where there is nothing to do, once more: a compliant cluster in six is enough.
  DrawnInstance out = draw_once(random, size);
  if (nothing_to_do(out)) out = draw_once(random, size);
  return out;
}

Snapshot with_merged_jobs(Snapshot snapshot, uint64_t seed) {
  Random random(seed);
  IdVector<JobId, Job> jobs;
  for (const Job& job : snapshot.jobs) {
    const bool merge = !jobs.empty() && jobs.back().movable == job.movable && random.chance(0.5);
    const JobId id(merge ? jobs.size() - 1 : jobs.size());
    if (merge) {
      jobs.back().group_count += job.group_count;
    } else {
      jobs.push_back(job);
    }
    for (int k = 0; k < job.group_count; ++k) {
      snapshot.groups[GroupId(job.first_group.value + k)].job = id;
    }
  }
  snapshot.jobs = std::move(jobs);
  return snapshot;
}

Snapshot with_raised_bounds(Snapshot snapshot, uint64_t seed) {
  Random random(seed);
  const double share = random.chance(0.5) ? 0.5 : 0.8;
  const IdVector<RackId, int> degrees = fragmentation(snapshot);
  for (RackId rack : degrees.keys()) {
    const bool over = degrees[rack] > snapshot.racks[rack].bound();
    if (over && random.chance(share)) set_bound(snapshot.racks[rack], degrees[rack]);
  }
  return snapshot;
}

}  // namespace monkeytree
