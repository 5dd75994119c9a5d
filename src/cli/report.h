#pragma once

#include <CLI/CLI.hpp>

namespace monkeytree {

/// Adds `monkeytree report`: a page on what a cluster's own history lost to shared uplinks.
void add_report(CLI::App& app, int& exit_code);

}  // namespace monkeytree
