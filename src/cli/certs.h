#pragma once

#include <CLI/CLI.hpp>

namespace monkeytree {

/// Adds `certs`: makes, shows and renews the certificates by which controller and agents know each
/// other.
void add_certs(CLI::App& app, int& exit_code);

}  // namespace monkeytree
