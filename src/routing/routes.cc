#include "routing/routes.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <string_view>
#include <tuple>
#include <unordered_map>

#include "cluster/fragmentation.h"
#include "routing/color_all.h"
#include "routing/coloring.h"
#include "routing/recolor.h"
#include "routing/sharing.h"

namespace monkeytree {
namespace {

constexpr int64_t kMostFlows = int64_t{1} << 24;
/// Colouring parallel flows between the same racks takes their square.
constexpr int64_t kMostDegree = 16'384;
constexpr int64_t kMostCells = int64_t{1} << 28;  // racks · colours · 2 sides

/// The spines that may matter, as colours 0, 1, …, and which rack reaches which.
struct Palette {
  std::vector<int> spines;  // colour → spine, ascending
  size_t words = 0;
  std::vector<uint64_t> usable;  // per rack

  int color_of(int spine) const {
    const auto at = std::lower_bound(spines.begin(), spines.end(), spine);
    return at != spines.end() && *at == spine ? static_cast<int>(at - spines.begin()) : -1;
  }
  uint64_t word(RackId rack, size_t w) const {
    return usable[static_cast<size_t>(rack.value) * words + w];
  }
};

bool reaches(const Rack& rack, int spine) {
  return std::binary_search(rack.spines.begin(), rack.spines.end(), spine);
}

bool reach_each_other(const Snapshot& snapshot, const Flow& flow) {
  const Rack& from = snapshot.racks[flow.from_rack];
  const Rack& to = snapshot.racks[flow.to_rack];
  if (from.island != to.island) return false;
  size_t i = 0, j = 0;
  while (i < from.spines.size() && j < to.spines.size()) {
    if (from.spines[i] == to.spines[j]) return true;
    (from.spines[i] < to.spines[j] ? i : j) += 1;
  }
  return false;
}

/// The first `limit` spines that each pair of racks has in common, and those in `besides`. A flow
/// that may choose among 2·degree−1 spines never lacks a free one, so with that limit no spine that
/// could be needed is left out.
Palette make_palette(const Snapshot& snapshot, const std::vector<Flow>& flows, int limit,
                     std::vector<int> besides) {
  Palette palette;
  std::vector<std::pair<RackId, RackId>> pairs;
  pairs.reserve(flows.size());
  for (const Flow& flow : flows) pairs.emplace_back(flow.from_rack, flow.to_rack);
  std::sort(pairs.begin(), pairs.end());
  pairs.erase(std::unique(pairs.begin(), pairs.end()), pairs.end());
  std::vector<int>& spines = palette.spines;
  spines = std::move(besides);
  std::vector<int> common;
  for (const auto& [from, to] : pairs) {
    common.clear();
    const std::vector<int>& a = snapshot.racks[from].spines;
    const std::vector<int>& b = snapshot.racks[to].spines;
    std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(common));
    if (common.size() > static_cast<size_t>(limit)) common.resize(static_cast<size_t>(limit));
    spines.insert(spines.end(), common.begin(), common.end());
    if (spines.size() > 4096) {
      std::sort(spines.begin(), spines.end());
      spines.erase(std::unique(spines.begin(), spines.end()), spines.end());
    }
  }
  std::sort(spines.begin(), spines.end());
  spines.erase(std::unique(spines.begin(), spines.end()), spines.end());
  palette.words = Coloring::words_for(static_cast<int>(spines.size()));
  palette.usable.assign(snapshot.racks.size() * palette.words, 0);
  for (RackId rack : snapshot.racks.keys()) {
    for (int spine : snapshot.racks[rack].spines) {
      const int color = palette.color_of(spine);
      if (color < 0) continue;
      palette.usable[static_cast<size_t>(rack.value) * palette.words +
                     static_cast<size_t>(color) / 64] |= uint64_t{1} << (color % 64);
    }
  }
  return palette;
}

int largest_degree(const std::vector<Flow>& flows, size_t racks) {
  std::vector<int> out(racks, 0), in(racks, 0);
  int largest = 0;
  for (const Flow& flow : flows) {
    largest = std::max({largest, ++out[static_cast<size_t>(flow.from_rack.value)],
                        ++in[static_cast<size_t>(flow.to_rack.value)]});
  }
  return largest;
}

/// The uplink that each flow had before, or -1; `matched` says whether it was there at all.
class PreviousUplinks {
 public:
  PreviousUplinks(const Snapshot& snapshot, const std::vector<PreviousRoute>& previous)
      : snapshot_(snapshot) {
    for (JobId job : snapshot.jobs.keys()) jobs_.emplace(snapshot.jobs[job].id, job);
    for (NodeId node : snapshot.nodes.keys()) nodes_.emplace(snapshot.nodes[node].name, node);
    for (RackId rack : snapshot.racks.keys()) racks_.emplace(snapshot.racks[rack].name, rack);
    for (const PreviousRoute& route : previous) add(route);
    const auto by_key = [](const Entry& a, const Entry& b) { return a.key < b.key; };
    std::stable_sort(by_nodes_.begin(), by_nodes_.end(), by_key);
    std::stable_sort(by_racks_.begin(), by_racks_.end(), by_key);
  }

