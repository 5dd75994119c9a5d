#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "cluster/snapshot.h"
#include "planning/plan.h"

namespace monkeytree {

/// `monkeytree plan`: the fewest moves that bring every rack under its bound, in rounds.
void add_plan(CLI::App& app, int& exit_code);

/// The plan for people.
std::string plan_text(const Snapshot& snapshot, const Plan& plan, bool colors);

/// Exit code that tells how a plan ended.
int exit_code_of(PlanStatus status);

}  // namespace monkeytree
