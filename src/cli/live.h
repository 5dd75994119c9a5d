#pragma once

#include <CLI/CLI.hpp>

namespace monkeytree {

/// Adds `status`, `explain`, `history`, `approve`, `cancel`, `pause` and `resume`, which talk to a
/// running controller.
void add_live(CLI::App& app, int& exit_code);

}  // namespace monkeytree
