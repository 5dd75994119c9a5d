#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/diagnostics.h"
#include "cluster/snapshot.h"

namespace monkeytree {

/// Reads `monkeytree/snapshot/v1`. `file` names the text in findings. All faults of the file are
/// reported in one run, each with its JSON path; nullopt exactly when there was an error. An
/// unknown field is a warning, a duplicate key an error. Validates everything docs/formats.md
/// lists, so what comes back may be trusted. O(bytes).
std::optional<Snapshot> parse_snapshot(std::string_view text, std::string_view file,
                                       Diagnostics& diagnostics);

/// The same snapshot as JSON, with a final newline; fields that hold their default are left out.
/// parse(write(s)) gives s back. Deterministic.
std::string write_snapshot(const Snapshot& snapshot);

}  // namespace monkeytree
