#include "planning/order.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <string>
#include <tuple>
#include <utility>

#include "planning/departures.h"
#include "planning/rounds.h"

namespace monkeytree {
namespace {

size_t at(int i) { return static_cast<size_t>(i); }

/// Plays moves on the occupancy and takes them back in the end.
class Stage {
 public:
  Stage(const Snapshot& snapshot, Occupancy& occupancy) : s_(snapshot), occupancy_(occupancy) {}
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;
  ~Stage() {
    for (auto it = played_.rbegin(); it != played_.rend(); ++it) {
      if (it->added) {
        occupancy_.remove(it->node, it->seat, slots(it->seat.group));
      } else {
        occupancy_.add(it->node, it->seat, slots(it->seat.group));
      }
    }
  }

  void arrive(NodeId node, const Departure& d) { play({true, node, {d.group, d.worker}}); }
  void leave(const Departure& d) { play({false, d.from, {d.group, d.worker}}); }
  int slots(GroupId group) const { return s_.groups[group].slots; }

  /// The node of the rack that takes the worker: one that hosts none of its job before one that
  /// hosts none of its group before any other; then lowest id, or where `tight` fewest slots left.
  NodeId find(const Departure& d, bool tight) const {
    const int need = slots(d.group);
    const JobId job = s_.groups[d.group].job;
    std::tuple best(3, std::numeric_limits<int>::max(), NodeId());
    for (NodeId id : s_.racks[d.to].nodes) {
      const Node& node = s_.nodes[id];
      const int free = occupancy_.free_slots(id);
      if (node.state != NodeState::kUp || node.node_class != d.node_class || free < need) continue;
      int company = 0;
      occupancy_.for_each(id, [&](Occupancy::Seat seat) {
        if (seat.group == d.group) {
          company = 2;
        } else if (s_.groups[seat.group].job == job) {
          company = std::max(company, 1);
        }
      });
      best = std::min(best, std::tuple(company, tight ? free : 0, id));
    }
    return std::get<2>(best);
  }

  /// Places for workers of so many slots in the rack, counted up to `enough`.
  int places(RackId rack, ClassId node_class, int need, int enough) const {
    int count = 0;
    for (NodeId id : s_.racks[rack].nodes) {
      const Node& node = s_.nodes[id];
      if (node.state != NodeState::kUp || node.node_class != node_class) continue;
      count += std::max(0, occupancy_.free_slots(id)) / need;
      if (count >= enough) return enough;
    }
    return count;
  }

 private:
  struct Played {
    bool added;
    NodeId node;
    Occupancy::Seat seat;
  };
  void play(Played played) {
    played_.push_back(played);
    if (played.added) {
      occupancy_.add(played.node, played.seat, slots(played.seat.group));
    } else {
      occupancy_.remove(played.node, played.seat, slots(played.seat.group));
    }
  }

  const Snapshot& s_;
  Occupancy& occupancy_;
  std::vector<Played> played_;
};

/// The departures as arcs between pools, one pool per rack and class.
struct Graph {
  std::vector<Arc> arcs;
  std::vector<int> free;
  bool mixed = false;  ///< workers of different slots meet in a pool: places are not alike
  bool roomy = true;   ///< everything can move in one round
};

class GraphBuilder {
 public:
  GraphBuilder(const Snapshot& snapshot, const Stage& stage, std::span<const Departure> departures)
      : s_(snapshot), stage_(stage), departures_(departures) {
    pools_.reserve(2 * departures.size());
    for (const Departure& d : departures) {
      pools_.emplace_back(d.to, d.node_class);
      pools_.emplace_back(s_.nodes[d.from].rack, d.node_class);
    }
    std::sort(pools_.begin(), pools_.end());
    pools_.erase(std::unique(pools_.begin(), pools_.end()), pools_.end());
  }

  Graph build() const {
    Graph graph;
    std::vector<int> arrivals(pools_.size(), 0), need(pools_.size(), 0);
    const auto meet = [&](int pool, int slots) {
      if (need[at(pool)] != 0 && need[at(pool)] != slots) graph.mixed = true;
      need[at(pool)] = slots;
    };
    for (const Departure& d : departures_) {
      Arc arc;
      arc.to = pool(d.to, d.node_class);
      ++arrivals[at(arc.to)];
      meet(arc.to, stage_.slots(d.group));
      if (s_.nodes[d.from].state == NodeState::kUp) {
        arc.from = pool(s_.nodes[d.from].rack, d.node_class);
        meet(arc.from, stage_.slots(d.group));
      }
      arc.cost = s_.jobs[s_.groups[d.group].job].state_bytes;
      graph.arcs.push_back(arc);
    }
    for (size_t p = 0; p < pools_.size(); ++p) {
      graph.free.push_back(arrivals[p] == 0 ? 0
                                            : stage_.places(pools_[p].first, pools_[p].second,
                                                            need[p], arrivals[p]));
      graph.roomy = graph.roomy && graph.free.back() == arrivals[p];
    }
    return graph;
  }

