#include "planning/rounds.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <functional>
#include <numeric>
#include <queue>
#include <set>
#include <tuple>
#include <utility>

namespace monkeytree {
namespace {

size_t at(int i) { return static_cast<size_t>(i); }

int root_of(std::vector<int>& parent, int pool) {
  while (parent[at(pool)] != pool) {
    parent[at(pool)] = parent[at(parent[at(pool)])];
    pool = parent[at(pool)];
  }
  return pool;
}

/// One component with its pools numbered from 0.
struct Component {
  std::vector<Arc> arcs;
  std::vector<int> free;  ///< of each pool
};

/// Fewest rounds over all schedules, by breadth-first search over the sets of arcs already run. It
/// never pays to leave a free place idle while a worker waits for it, so only full rounds are
/// tried.
class ExactRounds {
 public:
  explicit ExactRounds(const Component& component) : c_(component) {
    for (size_t i = 0; i < c_.arcs.size(); ++i) {
      const Arc& arc = c_.arcs[i];
      arrive_[at(arc.to)] |= 1u << i;
      if (arc.from >= 0) leave_[at(arc.from)] |= 1u << i;
    }
  }

  bool run(std::vector<ArcTime>& times) {
    const unsigned all = (1u << c_.arcs.size()) - 1;
    before_.fill(kUnseen);
    before_[0] = 0;
    frontier_ = {0};
    while (!frontier_.empty() && before_[all] == kUnseen) {
      next_.clear();
      for (unsigned done : frontier_) extend(done, 0, 0);
      frontier_.swap(next_);
    }
    if (before_[all] == kUnseen) return false;
    std::vector<unsigned> path;
    for (unsigned done = all; done != 0; done = before_[done]) path.push_back(done);
    int round = 0;
    unsigned done = 0;
    for (auto it = path.rbegin(); it != path.rend(); ++it, ++round) {
      for (size_t i = 0; i < times.size(); ++i) {
        if (((*it & ~done) >> i) & 1u) times[i].round = round;
      }
      done = *it;
    }
    return true;
  }

 private:
  static constexpr uint16_t kUnseen = 0xFFFF;

  /// Adds the sets reached from `done` by one full round, pool after pool.
  void extend(unsigned done, size_t p, unsigned chosen) {
    if (p == c_.free.size()) {
      const unsigned reached = done | chosen;
      if (before_[reached] != kUnseen) return;
      before_[reached] = static_cast<uint16_t>(done);
      next_.push_back(reached);
      return;
    }
    const unsigned waiting = arrive_[p] & ~done;
    const int places =
        c_.free[p] + std::popcount(leave_[p] & done) - std::popcount(arrive_[p] & done);
    const int count = std::min(places, std::popcount(waiting));
    if (count == std::popcount(waiting)) return extend(done, p + 1, chosen | waiting);
    if (count <= 0) return extend(done, p + 1, chosen);
    for (unsigned set = waiting; set != 0; set = (set - 1) & waiting) {
      if (std::popcount(set) == count) extend(done, p + 1, chosen | set);
    }
  }

  const Component& c_;
  std::array<unsigned, 2 * kExactArcs> arrive_{}, leave_{};
  std::array<uint16_t, 1u << kExactArcs> before_{};
  std::vector<unsigned> frontier_, next_;
};

/// Trails of tokens for components of any size.
class Trails {
 public:
  explicit Trails(const Component& component)
      : c_(component), incoming_(c_.free.size()), height_(c_.free.size(), kUnknown) {
    for (size_t i = 0; i < c_.arcs.size(); ++i) {
      incoming_[at(c_.arcs[i].to)].push_back(static_cast<int>(i));
    }
  }

  void run(std::vector<ArcTime>& times) {
    // The arc with the longest chain behind it goes last in its list, from where arcs are taken.
    for (size_t pool = 0; pool < incoming_.size(); ++pool) measure(static_cast<int>(pool));
    for (std::vector<int>& arcs : incoming_) {
      std::sort(arcs.begin(), arcs.end(), [&](int a, int b) {
        const int ha = height_behind(a), hb = height_behind(b);
        return ha != hb ? ha < hb : a > b;
      });
    }
    walk();
    splice();
    balance();
    for (const Trail& trail : trails_) {
      for (size_t i = 0; i < trail.arcs.size(); ++i) {
        times[at(trail.arcs[i])].round = static_cast<int>(i);
      }
    }
  }

  /// For a stuck component: the token made by staging the worker of arc `staged` walks all others.
  void run_staged(int staged, std::vector<ArcTime>& times) {
    const Arc& arc = c_.arcs[at(staged)];
    std::erase(incoming_[at(arc.to)], staged);
    for (std::vector<int>& arcs : incoming_) std::reverse(arcs.begin(), arcs.end());
    // A first walk goes from the staged worker's old pool to its new one; the rest are closed
    // tours.
    Trail trail{arc.from, {}};
    for (int pool = arc.from; !incoming_[at(pool)].empty();) {
      trail.arcs.push_back(take(pool));
      pool = c_.arcs[at(trail.arcs.back())].from;
    }
    trails_ = {trail};
    splice();
    int round = 0;
    times[at(staged)].staged = round++;
    for (int i : trails_[0].arcs) times[at(i)].round = round++;
    times[at(staged)].round = round;
  }

