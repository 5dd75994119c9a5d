#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "cluster/analysis.h"

namespace monkeytree {

/// `monkeytree analyze`: which racks are over their bound, and whose jobs make it so.
void add_analyze(CLI::App& app, int& exit_code);

/// The analysis as `monkeytree/analysis/v1`, with a final newline.
std::string write_analysis(const Snapshot& snapshot, const Analysis& analysis);

}  // namespace monkeytree
