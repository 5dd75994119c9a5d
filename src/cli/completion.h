#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace monkeytree {

/// `monkeytree completion bash|zsh|fish` and `monkeytree man`: both tell what the program's own
/// commands and options are, so that they cannot fall behind them. Add it after all others.
void add_completion(CLI::App& app, int& exit_code);

/// The manual page (roff, section 1) of the program.
std::string man_page(const CLI::App& app);

}  // namespace monkeytree