 private:
  static constexpr int kUnknown = -1;
  static constexpr size_t kLooks = 100;  ///< by balance(), an arc

  struct Trail {
    int start;
    std::vector<int> arcs;
  };

  int height_behind(int arc) const {
    const int from = c_.arcs[at(arc)].from;
    return from < 0 ? 0 : height_[at(from)];
  }

  /// Longest chain of arcs that can follow a token on the pool; a cycle counts once.
  void measure(int start) {
    if (height_[at(start)] != kUnknown) return;
    struct Visit {
      int pool;
      size_t next = 0;
      int best = 0;
    };
    std::vector<Visit> stack{{start}};
    height_[at(start)] = 0;  // what a cycle back to it adds
    while (!stack.empty()) {
      Visit& visit = stack.back();
      if (visit.next == incoming_[at(visit.pool)].size()) {
        height_[at(visit.pool)] = visit.best;
        const int height = visit.best;
        stack.pop_back();
        if (!stack.empty()) stack.back().best = std::max(stack.back().best, 1 + height);
        continue;
      }
      const int from = c_.arcs[at(incoming_[at(visit.pool)][visit.next++])].from;
      if (from < 0 || height_[at(from)] != kUnknown) {
        visit.best = std::max(visit.best, 1 + (from < 0 ? 0 : height_[at(from)]));
      } else {
        height_[at(from)] = 0;
        stack.push_back({from});
      }
    }
  }

  /// All tokens walk at once until each is on a pool where nothing waits.
  void walk() {
    std::vector<size_t> moving;
    for (size_t pool = 0; pool < incoming_.size(); ++pool) {
      const int tokens = std::min(c_.free[pool], static_cast<int>(incoming_[pool].size()));
      for (int i = 0; i < tokens; ++i) {
        moving.push_back(trails_.size());
        trails_.push_back({static_cast<int>(pool), {}});
      }
    }
    std::vector<int> where(trails_.size());
    for (size_t t = 0; t < trails_.size(); ++t) where[t] = trails_[t].start;
    while (!moving.empty()) {
      std::vector<size_t> still;
      for (size_t t : moving) {
        if (incoming_[at(where[t])].empty()) continue;
        trails_[t].arcs.push_back(take(where[t]));
        where[t] = c_.arcs[at(trails_[t].arcs.back())].from;
        if (where[t] >= 0) still.push_back(t);
      }
      moving.swap(still);
    }
  }

  int take(int pool) {
    const int arc = incoming_[at(pool)].back();
    incoming_[at(pool)].pop_back();
    return arc;
  }

  /// What is left over are closed tours. The shortest trail takes the next one that it meets, until
  /// none is left.
  void splice() {
    using Entry = std::tuple<size_t, size_t, size_t>;  // length, trail, arcs already looked at
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
    for (size_t t = 0; t < trails_.size(); ++t) queue.emplace(trails_[t].arcs.size(), t, 0);
    while (!queue.empty()) {
      auto [length, t, seen] = queue.top();
      queue.pop();
      std::vector<int>& arcs = trails_[t].arcs;
      const auto pool = [&] {
        return seen == 0 ? trails_[t].start : c_.arcs[at(arcs[seen - 1])].from;
      };
      while (seen < arcs.size() && incoming_[at(pool())].empty()) ++seen;
      if (pool() < 0 || incoming_[at(pool())].empty()) continue;
      std::vector<int> tour;
      const int start = pool();
      for (int at_pool = start; tour.empty() || at_pool != start;) {
        tour.push_back(take(at_pool));
        at_pool = c_.arcs[at(tour.back())].from;
      }
      arcs.insert(arcs.begin() + static_cast<ptrdiff_t>(seen), tour.begin(), tour.end());
      queue.emplace(arcs.size(), t, seen);
    }
  }

