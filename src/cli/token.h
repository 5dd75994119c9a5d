#pragma once

#include <CLI/CLI.hpp>

namespace monkeytree {

/// `monkeytree token add|list|revoke`: who may do what by a controller's API.
void add_token(CLI::App& app, int& exit_code);

}  // namespace monkeytree
