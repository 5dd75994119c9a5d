#pragma once

#include <CLI/CLI.hpp>

namespace monkeytree {

/// Adds `notify`, for its help page; what it does is in notify_fast.h.
void add_notify(CLI::App& app, int& exit_code);

}  // namespace monkeytree
