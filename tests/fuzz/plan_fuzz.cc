#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

#include "cluster/letters.h"
#include "planning/check.h"
#include "planning/plan_json.h"

// Plan files: whatever the bytes, a plan or findings; a plan that was read is written back the
// same, and the checker has an opinion of it, whatever it names.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace monkeytree;
  static const Snapshot snapshot = parse_letters("r1 AAB.\nr2 BC-=\nr3 CC..\n", {1, {}}).value();
  Diagnostics diagnostics;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::optional<PlanRecord> plan = parse_plan(text, "plan", diagnostics);
  if (plan.has_value() == diagnostics.has_errors()) std::abort();
  if (!plan) return 0;
  check_plan(snapshot, *plan);
  check_plan(snapshot, *plan, {"", 2});
  const std::string written = write_plan(*plan);
  std::optional<PlanRecord> again = parse_plan(written, "written", diagnostics);
  if (!again) std::abort();
  if (write_plan(*again) != written) std::abort();
  again->solve_ms = plan->solve_ms;  // rounded
  if (*again != *plan && plan->solve_ms == plan->solve_ms) std::abort();
  return 0;
}