 private:
  int pool(RackId rack, ClassId node_class) const {
    return static_cast<int>(
        std::lower_bound(pools_.begin(), pools_.end(), std::pair(rack, node_class)) -
        pools_.begin());
  }

  const Snapshot& s_;
  const Stage& stage_;
  std::span<const Departure> departures_;
  std::vector<std::pair<RackId, ClassId>> pools_;
};

/// Exchanges destinations between departures of one kind where that joins a component that no free
/// place can start with another one, so that fewer workers are staged.
void join_stuck(std::vector<Departure>& departures, Graph& graph) {
  const Components components = components_of(graph.arcs, graph.free);
  std::vector<int> parent(graph.free.size());
  std::iota(parent.begin(), parent.end(), 0);
  std::vector<bool> stuck = components.stuck;
  const auto root = [&](size_t arc) {
    int c = components.component[arc];
    while (parent[at(c)] != c) c = parent[at(c)] = parent[at(parent[at(c)])];
    return c;
  };
  for (size_t begin = 0, end = 0; begin < departures.size(); begin = end) {
    size_t anchor = begin;
    for (end = begin; end < departures.size() && departures[end].kind == departures[begin].kind;
         ++end) {
      if (stuck[at(root(anchor))] && !stuck[at(root(end))]) anchor = end;
    }
    for (size_t i = begin; i < end; ++i) {
      const int a = root(anchor), b = root(i);
      if (a == b || (!stuck[at(a)] && !stuck[at(b)])) continue;
      std::swap(departures[anchor].to, departures[i].to);
      std::swap(graph.arcs[anchor].to, graph.arcs[i].to);
      parent[at(b)] = a;
      stuck[at(a)] = stuck[at(a)] && stuck[at(b)];
    }
  }
}

/// Gives every arrival its node, round after round.
std::optional<std::vector<Round>> seat_rounds(std::span<const Departure> departures,
                                              std::span<const ArcTime> times, Stage& stage) {
  int count = 0;
  for (const ArcTime& time : times) count = std::max(count, time.round + 1);
  std::vector<size_t> order(departures.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::tuple(times[a].round, departures[a].group, departures[a].worker) <
           std::tuple(times[b].round, departures[b].group, departures[b].worker);
  });
  std::vector<Round> rounds(at(count));
  std::vector<std::vector<size_t>> leaving(at(count));
  for (size_t i = 0; i < departures.size(); ++i) {
    const int first = times[i].staged >= 0 ? times[i].staged : times[i].round;
    leaving[at(first)].push_back(i);
  }
  size_t next = 0;
  for (int r = 0; r < count; ++r) {
    for (; next < order.size() && times[order[next]].round == r; ++next) {
      const Departure& d = departures[order[next]];
      const NodeId node = stage.find(d, false);
      if (!node.valid()) return std::nullopt;
      stage.arrive(node, d);
      const bool staged = times[order[next]].staged >= 0;
      rounds[at(r)].push_back({d.group, d.worker, staged ? kStaging : d.from, node});
    }
    for (size_t i : leaving[at(r)]) {
      const Departure& d = departures[i];
      stage.leave(d);
      if (times[i].staged >= 0) rounds[at(r)].push_back({d.group, d.worker, d.from, kStaging});
    }
    std::sort(rounds[at(r)].begin(), rounds[at(r)].end());
  }
  return rounds;
}

/// Workers of different slots: places are not alike, so nodes are tried as the rounds go, large
/// workers first; where nothing fits, the largest worker on an up node goes to staging.
class MixedOrder {
 public:
  MixedOrder(const Snapshot& snapshot, std::span<const Departure> departures, Stage& stage)
      : s_(snapshot), stage_(stage), departures_(departures), state_(departures.size()) {
    waiting_.resize(departures.size());
    std::iota(waiting_.begin(), waiting_.end(), 0);
    std::stable_sort(waiting_.begin(), waiting_.end(), [&](size_t a, size_t b) {
      return stage_.slots(departures[a].group) > stage_.slots(departures[b].group);
    });
  }

  std::optional<std::vector<Round>> run() {
    while (!waiting_.empty()) {
      rounds_.emplace_back();
      left_.clear();
      std::erase_if(waiting_, [&](size_t i) { return arrives(i); });
      if (rounds_.back().empty() && !put_aside()) return std::nullopt;
      for (size_t i : left_) stage_.leave(departures_[i]);
      std::sort(rounds_.back().begin(), rounds_.back().end());
    }
    return std::move(rounds_);
  }

 private:
  enum class State : uint8_t { kSeated, kStaged };

  bool arrives(size_t i) {
    const Departure& d = departures_[i];
    const NodeId node = stage_.find(d, true);
    if (!node.valid()) return false;
    stage_.arrive(node, d);
    const bool staged = state_[i] == State::kStaged;
    if (!staged) left_.push_back(i);
    rounds_.back().push_back({d.group, d.worker, staged ? kStaging : d.from, node});
    return true;
  }