  int uplink(const Flow& flow) const {
    const Group& group = snapshot_.groups[flow.group];
    const int from = group.workers[static_cast<size_t>(flow.from_worker)].value;
    const int to = group.workers[static_cast<size_t>(flow.to_worker)].value;
    const int exact = find(by_nodes_, {flow.group.value, flow.ring, from, to});
    if (exact >= 0) return exact;
    return find(by_racks_, {flow.group.value, flow.ring, flow.from_rack.value, flow.to_rack.value});
  }

 private:
  using Key = std::tuple<int, int, int, int>;
  struct Entry {
    Key key;
    int uplink;
  };

  void add(const PreviousRoute& route) {
    const auto job = jobs_.find(route.job);
    if (job == jobs_.end() || route.uplink < 0) return;
    const Job& owner = snapshot_.jobs[job->second];
    if (route.group < 0 || route.group >= owner.group_count) return;
    const int group = owner.first_group.value + route.group;
    const auto from = nodes_.find(route.from), to = nodes_.find(route.to);
    if (from != nodes_.end() && to != nodes_.end()) {
      by_nodes_.push_back(
          {{group, route.ring, from->second.value, to->second.value}, route.uplink});
    }
    const auto from_rack = racks_.find(route.from_rack), to_rack = racks_.find(route.to_rack);
    if (from_rack != racks_.end() && to_rack != racks_.end()) {
      by_racks_.push_back(
          {{group, route.ring, from_rack->second.value, to_rack->second.value}, route.uplink});
    }
  }

  static int find(const std::vector<Entry>& entries, const Key& key) {
    const auto at = std::lower_bound(entries.begin(), entries.end(), key,
                                     [](const Entry& e, const Key& k) { return e.key < k; });
    return at != entries.end() && at->key == key ? at->uplink : -1;
  }

