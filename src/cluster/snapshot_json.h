#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/diagnostics.h"
#include "cluster/snapshot.h"

namespace monkeytree {

class JsonValue;

/// Reads `monkeytree/snapshot/v1`. `file` names the text in findings. All faults of the file are
/// reported in one run, each with its JSON path; nullopt exactly when there was an error. An
/// unknown field is a warning, a duplicate key an error. Validates everything docs/formats.md
/// lists, so what comes back may be trusted: ids are in range, no node holds more than its slots,
/// and sums of slots, of rings over workers, and of state over workers fit their types. Racks,
/// nodes and jobs are numbered in file order; node classes and islands by first appearance in the
/// order of nodes and racks. O(bytes).
std::optional<Snapshot> parse_snapshot(std::string_view text, std::string_view file,
                                       Diagnostics& diagnostics);

/// The same for a snapshot that is part of a larger document; paths are the document's.
/// `diagnostics` are those that the document was parsed with.
std::optional<Snapshot> parse_snapshot(const JsonValue& value, Diagnostics& diagnostics);

/// The same snapshot as JSON, a line for each rack, node with attributes, and job, with a final
/// newline; fields that hold their default are left out. parse(write(s)) gives s back where s is
/// numbered as parse_snapshot() numbers. Deterministic.
std::string write_snapshot(const Snapshot& snapshot);

}  // namespace monkeytree
