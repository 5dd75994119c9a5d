#pragma once

#include <CLI/CLI.hpp>

namespace monkeytree {

/// Adds `controller`: the live system's own process.
void add_controller(CLI::App& app, int& exit_code);

}  // namespace monkeytree
