#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/diagnostics.h"
#include "cluster/snapshot.h"
#include "planning/plan.h"

namespace monkeytree {

/// A plan as its file says it, `monkeytree/plan/v1` (docs/formats.md): by names, so that a file
/// that names things its snapshot lacks can be read, and be refuted.
struct PlanRecord {
  using ByRack = std::vector<std::pair<std::string, int>>;  ///< in file order
  struct Step {
    std::string job;
    int group = 0;         ///< within the job
    int worker = 0;        ///< within the group
    std::string from, to;  ///< node, or "@staging"
    friend bool operator==(const Step&, const Step&) = default;
  };

  std::string snapshot_sha256;
  ByRack bounds;
  PlanStatus status = PlanStatus::kUnknown;
  bool best_effort = false;
  int moves = 0;
  std::optional<int> lower_bound;
  int excess_before = 0;
  int excess_after = 0;
  std::optional<int> excess_lower_bound;
  double solve_ms = 0;
  ByRack before, after;
  std::vector<std::string> conflict;
  std::vector<std::vector<Step>> rounds;
  friend bool operator==(const PlanRecord&, const PlanRecord&) = default;
};

inline constexpr std::string_view kStagingName = "@staging";

/// The plan with names in place of ids. `snapshot_sha256` is of the bytes of the snapshot's file.
PlanRecord record_of(const Snapshot& snapshot, const Plan& plan, std::string_view snapshot_sha256);

/// JSON with a final newline: one line a field, one line a move. Deterministic. `best_effort`,
/// `excess_lower_bound` and `conflict` appear only where they say something.
std::string write_plan(const PlanRecord& plan);

/// Reads what write_plan() writes. `file` names the text in findings. All faults are reported in
/// one run, each with its JSON path; an unknown field is a warning, a duplicate key an error.
/// nullopt exactly when there was an error. Whether the plan makes sense is check_plan()'s
/// business.
std::optional<PlanRecord> parse_plan(std::string_view text, std::string_view file,
                                     Diagnostics& diagnostics);

}  // namespace monkeytree
