#pragma once

#include <string>

#include "simulation/scenario_yaml.h"
#include "study/study.h"

/// What cells measure.
namespace monkeytree {

/// One simulated run of the cell's settings:
///   slowdown_avg, _p50, _p90, _p99, _max; wait_avg_s; gpu_hours, gpu_hours_lost;
///   ended, simulated_h; plans, plans_failed, moves, moves_staged, jobs_moved;
///   move_seconds (per moved worker's job: stopped for moves), plans_of_two (share of plans that
///   move two workers), degree_avg and degree_max, time_over (share of time above the bound).
/// Lists: plan_moves (plans by their number of moves, from 1), degree_over_time and busy_over_time
/// (kTimeSteps equal parts of the simulated time, the highest degree and the mean share of nodes
/// at work in each).
Measure simulated_run(FileReader read);
inline constexpr int kTimeSteps = 240;

/// Contents of the files that settings name, as far as they matter: their hashes.
std::string files_definition(const Settings& settings, const FileReader& read);

}  // namespace monkeytree
