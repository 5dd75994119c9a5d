#pragma once

#include "case_cluster.h"

namespace monkeytree::cases {

/// Checks one `expect` line (its words after `expect`); throws CaseError with what was found
/// instead.
void expect(CaseCluster& cluster, Words words);

/// Carries out the plan for the cluster as it stands; throws CaseError where there is none.
void apply_plan(CaseCluster& cluster);

}  // namespace monkeytree::cases
