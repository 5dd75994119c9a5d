#pragma once

#include <CLI/CLI.hpp>

namespace monkeytree {

/// Registers `monkeytree import slurm` and `monkeytree import csv`.
void add_import(CLI::App& app, int& exit_code);

}  // namespace monkeytree
