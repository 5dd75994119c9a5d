#include "kubernetes/pins.h"

#include <fmt/format.h>

#include "base/json.h"

namespace monkeytree {

KubePins::KubePins(const KubeFacts& facts, const RackFinder& racks) : facts_(facts), racks_(racks) {
  for (const auto& [key, pod] : facts.pods) {
    for (const std::string& claim : pod.claims) ++users_[fmt::format("{}/{}", pod.space, claim)];
  }
  for (const auto& [key, budget] : facts.budgets) {
    if (budget.allowed <= 0) empty_budgets_[budget.space].push_back(&budget);
  }
}

std::string KubePins::why(const KubePod& pod) const {
  if (!pod.pinned.empty()) return pod.pinned;
  for (const std::string& key : pod.selector_keys) {
    if (racks_.places(key)) return fmt::format("it selects its place by {}", printable(key));
  }
  if (std::string why = by_budget(pod); !why.empty()) return why;
  if (std::string why = by_claims(pod); !why.empty()) return why;
  const std::string_view gang = pod.mark("pod-group-name");
  if (!gang.empty() && facts_.gangs.contains(fmt::format("{}/{}", pod.space, gang))) {
    return "KAI ends its whole gang when it stays below minMember";
  }
  return "";
}

std::string KubePins::by_budget(const KubePod& pod) const {
  const auto found = empty_budgets_.find(pod.space);
  if (found == empty_budgets_.end()) return "";
  for (const KubeBudget* budget : found->second) {
    if (!budget->pods.matches(pod.labels)) continue;
    return fmt::format("the budget {}/{} allows no disruption", budget->space, budget->name);
  }
  return "";
}

std::string KubePins::by_claims(const KubePod& pod) const {
  for (const std::string& name : pod.claims) {
    const std::string key = fmt::format("{}/{}", pod.space, name);
    const auto claim = facts_.claims.find(key);
    if (claim == facts_.claims.end()) {
      return fmt::format("its volume claim {} is not known", printable(name));
    }
    const auto volume = facts_.volumes.find(claim->second.volume);
    if (volume == facts_.volumes.end()) {
      return fmt::format("the volume of its claim {} is not known", printable(name));
    }
    if (volume->second.local) {
      return fmt::format("the volume of its claim {} is on its node", printable(name));
    }
    if (!claim->second.many_nodes && users_.find(key)->second > 1) {
      return fmt::format("it shares the claim {}, which one node at a time can mount",
                         printable(name));
    }
  }
  return "";
}

}  // namespace monkeytree
