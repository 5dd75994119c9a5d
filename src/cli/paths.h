#pragma once

#include <CLI/CLI.hpp>

namespace monkeytree {

/// `monkeytree paths DESTINATION:PORT`: the source port that sends a flow up each uplink, by
/// probes, the router's own answer or a hash model. Exit 4 where some uplink's port was not found.
void add_paths(CLI::App& app, int& exit_code);

}  // namespace monkeytree
