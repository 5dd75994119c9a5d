#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "cli/common.h"
#include "cli/plan.h"
#include "cluster/fragmentation.h"
#include "planning/order.h"
#include "planning/plan_json.h"

namespace monkeytree {
namespace {

constexpr size_t kMaxNames = 8;  ///< racks named in one sentence

class PlanText {
 public:
  PlanText(const Snapshot& snapshot, const Plan& plan, const Paint& paint)
      : snapshot_(snapshot), plan_(plan), paint_(paint) {}

  std::string text() const {
    std::string out = sentence() + "\n";
    if (!plan_.rounds.empty()) out += "\n" + moves() + "\n" + degrees() + "\n" + spans();
    return out;
  }

 private:
  std::string sentence() const {
    const std::string moved = fmt::format("{} in {}", counted(plan_.moves, "move"),
                                          counted(ssize(plan_.rounds), "round"));
    const bool one = plan_.moves == 1;
    const std::string end =
        plan_.excess_after > 0
            ? fmt::format("{} {} short, {} before", one ? "leaves" : "leave",
                          counted(plan_.excess_after, "uplink"), plan_.excess_before)
            : fmt::format("{} every rack within its bound", one ? "brings" : "bring");
    switch (plan_.status) {
      case PlanStatus::kCompliant:
        return paint_.good("compliant") + ": no rack is over its bound, nothing to move";
      case PlanStatus::kOptimal:
        if (plan_.moves == 0) return paint_.good("optimal") + ": no move makes it better (proved)";
        return fmt::format("{}: {} {};\n{}", paint_.good("optimal"), moved, end, proved());
      case PlanStatus::kFeasible:
        return fmt::format("{}: {} {};\n{}: {}", paint_.bad("feasible"), moved, end,
                           plan_.limited ? "a limit was hit" : unproved(), known());
      case PlanStatus::kInfeasible:
        return fmt::format(
            "{}: no placement meets every bound (proved)\n{}--best-effort finds the least excess",
            paint_.bad("infeasible"), conflict());
      case PlanStatus::kUnknown:
        return paint_.bad("unknown") +
               (plan_.limited
                    ? ": a limit was hit before a plan was found, or a proof that there is none"
                    : ": no plan was found that the nodes can take, nor a proof that there is "
                      "none");
    }
    return "";
  }

  template <class Container>
  static long long ssize(const Container& container) {
    return static_cast<long long>(container.size());
  }

  std::string proved() const {
    if (plan_.best_effort) return "least excess, and fewest moves for it (both proved)";
    return "no plan has fewer moves (proved)";
  }

  std::string_view unproved() const {
    const bool excess = plan_.best_effort && plan_.excess_lower_bound;
    return excess ? "not proved to be the least excess" : "not proved to be the fewest";
  }

  std::string known() const {
    if (plan_.best_effort && plan_.excess_lower_bound) {
      return fmt::format("at least {} short in any placement",
                         counted(*plan_.excess_lower_bound, "uplink"));
    }
    return fmt::format("at least {} needed", counted(plan_.lower_bound.value_or(0), "move"));
  }

  std::string conflict() const {
    if (plan_.conflict.empty()) return "";
    return fmt::format("racks whose bounds cannot hold together: {}\n", names(plan_.conflict));
  }

  /// Names of racks within a line, the first few where there are many.
  std::string names(const std::vector<RackId>& racks) const {
    std::vector<std::string> shown;
    for (RackId rack : racks) {
      if (shown.size() == kMaxNames) break;
      shown.push_back(fit(snapshot_.racks[rack].name, 12));
    }
    std::string out = fmt::format("{}", fmt::join(shown, " "));
    if (racks.size() > kMaxNames) out += fmt::format(" and {} more", racks.size() - kMaxNames);
    return out;
  }

  std::string job(GroupId group) const { return snapshot_.jobs[snapshot_.groups[group].job].id; }

  /// "node (rack)".
  std::string place(NodeId node) const {
    if (node == kStaging) return std::string(kStagingName);
    return fmt::format("{} ({})", snapshot_.nodes[node].name,
                       snapshot_.racks[snapshot_.nodes[node].rack].name);
  }

  std::string moves() const {
    Table table({"round", "job", "group", "worker", "from", "to"});
    int number = 0;
    for (const Round& round : plan_.rounds) {
      ++number;
      for (const Move& move : round) {
        table.add({std::to_string(number), job(move.group),
                   std::to_string(snapshot_.group_index(move.group)), std::to_string(move.worker),
                   place(move.from), place(move.to)});
      }
    }
    return table.text(paint_);
  }

  std::string degrees() const {
    Table table({"rack", "degree", "after", "bound"});
    for (RackId rack : snapshot_.racks.keys()) {
      if (plan_.before[rack] == plan_.after[rack]) continue;
      table.add({snapshot_.racks[rack].name, std::to_string(plan_.before[rack]),
                 std::to_string(plan_.after[rack]), std::to_string(plan_.bounds[rack])});
    }
    if (table.empty()) return "no degree changes\n";
    return table.text(paint_);
  }

  /// What each moved job gains or gives: the racks it spans.
  std::string spans() const {
    std::vector<GroupId> moved;
    for (const Round& round : plan_.rounds) {
      for (const Move& move : round) moved.push_back(move.group);
    }
    std::sort(moved.begin(), moved.end());
    moved.erase(std::unique(moved.begin(), moved.end()), moved.end());
    const Snapshot after = apply_rounds(snapshot_, plan_.rounds);
    Table table({"job", "group", "rings", "racks", "after"});
    for (GroupId group : moved) {
      table.add({job(group), std::to_string(snapshot_.group_index(group)),
                 std::to_string(snapshot_.groups[group].rings), names(racks_of(snapshot_, group)),
                 names(racks_of(after, group))});
    }
    return table.text(paint_);
  }

  const Snapshot& snapshot_;
  const Plan& plan_;
  const Paint& paint_;
};

}  // namespace

std::string plan_text(const Snapshot& snapshot, const Plan& plan, bool colors) {
  const Paint paint(colors);
  return PlanText(snapshot, plan, paint).text();
}

}  // namespace monkeytree
