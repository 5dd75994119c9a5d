// Long random sequences of events on small clusters, plans under way among them: the planner that
// keeps its state answers as one that was made afresh for the snapshot that reserve() gives, and so
// do its counts.

#include "planning/planner.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/test_load.h"
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

/// Events come to a planner; beside it stands the cluster as it is and the moves under way.
class Story {
 public:
  Story(uint64_t seed, DrawnSize size)
      : random_(seed),
        actual_(draw_instance(seed, size).snapshot),
        planner_(actual_),
        roomy_(random_.chance(0.5)) {}

  void step() {
    switch (random_.below(10)) {
      case 0:
      case 1:
      case 2:
        return add();
      case 3:
      case 4:
        return remove();
      case 5:
        return random_.chance(0.5) ? drain() : random_.chance(0.5) ? unplug() : freeze();
      case 6:
      case 7:
        return go_on();
      default:
        return plan_and_move();
    }
  }

  void compare() {
    const Snapshot expected = reserve(actual_, in_flight());
    expect_same_counts(planner_.counts(), counts_of(expected));
    const IdVector<RackId, int> degrees = fragmentation(expected);
    std::vector<RackId> over;
    for (RackId rack : degrees.keys()) {
      EXPECT_EQ(planner_.degree(rack), degrees[rack]);
      if (degrees[rack] > actual_.racks[rack].bound()) over.push_back(rack);
    }
    EXPECT_EQ(planner_.over(), over);
    const Occupancy occupancy(expected);
    for (NodeId node : actual_.nodes.keys()) {
      EXPECT_EQ(planner_.free_slots(node), occupancy.free_slots(node));
    }
    for (JobId job : actual_.jobs.keys()) {
      EXPECT_EQ(planner_.snapshot().jobs[job].movable, expected.jobs[job].movable);
    }
    EXPECT_TRUE(!flights_.empty() || planner_.snapshot() == actual_);
  }

  int plans() const { return plans_; }
  int around() const { return around_; }
  const std::string& last() const { return last_; }

 private:
  using Flight = std::vector<Round>;  ///< what is left of a plan under way

  std::vector<Move> in_flight() const {
    std::vector<Move> moves;
    for (const Flight& flight : flights_) {
      for (const Round& round : flight) moves.insert(moves.end(), round.begin(), round.end());
    }
    return moves;
  }

  /// Counts keep no groups for what is held.
  Counts counts_of(Snapshot expected) const {
    std::vector<Group> holds;
    for (size_t g = actual_.groups.size(); g < expected.groups.size(); ++g) {
      holds.push_back(expected.groups[GroupId(g)]);
    }
    expected.groups.resize(actual_.groups.size());
    Counts counts(expected);
    for (const Group& hold : holds) counts.hold(expected, hold.workers[0], hold.slots);
    return counts;
  }

  void add() {
    last_ = "add";
    Occupancy occupancy(reserve(actual_, in_flight()));
    Job job;
    job.id = fmt::format("new{}", actual_.jobs.size());
    job.movable = !random_.chance(0.1);
    job.state_bytes = random_.between(1, 3);
    std::vector<Group> groups(static_cast<size_t>(random_.chance(0.8) ? 1 : 2));
    for (size_t k = 0; k < groups.size(); ++k)
      seat(groups[k], actual_.groups.size() + k, occupancy);
    std::erase_if(groups, [](const Group& group) { return group.workers.empty(); });
    if (groups.empty()) return;
    job.first_group = GroupId(actual_.groups.size());
    job.group_count = static_cast<int>(groups.size());
    for (Group& group : groups) {
      group.job = JobId(actual_.jobs.size());
      actual_.groups.push_back(group);
    }
    actual_.jobs.push_back(job);
    EXPECT_EQ(planner_.add_job(std::move(job), std::move(groups)), JobId(actual_.jobs.size() - 1));
  }

