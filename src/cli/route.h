#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "cli/common.h"
#include "routing/routes.h"

namespace monkeytree {

/// `monkeytree route`: the uplink of every ring flow.
void add_route(CLI::App& app, int& exit_code);

/// The routes for people, within 80 columns; long lists are cut and say so.
std::string routes_text(const Snapshot& snapshot, const Routes& routes, const Paint& paint);

}  // namespace monkeytree
