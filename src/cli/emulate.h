#pragma once

#include <CLI/CLI.hpp>

namespace monkeytree {

/// `monkeytree emulate --socket PATH`: a cluster in memory for `monkeytree controller`, until it is
/// interrupted.
void add_emulate(CLI::App& app, int& exit_code);

}  // namespace monkeytree
