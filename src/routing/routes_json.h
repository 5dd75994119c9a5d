#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostics.h"
#include "routing/routes.h"

namespace monkeytree {

/// The routes as `monkeytree/routes/v1`, with a final newline: a flow, a shared link and an order a
/// line each. Deterministic.
std::string write_routes(const Snapshot& snapshot, const Routes& routes);

/// Reads the flows of `monkeytree/routes/v1`, for recolouring. `file` names the text in findings.
/// All faults are reported in one run, each with its JSON path; nullopt exactly when there was an
/// error. An unknown field is a warning, a duplicate key or a flow that stands twice an error.
/// Jobs, nodes and racks need not be those of any snapshot. O(bytes · log flows).
std::optional<std::vector<PreviousRoute>> parse_routes(std::string_view text, std::string_view file,
                                                       Diagnostics& diagnostics);

}  // namespace monkeytree
