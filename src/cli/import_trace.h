#pragma once

#include <CLI/CLI.hpp>

namespace monkeytree {

/// Adds `trace`: what a real cluster recorded about its jobs, as a trace for `simulate`.
void add_import_trace(CLI::App& import, int& exit_code);

}  // namespace monkeytree