  /// Two trails that meet in a pool may exchange what lies ahead of them. As long as that makes the
  /// longest trail shorter, and within a number of looks linear in the arcs, it is done.
  void balance() {
    std::vector<std::vector<int>> into(incoming_.size());
    std::vector<size_t> trail_of(c_.arcs.size()), position(c_.arcs.size());
    std::set<std::pair<size_t, size_t>> by_length;  // length, trail
    const auto enter = [&](size_t t) {
      const std::vector<int>& arcs = trails_[t].arcs;
      by_length.emplace(arcs.size(), t);
      for (size_t i = 0; i < arcs.size(); ++i) {
        trail_of[at(arcs[i])] = t;
        position[at(arcs[i])] = i;
      }
    };
    for (size_t t = 0; t < trails_.size(); ++t) enter(t);
    for (size_t i = 0; i < c_.arcs.size(); ++i)
      into[at(c_.arcs[i].to)].push_back(static_cast<int>(i));
    for (size_t looks = kLooks * c_.arcs.size(); !by_length.empty();) {
      const auto [length, longest] = *by_length.rbegin();
      size_t least = length;
      int mine = -1, other = -1;
      for (int arc : trails_[longest].arcs) {
        const std::vector<int>& met = into[at(c_.arcs[at(arc)].to)];
        if (looks < met.size()) return;
        looks -= met.size();
        for (int b : met) {
          const size_t y = trail_of[at(b)], i = position[at(arc)], j = position[at(b)];
          if (y == longest) continue;
          const size_t becomes = std::max(i + trails_[y].arcs.size() - j, j + length - i);
          if (becomes < least) std::tie(least, mine, other) = std::tuple(becomes, arc, b);
        }
      }
      if (mine < 0) return;
      const size_t y = trail_of[at(other)];
      std::vector<int>&ours = trails_[longest].arcs, &theirs = trails_[y].arcs;
      by_length.erase({ours.size(), longest});
      by_length.erase({theirs.size(), y});
      const auto our_tail = ours.begin() + static_cast<ptrdiff_t>(position[at(mine)]);
      const auto their_tail = theirs.begin() + static_cast<ptrdiff_t>(position[at(other)]);
      const std::vector<int> tail(our_tail, ours.end());
      ours.erase(our_tail, ours.end());
      ours.insert(ours.end(), their_tail, theirs.end());
      theirs.erase(their_tail, theirs.end());
      theirs.insert(theirs.end(), tail.begin(), tail.end());
      enter(longest);
      enter(y);
    }
  }

  const Component& c_;
  std::vector<std::vector<int>> incoming_;  ///< arcs into each pool not yet used, next one last
  std::vector<int> height_;
  std::vector<Trail> trails_;
};

/// Places of each pool once everything has moved.
std::vector<int> places_in_the_end(std::span<const Arc> arcs, std::span<const int> free) {
  std::vector<int> left(free.begin(), free.end());
  for (const Arc& arc : arcs) {
    if (arc.from >= 0) ++left[at(arc.from)];
    --left[at(arc.to)];
  }
  return left;
}

std::vector<ArcTime> schedule_component(const Component& component, bool stuck) {
  std::vector<ArcTime> times(component.arcs.size());
  if (stuck) {
    const auto cheapest =
        std::min_element(component.arcs.begin(), component.arcs.end(),
                         [](const Arc& a, const Arc& b) { return a.cost < b.cost; });
    Trails(component).run_staged(static_cast<int>(cheapest - component.arcs.begin()), times);
  } else if (component.arcs.size() > at(kExactArcs) || !ExactRounds(component).run(times)) {
    Trails(component).run(times);
  }
  return times;
}

}  // namespace

Components components_of(std::span<const Arc> arcs, std::span<const int> free) {
  std::vector<int> parent(free.size());
  std::iota(parent.begin(), parent.end(), 0);
  for (const Arc& arc : arcs) {
    if (arc.from < 0) continue;
    const int a = root_of(parent, arc.from), b = root_of(parent, arc.to);
    parent[at(std::max(a, b))] = std::min(a, b);
  }
  Components out;
  out.stuck.assign(free.size(), true);
  for (size_t pool = 0; pool < free.size(); ++pool) {
    if (free[pool] > 0) out.stuck[at(root_of(parent, static_cast<int>(pool)))] = false;
  }
  out.component.reserve(arcs.size());
  for (const Arc& arc : arcs) out.component.push_back(root_of(parent, arc.to));
  return out;
}

std::optional<std::vector<ArcTime>> schedule_rounds(std::span<const Arc> arcs,
                                                    std::span<const int> free) {
  std::vector<int> spare(free.begin(), free.end());
  bool at_once = true;
  for (const Arc& arc : arcs) at_once = --spare[at(arc.to)] >= 0 && at_once;
  std::vector<ArcTime> times(arcs.size());
  if (at_once) return times;
  for (int left : places_in_the_end(arcs, free)) {
    if (left < 0) return std::nullopt;
  }

  const Components components = components_of(arcs, free);
  std::vector<int> order(arcs.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return components.component[at(a)] < components.component[at(b)];
  });
  std::vector<int> local(free.size(), -1);
  for (size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    const int id = components.component[at(order[begin])];
    Component component;
    const auto number = [&](int pool) {
      if (pool < 0) return -1;
      if (local[at(pool)] < 0) {
        local[at(pool)] = static_cast<int>(component.free.size());
        component.free.push_back(free[at(pool)]);
      }
      return local[at(pool)];
    };
    while (end < order.size() && components.component[at(order[end])] == id) {
      const Arc& arc = arcs[at(order[end++])];
      const int to = number(arc.to);
      component.arcs.push_back({number(arc.from), to, arc.cost});
    }
    const std::vector<ArcTime> found = schedule_component(component, components.stuck[at(id)]);
    for (size_t i = begin; i < end; ++i) times[at(order[i])] = found[i - begin];
  }
  return times;
}

}  // namespace monkeytree
