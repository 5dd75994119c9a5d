#pragma once

#include <CLI/CLI.hpp>

namespace monkeytree {

/// `monkeytree check SNAPSHOT PLAN`: re-verifies a plan. Prints "holds" (exit 0) or what is wrong
/// with it, a sentence a line (exit 3).
void add_check(CLI::App& app, int& exit_code);

}  // namespace monkeytree
