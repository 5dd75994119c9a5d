#pragma once

#include <CLI/CLI.hpp>

namespace monkeytree {

/// Adds `agent`: what runs on each node.
void add_agent(CLI::App& app, int& exit_code);

}  // namespace monkeytree
