#pragma once

#include <CLI/CLI.hpp>

namespace monkeytree {

/// `monkeytree study`: grids of simulated runs, as a page and tables.
void add_study(CLI::App& app, int& exit_code);

}  // namespace monkeytree
