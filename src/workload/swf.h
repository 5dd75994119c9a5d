#pragma once

#include <optional>
#include <string_view>

#include "base/diagnostics.h"
#include "workload/history.h"

namespace monkeytree {

/// The Standard Workload Format of the Parallel Workloads Archive: lines of 18 numbers, -1 where
/// unknown, and comments behind `;`. A processor counts as a GPU; where the allocated ones are
/// unknown, the requested ones. Left out besides what trace_of() leaves out: lines that are not 18
/// numbers, jobs of unknown times, and partial runs (status 2 to 4), whose job has a line of its
/// own. An error only where no line is a job's.
std::optional<ImportedTrace> import_swf(std::string_view text, std::string_view file,
                                        const ImportOptions& options, Diagnostics& diagnostics);

}  // namespace monkeytree
