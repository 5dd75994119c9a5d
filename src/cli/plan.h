#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "cluster/snapshot.h"
#include "planning/plan.h"

namespace monkeytree {

/// Seconds of CPU time at most.
using ReferenceSolver = Plan (*)(const Snapshot&, const PlanOptions&, double time_limit_s);

/// `monkeytree plan`: the fewest moves that bring every rack within its bound, in rounds. Without a
/// `reference` the program beside this one that has it, monkeytree-milp, takes over where it is
/// asked for: CBC brings libraries that start threads in every process that has them.
void add_plan(CLI::App& app, int& exit_code, ReferenceSolver reference = nullptr);

/// The plan for people.
std::string plan_text(const Snapshot& snapshot, const Plan& plan, bool colors);

/// What a person who waits for a plan sees: times in seconds, moves of the best plan so far (none
/// yet: nullopt), and the fewest that any plan has. Shorter than a terminal's line.
std::string progress_line(int elapsed_s, std::optional<double> limit_s, std::optional<int> best,
                          int bound);

/// Exit code that tells how a plan ended.
int exit_code_of(PlanStatus status);

}  // namespace monkeytree
