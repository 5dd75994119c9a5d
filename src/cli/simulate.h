#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "simulation/output.h"

namespace monkeytree {

/// `monkeytree simulate`: one simulated run of a cluster.
void add_simulate(CLI::App& app, int& exit_code);

/// The run for people, within 80 columns.
std::string simulation_text(const Summary& summary, bool colors);

/// What a person who waits sees: the time so far, the share of jobs that have ended and, from
/// these, the time left.
std::string simulation_progress(int elapsed_s, double done);

}  // namespace monkeytree