  void seat(Group& group, size_t id, Occupancy& occupancy) {
    constexpr int kRings[] = {1, 1, 1, 2, 8};
    constexpr int kSlots[] = {1, 2, 4, 8};
    group.rings = kRings[random_.below(5)];
    group.slots = random_.chance(0.1) || actual_.groups.empty() ? kSlots[random_.below(4)]
                                                                : actual_.groups[GroupId(0)].slots;
    std::vector<NodeId> open;
    const int wanted = random_.between(1, 6);
    const IslandId island(random_.below(static_cast<int>(actual_.islands.size())));
    for (int w = 0; w < wanted; ++w) {
      open.clear();
      for (NodeId node : actual_.nodes.keys()) {
        if (actual_.racks[actual_.nodes[node].rack].island != island) continue;
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
    if (actual_.jobs.empty()) return;
    const JobId id(random_.below(static_cast<int>(actual_.jobs.size())));
    for (Flight& flight : flights_) {
      for (Round& round : flight) {
        std::erase_if(round, [&](const Move& m) { return actual_.groups[m.group].job == id; });
      }
    }
    forget_ended_flights();
    Job& job = actual_.jobs[id];
    for (int k = 0; k < job.group_count; ++k) {
      Group& group = actual_.groups[GroupId(job.first_group.value + k)];
      group.workers.clear();
      group.pinned.clear();
    }
    job.name = job.user = job.partition = job.comment = "";
    planner_.remove_job(id);
  }

  void drain() {
    last_ = "drain";
    constexpr NodeState kStates[] = {NodeState::kUp, NodeState::kUp, NodeState::kDrain,
                                     NodeState::kDown, NodeState::kReserved};
    const NodeId node(random_.below(static_cast<int>(actual_.nodes.size())));
    actual_.nodes[node].state = kStates[random_.below(5)];
    planner_.set_node_state(node, actual_.nodes[node].state);
  }

  void unplug() {
    last_ = "unplug";
    const RackId rack(random_.below(static_cast<int>(actual_.racks.size())));
    std::vector<int> spines(static_cast<size_t>(random_.below(roomy_ ? 18 : 4)));
    std::iota(spines.begin(), spines.end(), random_.below(3));
    actual_.racks[rack].spines = spines;
    planner_.set_spines(rack, std::move(spines));
  }

  void freeze() {
    last_ = "freeze";
    if (actual_.jobs.empty()) return;
    const JobId id(random_.below(static_cast<int>(actual_.jobs.size())));
    actual_.jobs[id].movable = random_.chance(0.7);
    planner_.set_movable(id, actual_.jobs[id].movable);
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

  void plan_and_move() {
    last_ = "plan";
    const PlanOptions options = draw_options();
    const Snapshot expected = reserve(actual_, in_flight());
    const Plan kept = planner_.plan(options);
    const Plan fresh = plan(expected, options);
    EXPECT_EQ(text(kept), text(fresh));
    if (!options.mend) {
      EXPECT_THAT(check_plan(expected, record_of(expected, kept, "")), testing::IsEmpty());
    }
    plans_ += kept.moves > 0;
    around_ += kept.moves > 0 && !flights_.empty();
    if (random_.chance(0.2)) return;
    if (random_.chance(0.5)) {
      planner_.begin(kept.rounds);
      flights_.push_back(kept.rounds);
      forget_ended_flights();
    } else {
      actual_ = apply_rounds(actual_, kept.rounds);
      planner_.apply(kept.rounds);
    }
  }

  /// Some moves of the first round of a plan under way are carried out, or what is left is given
  /// up.
  void go_on() {
    last_ = "go on";
    if (flights_.empty()) return;
    Flight& flight =
        flights_[static_cast<size_t>(random_.below(static_cast<int>(flights_.size())))];
    if (random_.chance(0.2) && !staged(flight)) {
      Round all;
      for (const Round& round : flight) all.insert(all.end(), round.begin(), round.end());
      flight.clear();
      planner_.cancel(all);
    } else {
      Round done;
      std::erase_if(flight.front(), [&](const Move& move) {
        if (random_.chance(0.3)) return false;
        done.push_back(move);
        return true;
      });
      actual_ = apply_rounds(actual_, std::span(&done, 1));
      planner_.finish(done);
    }
    forget_ended_flights();
  }

  /// A worker whose place may be taken before it has a new one cannot be sent back.
  static bool staged(const Flight& flight) {
    return std::any_of(flight.begin(), flight.end(), [](const Round& round) {
      return std::any_of(round.begin(), round.end(),
                         [](const Move& m) { return m.from == kStaging || m.to == kStaging; });
    });
  }

  void forget_ended_flights() {
    for (Flight& flight : flights_) {
      std::erase_if(flight, [](const Round& round) { return round.empty(); });
    }
    std::erase_if(flights_, [](const Flight& flight) { return flight.empty(); });
  }

  std::string text(const Plan& plan) const { return write_plan(record_of(actual_, plan, "")); }

  Random random_;
  Snapshot actual_;
  Planner planner_;
  std::vector<Flight> flights_;
  bool roomy_;
  int plans_ = 0, around_ = 0;
  std::string last_;
};

void tell(DrawnSize size, uint64_t seeds, int steps) {
  int plans = 0, around = 0;
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    Story story(seed, size);
    for (int i = 0; i < steps; ++i) {
      story.step();
      SCOPED_TRACE(fmt::format("seed {} step {} {}", seed, i, story.last()));
      story.compare();
      ASSERT_FALSE(testing::Test::HasFailure()) << fmt::format("seed {} step {}", seed, i);
    }
    plans += story.plans();
    around += story.around();
  }
  EXPECT_GT(plans, static_cast<int>(seeds) * steps / 100);
  EXPECT_GT(around, 0);
}

TEST(Planner, AnswersAsOneMadeAfreshOnTinyClusters) {
  tell(DrawnSize::kTiny, instances(100U), 200);
}
TEST(Planner, AnswersAsOneMadeAfreshOnSmallClusters) {
  tell(DrawnSize::kSmall, instances(40U), 100);
}
TEST(Planner, AnswersAsOneMadeAfreshOnLargerClusters) {
  tell(DrawnSize::kLarge, instances(15U), 100);
}

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
