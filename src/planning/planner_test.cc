// Long random sequences of events on small clusters: the planner that keeps its state answers as
// one that was made afresh, and so do its counts.

#include "planning/planner.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "cluster/fragmentation.h"
#include "planning/check.h"
#include "planning/counts.h"
#include "planning/counts_compare.h"
#include "planning/drawn_instance.h"
#include "planning/occupancy.h"
#include "planning/order.h"
#include "planning/plan_json.h"
#include "planning/random_snapshot.h"

namespace monkeytree {
namespace {

/// Enough to meet limits now and then, which must be met at the same place.
constexpr int64_t kWorkLimit = 3000;

class Story {
 public:
  Story(uint64_t seed, DrawnSize size)
      : random_(seed),
        planner_(draw_instance(seed, size).snapshot),
        counts_(planner_.snapshot()),
        roomy_(random_.chance(0.5)) {}

  void step() {
    switch (random_.below(8)) {
      case 0:
      case 1:
      case 2:
        return add();
      case 3:
      case 4:
        return remove();
      case 5:
        return random_.chance(0.5) ? drain() : unplug();
      default:
        return plan_and_apply();
    }
  }

  void compare() {
    const Snapshot& snapshot = planner_.snapshot();
    const Counts afresh(snapshot);
    expect_same_counts(counts_, afresh);
    const IdVector<RackId, int> degrees = fragmentation(snapshot);
    std::vector<RackId> over;
    for (RackId rack : degrees.keys()) {
      EXPECT_EQ(planner_.degree(rack), degrees[rack]);
      if (degrees[rack] > snapshot.racks[rack].bound()) over.push_back(rack);
    }
    EXPECT_EQ(planner_.over(), over);
  }

  int plans() const { return plans_; }
  const std::string& last() const { return last_; }

 private:
  const Snapshot& snapshot() const { return planner_.snapshot(); }

  void add() {
    last_ = "add";
    Occupancy occupancy(snapshot());
    Job job;
    job.id = fmt::format("new{}", snapshot().jobs.size());
    job.movable = !random_.chance(0.1);
    job.state_bytes = random_.between(1, 3);
    std::vector<Group> groups(static_cast<size_t>(random_.chance(0.8) ? 1 : 2));
    for (size_t k = 0; k < groups.size(); ++k)
      seat(groups[k], snapshot().groups.size() + k, occupancy);
    std::erase_if(groups, [](const Group& group) { return group.workers.empty(); });
    if (groups.empty()) return;
    const JobId id = planner_.add_job(std::move(job), std::move(groups));
    for (int k = 0; k < snapshot().jobs[id].group_count; ++k) {
      counts_.add_group(added(id, k), GroupId(snapshot().jobs[id].first_group.value + k));
    }
  }

  /// The snapshot while only groups up to k of the last job are there.
  Snapshot added(JobId id, int k) const {
    Snapshot out = snapshot();
    const size_t size =
        static_cast<size_t>(out.jobs[id].first_group.value) + static_cast<size_t>(k) + 1;
    out.groups.resize(size);
    return out;
  }

  void seat(Group& group, size_t id, Occupancy& occupancy) {
    constexpr int kRings[] = {1, 1, 1, 2, 8};
    constexpr int kSlots[] = {1, 2, 4, 8};
    group.rings = kRings[random_.below(5)];
    group.slots = random_.chance(0.1) || snapshot().groups.empty()
                      ? kSlots[random_.below(4)]
                      : snapshot().groups[GroupId(0)].slots;
    std::vector<NodeId> open;
    const int wanted = random_.between(1, 6);
    const IslandId island(random_.below(static_cast<int>(snapshot().islands.size())));
    for (int w = 0; w < wanted; ++w) {
      open.clear();
      for (NodeId node : snapshot().nodes.keys()) {
        if (snapshot().racks[snapshot().nodes[node].rack].island != island) continue;
        if (occupancy.free_slots(node) >= group.slots) open.push_back(node);
      }
      if (open.empty()) return;
      const NodeId node = open[static_cast<size_t>(random_.below(static_cast<int>(open.size())))];
      occupancy.add(node, {GroupId(id), w}, group.slots);
      group.workers.push_back(node);
      if (random_.chance(0.05)) group.pinned.push_back(w);
    }
  }

  void remove() {
    last_ = "remove";
    if (snapshot().jobs.empty()) return;
    const JobId id(random_.below(static_cast<int>(snapshot().jobs.size())));
    Snapshot now = snapshot();
    for (int k = 0; k < now.jobs[id].group_count; ++k) {
      const GroupId g(now.jobs[id].first_group.value + k);
      counts_.remove_group(now, g);
      now.groups[g].workers.clear();
      now.groups[g].pinned.clear();
    }
    planner_.remove_job(id);
  }

