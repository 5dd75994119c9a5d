#pragma once

#include <CLI/CLI.hpp>

namespace monkeytree {

/// `monkeytree view`: the dashboard on a file.
void add_view(CLI::App& app, int& exit_code);

}  // namespace monkeytree