  const Snapshot& snapshot_;
  std::unordered_map<std::string_view, JobId> jobs_;
  std::unordered_map<std::string_view, NodeId> nodes_;
  std::unordered_map<std::string_view, RackId> racks_;
  std::vector<Entry> by_nodes_, by_racks_;
};

/// Colours from nothing where racks differ: flows with few usable colours come first.
std::vector<int> color_by_lists(const std::vector<Flow>& flows, const Palette& palette,
                                size_t racks) {
  Coloring coloring(racks, static_cast<int>(palette.spines.size()), palette.usable);
  coloring.reserve(flows.size());
  std::vector<std::pair<int, int>> order;  // usable colours, flow
  for (size_t i = 0; i < flows.size(); ++i) {
    int usable = 0;
    for (size_t w = 0; w < palette.words; ++w) {
      usable +=
          std::popcount(palette.word(flows[i].from_rack, w) & palette.word(flows[i].to_rack, w));
    }
    order.emplace_back(usable, static_cast<int>(i));
  }
  std::sort(order.begin(), order.end());
  std::vector<int> chosen(flows.size());
  std::vector<EdgeId> edges(flows.size());
  for (const auto& [usable, i] : order) {
    const Flow& flow = flows[static_cast<size_t>(i)];
    edges[static_cast<size_t>(i)] = coloring.insert(flow.from_rack, flow.to_rack);
  }
  for (size_t i = 0; i < flows.size(); ++i) chosen[i] = coloring.color(edges[i]);
  return chosen;
}

/// Every uplink and downlink with more than one flow. Flows are gathered by rack side, in an array
/// with an offset for each, since sorting all of them at once would take longer than colouring.
std::vector<Shared> find_shared(size_t racks, const std::vector<RoutedFlow>& flows) {
  const auto side = [](const RoutedFlow& routed, bool down) {
    const RackId rack = down ? routed.flow.to_rack : routed.flow.from_rack;
    return static_cast<size_t>(rack.value) * 2 + (down ? 1 : 0);
  };
  std::vector<size_t> start(2 * racks + 1, 0);
  for (const RoutedFlow& routed : flows) {
    if (routed.uplink < 0) continue;
    for (bool down : {false, true}) ++start[side(routed, down) + 1];
  }
  for (size_t s = 1; s < start.size(); ++s) start[s] += start[s - 1];
  std::vector<std::pair<int, int>> ends(start.back());  // uplink, flow
  std::vector<size_t> next(start.begin(), start.end() - 1);
  for (size_t i = 0; i < flows.size(); ++i) {
    if (flows[i].uplink < 0) continue;
    for (bool down : {false, true}) {
      ends[next[side(flows[i], down)]++] = {flows[i].uplink, static_cast<int>(i)};
    }
  }
  std::vector<Shared> shared;
  for (size_t s = 0; s < 2 * racks; ++s) {
    std::sort(ends.begin() + static_cast<long>(start[s]),
              ends.begin() + static_cast<long>(start[s + 1]));
    for (size_t i = start[s], j = i; i < start[s + 1]; i = j) {
      while (j < start[s + 1] && ends[j].first == ends[i].first) ++j;
      if (j - i < 2) continue;
      Shared meeting{RackId(s / 2), ends[i].first, s % 2 == 0, {}};
      for (size_t k = i; k < j; ++k) meeting.flows.push_back(ends[k].second);
      shared.push_back(std::move(meeting));
    }
  }
  return shared;
}

/// Spines where both racks of every flow reach the same ones, from nothing.
std::vector<int> choose_alike(const Snapshot& snapshot, const std::vector<Flow>& flows) {
  std::vector<RackPair> pairs;
  pairs.reserve(flows.size());
  for (const Flow& flow : flows) pairs.push_back({flow.from_rack, flow.to_rack});
  std::vector<int> bounds;
  for (const Rack& rack : snapshot.racks) bounds.push_back(rack.bound());
  std::vector<int> spines = color_all(pairs, bounds);
  for (size_t i = 0; i < flows.size(); ++i) {
    spines[i] = snapshot.racks[flows[i].from_rack].spines[static_cast<size_t>(spines[i])];
  }
  return spines;
}

/// Spines where racks differ, or where flows have `former` uplinks to keep (-1: none).
std::vector<int> choose_with_lists(const Snapshot& snapshot, const std::vector<Flow>& flows,
                                   const std::vector<int>& former, bool afresh, Routes& result) {
  const size_t racks = snapshot.racks.size();
  const int degree = largest_degree(flows, racks);
  std::vector<int> besides;
  for (size_t i = 0; i < flows.size(); ++i) {
    if (reaches(snapshot.racks[flows[i].from_rack], former[i]) &&
        reaches(snapshot.racks[flows[i].to_rack], former[i])) {
      besides.push_back(former[i]);
    }
  }
  const Palette palette = make_palette(snapshot, flows, 2 * degree - 1, std::move(besides));
  const int colors = static_cast<int>(palette.spines.size());
  std::vector<FormerColor> wanted;
  for (size_t i = 0; i < flows.size(); ++i) {
    wanted.push_back(
        {flows[i].from_rack, flows[i].to_rack, former[i] < 0 ? -1 : palette.color_of(former[i])});
  }
  std::vector<int> chosen = afresh ? color_by_lists(flows, palette, racks)
                                   : recolor(racks, colors, palette.usable, wanted);
  SharingProblem problem{racks, colors, palette.usable, {}};
  for (const FormerColor& flow : wanted) problem.flows.push_back({flow.from, flow.to, flow.color});
  result.proved = share_least(problem, chosen);
  for (int& color : chosen) color = palette.spines[static_cast<size_t>(color)];
  return chosen;
}

/// Chooses the spines of flows that have one; fills what Routes says about the result as a whole.
std::vector<int> choose_spines(const Snapshot& snapshot, const std::vector<Flow>& flows,
                               const std::vector<PreviousRoute>* previous, Routes& result) {
  result.best_effort = std::any_of(flows.begin(), flows.end(), [&](const Flow& flow) {
    return snapshot.racks[flow.from_rack].spines != snapshot.racks[flow.to_rack].spines;
  });
  std::vector<int> former(flows.size(), -1);
  if (previous != nullptr) {
    const PreviousUplinks uplinks(snapshot, *previous);
    for (size_t i = 0; i < flows.size(); ++i) former[i] = uplinks.uplink(flows[i]);
  } else if (!result.best_effort) {
    return choose_alike(snapshot, flows);
  }
  std::vector<int> spines = choose_with_lists(snapshot, flows, former, previous == nullptr, result);
  for (size_t i = 0; i < flows.size(); ++i) {
    if (former[i] >= 0) (former[i] == spines[i] ? result.kept : result.recolored) += 1;
  }
  return spines;
}

}  // namespace