  void drain() {
    last_ = "drain";
    constexpr NodeState kStates[] = {NodeState::kUp, NodeState::kUp, NodeState::kDrain,
                                     NodeState::kDown, NodeState::kReserved};
    planner_.set_node_state(NodeId(random_.below(static_cast<int>(snapshot().nodes.size()))),
                            kStates[random_.below(5)]);
    counts_ = Counts(snapshot());
  }

  void unplug() {
    last_ = "unplug";
    const RackId rack(random_.below(static_cast<int>(snapshot().racks.size())));
    std::vector<int> spines(static_cast<size_t>(random_.below(roomy_ ? 18 : 4)));
    std::iota(spines.begin(), spines.end(), random_.below(3));
    counts_.set_bound(rack, static_cast<int>(spines.size()));
    planner_.set_spines(rack, std::move(spines));
  }

  PlanOptions draw_options() {
    PlanOptions options;
    options.work_limit = kWorkLimit;
    options.best_effort = random_.chance(0.3);
    if (random_.chance(0.3)) {
      options.mend.emplace();
      for (RackId rack : planner_.over()) {
        if (random_.chance(0.5)) options.mend->push_back(rack);
      }
    }
    return options;
  }

  void plan_and_apply() {
    last_ = "plan";
    const PlanOptions options = draw_options();
    const Plan kept = planner_.plan(options);
    const Plan fresh = plan(snapshot(), options);
    EXPECT_EQ(text(kept), text(fresh));
    if (!options.mend) {
      EXPECT_THAT(check_plan(snapshot(), record_of(snapshot(), kept, "")), testing::IsEmpty());
    }
    plans_ += kept.moves > 0;
    if (random_.chance(0.2)) return;
    const Snapshot after = apply_rounds(snapshot(), kept.rounds);
    for (GroupId g : moved(kept)) {
      Snapshot now = snapshot();
      for (GroupId other : moved(kept)) {
        if (other < g) now.groups[other].workers = after.groups[other].workers;
      }
      counts_.remove_group(now, g);
      now.groups[g].workers = after.groups[g].workers;
      counts_.add_group(now, g);
    }
    planner_.apply(kept.rounds);
    EXPECT_TRUE(snapshot() == after);
  }

  static std::vector<GroupId> moved(const Plan& plan) {
    std::vector<GroupId> out;
    for (const Round& round : plan.rounds) {
      for (const Move& move : round) out.push_back(move.group);
    }
    std::sort(out.begin(), out.end());
    out.erase(std::unique(out.begin(), out.end()), out.end());
    return out;
  }

  std::string text(const Plan& plan) const { return write_plan(record_of(snapshot(), plan, "")); }

  Random random_;
  Planner planner_;
  Counts counts_;  ///< changed as the planner's own are, one group at a time
  bool roomy_;
  int plans_ = 0;
  std::string last_;
};

void tell(DrawnSize size, uint64_t seeds, int steps) {
  int plans = 0;
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    Story story(seed, size);
    for (int i = 0; i < steps; ++i) {
      story.step();
      SCOPED_TRACE(fmt::format("seed {} step {} {}", seed, i, story.last()));
      story.compare();
      ASSERT_FALSE(testing::Test::HasFailure()) << fmt::format("seed {} step {}", seed, i);
    }
    plans += story.plans();
  }
  EXPECT_GT(plans, static_cast<int>(seeds) * steps / 100);
}

TEST(Planner, AnswersAsOneMadeAfreshOnTinyClusters) { tell(DrawnSize::kTiny, 100, 200); }
TEST(Planner, AnswersAsOneMadeAfreshOnSmallClusters) { tell(DrawnSize::kSmall, 40, 100); }
TEST(Planner, AnswersAsOneMadeAfreshOnLargerClusters) { tell(DrawnSize::kLarge, 15, 100); }

TEST(Planner, AnEmptyClusterFills) {
  Snapshot snapshot = draw_instance(1, DrawnSize::kTiny).snapshot;
  snapshot.jobs = {};
  snapshot.groups = {};
  Planner planner(snapshot);
  EXPECT_EQ(planner.plan().status, PlanStatus::kCompliant);
  Group group;
  group.workers = {NodeId(0)};
  const JobId job = planner.add_job({}, {group});
  EXPECT_EQ(planner.snapshot().groups[GroupId(0)].job, job);
  planner.remove_job(job);
  planner.remove_job(job);  // nothing more to take away
  EXPECT_EQ(planner.plan().status, PlanStatus::kCompliant);
}

}  // namespace
}  // namespace monkeytree
