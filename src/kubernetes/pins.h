#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "kubernetes/objects.h"
#include "kubernetes/racks.h"

namespace monkeytree {

/// Tells which pods must stay where they are, whatever their job.
class KubePins {
 public:
  /// Both must outlive it. O(pods · budgets of their namespace).
  KubePins(const KubeFacts& facts, const RackFinder& racks);

  /// Why the pod must stay; "" where it may go.
  std::string why(const KubePod& pod) const;

 private:
  std::string by_claims(const KubePod& pod) const;
  std::string by_budget(const KubePod& pod) const;

  const KubeFacts& facts_;
  const RackFinder& racks_;
  std::map<std::string, int, std::less<>> users_;  ///< pods of each claim, by "namespace/name"
  std::map<std::string, std::vector<const KubeBudget*>, std::less<>> empty_budgets_;
};

}  // namespace monkeytree
