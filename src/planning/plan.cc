#include "planning/plan.h"

#include "planning/planner.h"

namespace monkeytree {

Plan plan(const Snapshot& snapshot, const PlanOptions& options) {
  return Planner(snapshot).plan(options);
}

}  // namespace monkeytree
