#include "planning/plan.h"

#include "planning/make_plan.h"

namespace monkeytree {

Plan plan(const Snapshot& snapshot, const PlanOptions& options) {
  Counts counts(snapshot);
  Occupancy occupancy(snapshot);
  return make_plan({snapshot, counts, occupancy}, options);
}

}  // namespace monkeytree
