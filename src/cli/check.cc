#include "cli/check.h"

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/sha256.h"
#include "cli/common.h"
#include "cluster/snapshot_json.h"
#include "planning/check.h"
#include "planning/plan_json.h"

namespace monkeytree {
namespace {

struct CheckArguments {
  std::string snapshot, plan, after;
  std::optional<int> uplinks;
};

/// The verdict on a plan that holds, with what of it nobody has verified.
std::string verdict(const PlanRecord& plan) {
  switch (plan.status) {
    case PlanStatus::kCompliant:
      return "holds";
    case PlanStatus::kOptimal:
      if (!plan.best_effort) return "holds; that fewer moves are impossible is not checked";
      return "holds; that less excess, or fewer moves for it, is impossible is not checked";
    case PlanStatus::kFeasible:
      return "holds; the lower bound is not checked";
    case PlanStatus::kInfeasible:
      return "holds; that no placement meets every bound is not checked";
    case PlanStatus::kUnknown:
      return "holds; the plan moves nothing and claims nothing";
  }
  return "";
}

/// The cluster once all rounds of a plan that holds have been carried out.
Snapshot after_moves(Snapshot snapshot, const PlanRecord& plan) {
  std::unordered_map<std::string_view, NodeId> nodes;
  std::unordered_map<std::string_view, JobId> jobs;
  for (NodeId id : snapshot.nodes.keys()) nodes.emplace(snapshot.nodes[id].name, id);
  for (JobId id : snapshot.jobs.keys()) jobs.emplace(snapshot.jobs[id].id, id);
  for (const std::vector<PlanRecord::Step>& round : plan.rounds) {
    for (const PlanRecord::Step& step : round) {
      if (step.to == kStagingName) continue;
      const GroupId group(snapshot.jobs[jobs.at(step.job)].first_group.value + step.group);
      snapshot.groups[group].workers[static_cast<size_t>(step.worker)] = nodes.at(step.to);
    }
  }
  return snapshot;
}

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
  if (!violations.empty()) {
    std::string out;
    for (const std::string& violation : violations) out += violation + "\n";
    return print_result(out, kExitRefuted);
  }
  if (!arguments.after.empty()) {
    const Snapshot after = after_moves(input->snapshot, *plan);
    const int written = write_result(arguments.after, write_snapshot(after), kExitDone);
    if (written != kExitDone || arguments.after == "-") return written;
  }
  return print_result(verdict(*plan) + "\n", kExitDone);
}

}  // namespace

void add_check(CLI::App& app, int& exit_code) {
  CLI::App& command = add_command(
      app, "check", "re-verifies a plan with code that shares nothing with the planner",
      "Examples:\n"
      "  monkeytree plan cluster.json --json > plan.json\n"
      "  monkeytree check cluster.json plan.json\n"
      "  monkeytree check cluster.json plan.json --after later.json\n"
      "  monkeytree route later.json         the uplinks after the moves\n"
      "\n"
      "Prints \"holds\" (exit 0) and what it leaves open, or what is wrong, a\n"
      "sentence a line (exit 3). Every move, count, degree and bound is verified; that\n"
      "fewer moves, or any plan, are impossible is not.");
  const auto arguments = std::make_shared<CheckArguments>();
  add_snapshot_argument(command, arguments->snapshot);
  command.add_option("PLAN", arguments->plan, "what plan --json printed; - is standard input")
      ->required()
      ->type_name("");
  command
      .add_option("--after", arguments->after,
                  "where the plan holds, write the cluster after its moves here")
      ->type_name("FILE");
  add_uplinks_option(command, arguments->uplinks);
  command.callback([arguments, &exit_code] { exit_code = run_check(*arguments); });
}

}  // namespace monkeytree