absl::Status check_routable(const Snapshot& snapshot) {
  int64_t flows = 0, most = 0;
  GroupId largest;
  IdVector<RackId, int64_t> degrees(snapshot.racks.size(), 0);
  for (GroupId group : snapshot.groups.keys()) {
    const std::vector<RackId> racks = racks_of(snapshot, group);
    if (racks.size() < 2) continue;
    for (RackId rack : racks) degrees[rack] += snapshot.groups[group].rings;
    const int64_t mine = static_cast<int64_t>(racks.size()) * snapshot.groups[group].rings;
    flows += mine;
    if (mine <= most) continue;
    most = mine;
    largest = group;
  }
  if (flows > kMostFlows) {
    return absl::ResourceExhaustedError(
        fmt::format("{} flows leave a rack, and at most {} can be routed; {} of them belong to "
                    "group {} of job {}",
                    flows, kMostFlows, most, snapshot.group_index(largest),
                    snapshot.jobs[snapshot.groups[largest].job].id));
  }
  int64_t degree = 0, bound = 0;
  for (RackId rack : snapshot.racks.keys()) {
    degree = std::max(degree, degrees[rack]);
    if (degrees[rack] > 0) bound = std::max<int64_t>(bound, snapshot.racks[rack].bound());
  }
  if (degree > kMostDegree) {
    return absl::ResourceExhaustedError(
        fmt::format("{} flows leave one rack, and at most {} can be routed", degree, kMostDegree));
  }
  const int64_t colors = std::min(bound, 2 * degree);
  const int64_t cells = 2 * static_cast<int64_t>(snapshot.racks.size()) * colors;
  if (cells <= kMostCells) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      fmt::format("{} racks with up to {} uplinks in use are too many to route",
                  snapshot.racks.size(), colors));
}

Routes routes(const Snapshot& snapshot, const std::vector<PreviousRoute>* previous) {
  Routes result;
  result.orders = ring_orders(snapshot);
  const std::vector<Flow> flows = flows_between_racks(snapshot, result.orders);
  result.colors = largest_degree(flows, snapshot.racks.size());
  std::vector<Flow> routable;
  std::vector<size_t> places;
  for (size_t i = 0; i < flows.size(); ++i) {
    result.flows.push_back({flows[i], -1});
    if (reach_each_other(snapshot, flows[i])) {
      routable.push_back(flows[i]);
      places.push_back(i);
    } else {
      result.unroutable.push_back(static_cast<int>(i));
    }
  }
  const std::vector<int> spines = choose_spines(snapshot, routable, previous, result);
  for (size_t k = 0; k < places.size(); ++k) result.flows[places[k]].uplink = spines[k];
  result.shared = find_shared(snapshot.racks.size(), result.flows);
  result.isolated = result.shared.empty() && result.unroutable.empty();
  return result;
}

std::vector<PreviousRoute> named_routes(const Snapshot& snapshot, const Routes& routes) {
  std::vector<PreviousRoute> named;
  named.reserve(routes.flows.size());
  for (const auto& [flow, uplink] : routes.flows) {
    const Group& group = snapshot.groups[flow.group];
    const auto node = [&](int worker) {
      return snapshot.nodes[group.workers[static_cast<size_t>(worker)]].name;
    };
    named.push_back({snapshot.jobs[group.job].id, snapshot.group_index(flow.group), flow.ring,
                     node(flow.from_worker), node(flow.to_worker),
                     snapshot.racks[flow.from_rack].name, snapshot.racks[flow.to_rack].name,
                     uplink});
  }
  return named;
}

}  // namespace monkeytree
