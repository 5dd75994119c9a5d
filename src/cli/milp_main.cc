// `monkeytree plan --solver milp`, which monkeytree itself turns into when it is asked for that.

#include <CLI/CLI.hpp>
#include <csignal>
#include <exception>

#include "cli/common.h"
#include "cli/plan.h"
#include "planning/milp.h"

namespace monkeytree {
namespace {

int run(int argc, char** argv) {
  CLI::App app("The reference solver of monkeytree plan.", "monkeytree");
  app.require_subcommand(1);
  int exit_code = kExitDone;
  add_plan(app, exit_code, plan_milp);
  CLI11_PARSE(app, argc, argv);
  return exit_code;
}

}  // namespace
}  // namespace monkeytree

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  try {
    return monkeytree::run(argc, argv);
  } catch (const std::exception& error) {
    monkeytree::print_error(error.what());
  }
  return monkeytree::kExitFailed;
}
