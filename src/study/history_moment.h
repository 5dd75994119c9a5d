#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "cluster/snapshot.h"
#include "report/page.h"

namespace monkeytree {

/// Adds to a page the racks at a moment, and after the moves of the plan that mends them, with
/// these moves. `time` names the moment, `cost` says what was lost. Of a large cluster the racks
/// furthest above their bound are drawn, and some of those that the plan moves workers to.
void add_moment(Page& page, Snapshot snapshot, const std::string& time, const std::string& cost,
                int64_t work_limit);

/// "1 234 moves", "1 move".
std::string count_of(int64_t count, std::string_view noun);

}  // namespace monkeytree
