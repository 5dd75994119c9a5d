#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "study/study.h"

/// The studies that come with the program.
namespace monkeytree {

/// In the order in which they are listed.
const std::vector<Study>& built_in_studies();
/// Null where there is none of this name.
const Study* find_study(std::string_view name);

// By the file that declares them.
std::vector<Study>
slowdown_studies();  ///< slowdown-vs-load, oversubscription, front-end-schedulers, expert-parallel
std::vector<Study>
migration_studies();  ///< fragmentation-over-time, moves-per-event, threshold, migration-cost
std::vector<Study> placement_studies();  ///< abundance, planner-time
std::vector<Study> traffic_studies();    ///< traffic

}  // namespace monkeytree