  bool put_aside() {
    for (size_t i : waiting_) {
      const Departure& d = departures_[i];
      if (state_[i] == State::kStaged || s_.nodes[d.from].state != NodeState::kUp) continue;
      state_[i] = State::kStaged;
      left_.push_back(i);
      rounds_.back().push_back({d.group, d.worker, d.from, kStaging});
      return true;
    }
    return false;
  }

  const Snapshot& s_;
  Stage& stage_;
  std::span<const Departure> departures_;
  std::vector<State> state_;
  std::vector<size_t> waiting_;  ///< large workers first
  std::vector<size_t> left_;     ///< who gives a node back in this round
  std::vector<Round> rounds_;
};

}  // namespace

std::optional<std::vector<Round>> order_moves(const Snapshot& snapshot,
                                              std::span<const CountChange> changes,
                                              Occupancy& occupancy) {
  std::optional<std::vector<Departure>> departures =
      choose_departures(snapshot, occupancy, changes);
  if (!departures) return std::nullopt;
  Stage stage(snapshot, occupancy);
  Graph graph = GraphBuilder(snapshot, stage, *departures).build();
  if (graph.mixed) return MixedOrder(snapshot, *departures, stage).run();
  if (!graph.roomy) join_stuck(*departures, graph);
  const std::optional<std::vector<ArcTime>> times = schedule_rounds(graph.arcs, graph.free);
  if (!times) return std::nullopt;
  return seat_rounds(*departures, *times, stage);
}

std::optional<std::vector<Round>> order_moves(const Snapshot& snapshot,
                                              std::span<const CountChange> changes) {
  Occupancy occupancy(snapshot);
  return order_moves(snapshot, changes, occupancy);
}

Snapshot apply_rounds(const Snapshot& snapshot, std::span<const Round> rounds) {
  Snapshot after = snapshot;
  for (const Round& round : rounds) {
    for (const Move& move : round) {
      if (move.to != kStaging) after.groups[move.group].workers[at(move.worker)] = move.to;
    }
  }
  return after;
}

Snapshot reserve(const Snapshot& snapshot, std::span<const Move> in_flight) {
  Snapshot out = snapshot;
  for (const Move& move : in_flight) {
    const GroupId group = move.group;
    out.jobs[out.groups[group].job].movable = false;
    if (move.to != kStaging) out.groups[group].workers[at(move.worker)] = move.to;
  }
  // A node's slots at the worst moment: everything that arrives is there before anything leaves.
  IdVector<NodeId, int64_t> used(out.nodes.size(), 0), leaving(out.nodes.size(), 0);
  for (const Group& group : out.groups) {
    for (NodeId node : group.workers) used[node] += group.slots;
  }
  for (size_t i = 0; i < in_flight.size(); ++i) {
    const Move& move = in_flight[i];
    const NodeId now = snapshot.groups[move.group].workers[at(move.worker)];
    const NodeId then = out.groups[move.group].workers[at(move.worker)];
    // The two halves of a staged move hold its source once.
    const bool repeated =
        move.from == kStaging &&
        std::any_of(
            in_flight.begin(), in_flight.begin() + static_cast<ptrdiff_t>(i),
            [&](const Move& m) { return m.group == move.group && m.worker == move.worker; });
    if (now != then && !repeated) leaving[now] += out.groups[move.group].slots;
  }
  Job hold;
  hold.id = "@in-flight";
  hold.name = "slots that running plans are about to leave";
  hold.movable = false;
  hold.first_group = GroupId(out.groups.size());
  for (NodeId id : out.nodes.keys()) {
    const Node& node = out.nodes[id];
    if (leaving[id] == 0 || node.state != NodeState::kUp) continue;
    const int64_t slots = std::min(leaving[id], node.slots - used[id]);
    if (slots <= 0) continue;
    Group group;
    group.job = JobId(out.jobs.size());
    group.slots = static_cast<int>(slots);
    group.workers = {id};
    out.groups.push_back(std::move(group));
    ++hold.group_count;
  }
  if (hold.group_count > 0) out.jobs.push_back(std::move(hold));
  return out;
}

std::vector<CountChange> count_changes(const Snapshot& before, const Snapshot& after) {
  std::map<std::tuple<GroupId, ClassId, RackId>, int> delta;
  for (GroupId g : before.groups.keys()) {
    const Group& old_group = before.groups[g];
    for (size_t i = 0; i < old_group.workers.size(); ++i) {
      const Node& from = before.nodes[old_group.workers[i]];
      const Node& to = after.nodes[after.groups[g].workers[i]];
      --delta[{g, from.node_class, from.rack}];
      ++delta[{g, to.node_class, to.rack}];
    }
  }
  std::vector<CountChange> changes;
  for (const auto& [place, count] : delta) {
    const auto& [group, node_class, rack] = place;
    if (count != 0) changes.push_back({group, node_class, rack, count});
  }
  return changes;
}

}  // namespace monkeytree
