#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <exception>
#include <memory>
#include <new>
#include <sstream>
#include <string>

#include "cli/agent.h"
#include "cli/analyze.h"
#include "cli/certs.h"
#include "cli/check.h"
#include "cli/common.h"
#include "cli/completion.h"
#include "cli/controller.h"
#include "cli/emulate.h"
#include "cli/help.h"
#include "cli/import.h"
#include "cli/live.h"
#include "cli/notify.h"
#include "cli/notify_fast.h"
#include "cli/paths.h"
#include "cli/plan.h"
#include "cli/report.h"
#include "cli/route.h"
#include "cli/simulate.h"
#include "cli/study.h"
#include "cli/token.h"
#include "cli/view.h"

namespace monkeytree {
namespace {

constexpr const char* kDescription =
    "Finds the racks whose uplinks the jobs of a cluster fight over, the fewest\n"
    "moves of workers that end it, and a private uplink for each flow.";

constexpr const char* kExamples =
    "Examples:\n"
    "  monkeytree import slurm --help          Slurm's files to cluster.json\n"
    "  monkeytree analyze cluster.json         which racks are over their bound\n"
    "  monkeytree plan cluster.json            the fewest moves that mend them\n"
    "  monkeytree plan cluster.json --json     the same for programs\n"
    "  monkeytree route cluster.json           the uplink of every flow\n"
    "  monkeytree paths --help                 the port that picks a flow's uplink\n"
    "  monkeytree view cluster.json             the dashboard on a file; what if\n"
    "  monkeytree simulate scenario.yaml       what congestion costs, simulated\n"
    "  monkeytree report --help                what it has cost you: from Slurm's log\n"
    "  monkeytree study                        many runs as a page with charts\n"
    "  monkeytree controller --config FILE     watches a cluster, mends where it may\n"
    "  monkeytree status                       how a running controller is\n"
    "  monkeytree COMMAND --help               what a command takes, by example\n"
    "\n"
    "Exit codes: 0 done, 1 failed, 2 bad usage or bad input, 3 infeasible or refuted,\n"
    "4 a limit was hit.";

/// Help and version are results; anything else that stops the parse is bad usage.
int end_of_parsing(const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() == 0) {
    std::ostringstream page, nothing;
    app.exit(error, page, nothing);
    return print_result(page.str(), kExitDone);
  }
  const std::string message = usage_error(app, error);
  std::fwrite(message.data(), 1, message.size(), stderr);
  return kExitBadInput;
}

int run(int argc, char** argv) {
  CLI::App app(kDescription, "monkeytree");
  app.footer(kExamples);
  app.set_help_flag("-h,--help", "print this page");
  app.set_version_flag("--version", "monkeytree " MONKEYTREE_VERSION, "print the version");
  app.require_subcommand(1);
  app.formatter(std::make_shared<HelpFormatter>());
  int exit_code = kExitDone;
  add_import(app, exit_code);
  add_analyze(app, exit_code);
  add_plan(app, exit_code);
  add_check(app, exit_code);
  add_route(app, exit_code);
  add_paths(app, exit_code);
  add_view(app, exit_code);
  add_simulate(app, exit_code);
  add_report(app, exit_code);
  add_study(app, exit_code);
  add_controller(app, exit_code);
  add_agent(app, exit_code);
  add_notify(app, exit_code);
  add_live(app, exit_code);
  add_certs(app, exit_code);
  add_token(app, exit_code);
  add_emulate(app, exit_code);
  add_completion(app, exit_code);
  refuse_empty_values(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return end_of_parsing(app, error);
  }
  return exit_code;
}

}  // namespace
}  // namespace monkeytree

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);  // writing then reports a reader that has gone away
  std::signal(SIGXFSZ, SIG_IGN);  // a limit on file sizes is then an error like a full disk
  try {
    if (monkeytree::is_notify(argc, argv)) return monkeytree::notify_fast(argc, argv, 2);
    return monkeytree::run(argc, argv);
  } catch (const std::bad_alloc&) {
    monkeytree::print_error("not enough memory");
  } catch (const std::exception& error) {
    monkeytree::print_error(error.what());
  }
  return monkeytree::kExitFailed;
}
