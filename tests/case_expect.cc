#include "case_expect.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "cluster/fragmentation.h"
#include "planning/check.h"
#include "planning/fill.h"
#include "planning/order.h"
#include "planning/plan.h"
#include "planning/plan_json.h"
#include "routing/routes.h"

namespace monkeytree::cases {
namespace {

void same(std::string_view what, int expected, int found) {
  if (expected == found) return;
  throw CaseError(fmt::format("{}: expected {}, found {}", what, expected, found));
}

void same(std::string_view what, const std::vector<int>& expected, const std::vector<int>& found) {
  if (expected == found) return;
  throw CaseError(fmt::format("{}: expected {}, found {}", what, fmt::join(expected, " "),
                              fmt::join(found, " ")));
}

std::vector<int> list(const IdVector<RackId, int>& values) {
  return {values.begin(), values.end()};
}

/// Reads `name value…` pairs that follow one another.
class Clauses {
 public:
  explicit Clauses(Words words) : words_(words) {}
  bool done() const { return words_.empty(); }
  const std::string& next() {
    if (words_.empty()) throw CaseError("a word is missing at the end");
    const std::string& word = words_.front();
    words_ = words_.subspan(1);
    return word;
  }
  Words rest() { return std::exchange(words_, Words()); }

 private:
  Words words_;
};

int staged(const Plan& plan) {
  int count = 0;
  for (const Round& round : plan.rounds) {
    count += static_cast<int>(
        std::count_if(round.begin(), round.end(), [](const Move& m) { return m.to == kStaging; }));
  }
  return count;
}

Plan make_plan(CaseCluster& cluster, bool best_effort) {
  PlanOptions options;
  options.best_effort = best_effort;
  options.mend = cluster.mend();
  return plan(cluster.snapshot(), options);
}

/// Carries the plan out and counts again, so that a plan is never only believed.
void recount(CaseCluster& cluster, const Plan& plan) {
  const Snapshot& before = cluster.snapshot();
  const Snapshot after = apply_rounds(before, plan.rounds);
  same("degrees before", list(fragmentation(before)), list(plan.before));
  same("degrees after the moves", list(fragmentation(after)), list(plan.after));
  same("excess after the moves", excess(fragmentation(after), plan.bounds), plan.excess_after);
  int moved = 0;
  for (GroupId group : before.groups.keys()) {
    const Group& old_group = before.groups[group];
    const Group& new_group = after.groups[group];
    for (size_t worker = 0; worker < old_group.workers.size(); ++worker) {
      moved += old_group.workers[worker] != new_group.workers[worker];
    }
  }
  same("workers that moved", moved, plan.moves);
  const std::vector<std::string> wrong = check_plan(before, record_of(before, plan, ""));
  if (!wrong.empty()) throw CaseError(fmt::format("check: {}", fmt::join(wrong, "; ")));
}

void expect_plan(CaseCluster& cluster, Words words, bool best_effort) {
  const Plan found = make_plan(cluster, best_effort);
  Clauses clauses(words);
  const std::string& status = clauses.next();
  if (status != name_of(found.status)) {
    throw CaseError(fmt::format("status: expected {}, found {} with {} moves", status,
                                name_of(found.status), found.moves));
  }
  recount(cluster, found);
  while (!clauses.done()) {
    const std::string& clause = clauses.next();
    if (clause == "moves") {
      same("moves", number(clauses.next()), found.moves);
    } else if (clause == "excess") {
      same("excess after", number(clauses.next()), found.excess_after);
    } else if (clause == "rounds") {
      same("rounds", number(clauses.next()), static_cast<int>(found.rounds.size()));
    } else if (clause == "staged") {
      same("staged", number(clauses.next()), staged(found));
    } else if (clause == "conflict") {
      std::vector<RackId> racks;
      for (const std::string& name : clauses.rest()) racks.push_back(cluster.rack(name));
      std::vector<std::string> names;
      for (RackId rack : found.conflict) names.push_back(cluster.snapshot().racks[rack].name);
      if (racks != found.conflict) {
        throw CaseError(fmt::format("conflict: found {}", fmt::join(names, " ")));
      }
    } else {
      throw CaseError(
          fmt::format("'{}' is not one of moves, excess, rounds, staged, conflict", clause));
    }
  }
}

/// `A C B D moves 11 degrees 1 2 2 1`: jobs up to the first clause are the order.
void expect_fill(CaseCluster& cluster, Words words) {
  std::vector<GroupId> order;
  while (!words.empty() && words[0] != "moves" && words[0] != "degrees") {
    order.push_back(cluster.group(words[0]));
    words = words.subspan(1);
  }
  const std::optional<Fill> found = fill(cluster.snapshot(), order);
  if (!found) throw CaseError("fill: there is none");
  Clauses clauses(words);
  while (!clauses.done()) {
    const std::string& clause = clauses.next();
    if (clause == "moves") {
      same("moves of the fill", number(clauses.next()), found->moves);
    } else if (clause == "degrees") {
      same("degrees of the fill", numbers(clauses.rest()), list(fragmentation(found->placement)));
    } else {
      throw CaseError(fmt::format("'{}' is not one of moves, degrees", clause));
    }
  }
}

void expect_order(CaseCluster& cluster, Words words) {
  if (words.size() < 2) throw CaseError("expected `expect order JOB W…`");
  same("ring order", numbers(words.subspan(1)),
       ring_order(cluster.snapshot(), cluster.group(words[0])));
}

void expect_flows(CaseCluster& cluster, Words words) {
  const Snapshot& snapshot = cluster.snapshot();
  IdVector<GroupId, std::vector<int>> orders = ring_orders(snapshot);
  for (const auto& [group, order] : cluster.orders()) orders[group] = order;
  IdVector<RackId, int> out(snapshot.racks.size(), 0);
  for (const Flow& flow : flows_between_racks(snapshot, orders)) ++out[flow.from_rack];
  same("flows out of each rack", numbers(words), list(out));
}

/// Each uplink must be usable at both ends, and `isolated` must be what one sees.
void verify(const Snapshot& snapshot, const Routes& found) {
  std::set<std::tuple<int, int, bool>> links;
  bool meet = false;
  for (const RoutedFlow& routed : found.flows) {
    for (const auto& [rack, up] :
         {std::pair(routed.flow.from_rack, true), std::pair(routed.flow.to_rack, false)}) {
      const std::vector<int>& spines = snapshot.racks[rack].spines;
      if (routed.uplink < 0) {
        meet = true;
        continue;
      }
      if (!std::binary_search(spines.begin(), spines.end(), routed.uplink)) {
        throw CaseError(fmt::format("a flow takes spine {}, which rack '{}' does not reach",
                                    routed.uplink, snapshot.racks[rack].name));
      }
      meet |= !links.emplace(rack.value, routed.uplink, up).second;
    }
  }
  if (found.isolated == meet) {
    throw CaseError(fmt::format("routes say {}, but flows {} meet",
                                found.isolated ? "isolated" : "shared", meet ? "do" : "do not"));
  }
}

void expect_routes(CaseCluster& cluster, Words words) {
  const Routes found = routes(cluster.snapshot());
  verify(cluster.snapshot(), found);
  Clauses clauses(words);
  while (!clauses.done()) {
    const std::string& clause = clauses.next();
    if (clause == "colors") {
      same("colors", number(clauses.next()), found.colors);
    } else if (clause == "isolated" || clause == "shared") {
      if (found.isolated != (clause == "isolated")) {
        throw CaseError(fmt::format("routes: expected {}, found {}", clause,
                                    found.isolated ? "isolated" : "shared"));
      }
    } else if (clause == "best-effort") {
      if (!found.best_effort) throw CaseError("routes: expected best effort, found a promise");
    } else {
      throw CaseError(
          fmt::format("'{}' is not one of colors, isolated, shared, best-effort", clause));
    }
  }
}

void expect_excess(CaseCluster& cluster, Words words) {
  if (words.size() != 1) throw CaseError("expected `expect excess N`");
  const Snapshot& snapshot = cluster.snapshot();
  same("excess", number(words[0]), excess(fragmentation(snapshot), bounds(snapshot)));
}

}  // namespace

void expect(CaseCluster& cluster, Words words) {
  if (words.empty()) throw CaseError("`expect` what?");
  const std::string& what = words[0];
  const Words rest = words.subspan(1);
  if (what == "degrees") {
    same("degrees", numbers(rest), list(fragmentation(cluster.snapshot())));
  } else if (what == "excess") {
    expect_excess(cluster, rest);
  } else if (what == "plan" || what == "best-effort") {
    expect_plan(cluster, rest, what == "best-effort");
  } else if (what == "fill") {
    expect_fill(cluster, rest);
  } else if (what == "order") {
    expect_order(cluster, rest);
  } else if (what == "flows") {
    expect_flows(cluster, rest);
  } else if (what == "routes") {
    expect_routes(cluster, rest);
  } else {
    throw CaseError(fmt::format(
        "'{}' is not one of degrees, excess, plan, best-effort, fill, order, flows, routes", what));
  }
}

void apply_plan(CaseCluster& cluster) {
  const Plan found = make_plan(cluster, false);
  if (found.status == PlanStatus::kInfeasible || found.status == PlanStatus::kUnknown) {
    throw CaseError(fmt::format("nothing to apply: the plan is {}", name_of(found.status)));
  }
  cluster.replace(apply_rounds(cluster.snapshot(), found.rounds));
}

}  // namespace monkeytree::cases
