#include "cli/check.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/sha256.h"
#include "cli/common.h"
#include "planning/check.h"
#include "planning/plan_json.h"

namespace monkeytree {
namespace {

struct CheckArguments {
  std::string snapshot, plan;
  std::optional<int> uplinks;
};

int run_check(const CheckArguments& arguments) {
  if (arguments.snapshot == "-" && arguments.plan == "-") {
    print_error("only one of SNAPSHOT and PLAN can be standard input");
    return kExitBadInput;
  }
  const std::optional<SnapshotInput> input = read_snapshot(arguments.snapshot, std::nullopt);
  if (!input) return kExitBadInput;
  const std::optional<std::string> text = read_input(arguments.plan);
  if (!text) return kExitBadInput;
  Diagnostics diagnostics;
  const std::optional<PlanRecord> plan = parse_plan(*text, arguments.plan, diagnostics);
  print_findings(diagnostics);
  if (!plan) return kExitBadInput;

  CheckOptions options;
  options.snapshot_sha256 = sha256(input->text);
  options.uplinks = arguments.uplinks;
  const std::vector<std::string> violations = check_plan(input->snapshot, *plan, options);
  if (violations.empty()) return print_result("holds\n", kExitDone);
  std::string out;
  for (const std::string& violation : violations) out += violation + "\n";
  return print_result(out, kExitRefuted);
}

}  // namespace

void add_check(CLI::App& app, int& exit_code) {
  CLI::App& command =
      add_command(app, "check", "re-verifies a plan with code that shares nothing with the planner",
                  "Examples:\n"
                  "  monkeytree plan cluster.json --json > plan.json\n"
                  "  monkeytree check cluster.json plan.json\n"
                  "\n"
                  "Prints \"holds\" (exit 0), or what is wrong, a sentence a line (exit 3).\n"
                  "Everything is verified but that no shorter plan exists.");
  const auto arguments = std::make_shared<CheckArguments>();
  add_snapshot_argument(command, arguments->snapshot);
  command
      .add_option("PLAN", arguments->plan, "plan file (monkeytree/plan/v1), - for standard input")
      ->required();
  add_uplinks_option(command, arguments->uplinks);
  command.callback([arguments, &exit_code] { exit_code = run_check(*arguments); });
}

}  // namespace monkeytree
