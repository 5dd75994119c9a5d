#include "cli/route.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "routing/routes_json.h"

namespace monkeytree {
namespace {

constexpr size_t kMaxFlowsListed = 40;
constexpr size_t kMaxSharedListed = 20;

constexpr const char* kExamples =
    "Examples:\n"
    "  monkeytree route cluster.json                  the uplink of every ring flow\n"
    "  monkeytree route cluster.json --json > routes.json\n"
    "  monkeytree route later.json --previous routes.json\n"
    "                                                changes as few of them as it can\n"
    "\n"
    "A flow is one ring's hop from a rack to another. It goes up to a spine and down\n"
    "from there; two flows on one uplink or downlink share its speed. Where every\n"
    "rack is within its bound and all reach the same spines, no two share any.";

struct RouteOptions {
  std::string snapshot, previous;
  std::optional<int> uplinks;
  bool json = false;
};

std::string group_name(const Snapshot& snapshot, GroupId group) {
  const JobId job = snapshot.groups[group].job;
  if (snapshot.jobs[job].group_count == 1) return snapshot.jobs[job].id;
  return fmt::format("{}/{}", snapshot.jobs[job].id, snapshot.group_index(group));
}

std::string place_name(const Snapshot& snapshot, const Flow& flow, bool from) {
  const Group& group = snapshot.groups[flow.group];
  const int worker = from ? flow.from_worker : flow.to_worker;
  return fmt::format("{}:{}", snapshot.racks[from ? flow.from_rack : flow.to_rack].name,
                     snapshot.nodes[group.workers[static_cast<size_t>(worker)]].name);
}

std::string summary(const Snapshot& snapshot, const Routes& routes, const Paint& paint) {
  std::string out;
  if (!snapshot.name.empty()) out += paint.bold(fit(snapshot.name, kColumns)) + "\n";
  if (routes.flows.empty()) return out + "no flow leaves a rack\n";
  out += fmt::format("{}, {}\n", counted(static_cast<long long>(routes.flows.size()), "flow"),
                     counted(routes.colors, "colour"));
  if (routes.isolated) {
    out += paint.good("isolated: every flow has an uplink and a downlink of its own") + "\n";
  }
  if (!routes.shared.empty()) {
    out += paint.bad(fmt::format("not isolated: more than one flow on {}",
                                 counted(static_cast<long long>(routes.shared.size()), "link"))) +
           "\n";
  }
  if (!routes.unroutable.empty()) {
    out +=
        paint.bad(fmt::format("not routed: {} between racks that have no spine in common",
                              counted(static_cast<long long>(routes.unroutable.size()), "flow"))) +
        "\n";
  }
  if (routes.best_effort) {
    out += "racks reach different spines: list colouring, best effort";
    out += routes.shared.empty() ? "\n"
           : routes.proved       ? "\n(proved: no choice shares less)\n"
                                 : "\n(not proved: a better choice may exist)\n";
  }
  if (routes.kept + routes.recolored > 0) {
    out += fmt::format("{} of the previous flows kept their uplink, {} changed it\n", routes.kept,
                       routes.recolored);
  }
  return out;
}

std::string shared_links(const Snapshot& snapshot, const Routes& routes, const Paint& paint) {
  if (routes.shared.empty()) return "";
  Table table({"shared", "link", "flows", "of"});
  const size_t rows = std::min(routes.shared.size(), kMaxSharedListed);
  for (size_t i = 0; i < rows; ++i) {
    const Shared& shared = routes.shared[i];
    std::vector<std::string> owners;
    for (int flow : shared.flows) {
      const Flow& f = routes.flows[static_cast<size_t>(flow)].flow;
      owners.push_back(fmt::format("{}#{}", group_name(snapshot, f.group), f.ring));
      if (owners.size() == 12) break;
    }
    table.add({snapshot.racks[shared.rack].name,
               fmt::format("{} {}", shared.up ? "up" : "down", shared.uplink),
               fmt::format("{}", shared.flows.size()), fmt::format("{}", fmt::join(owners, " "))});
  }
  std::string out = "\n" + table.text(paint);
  if (rows < routes.shared.size()) {
    out += fmt::format("... and {} more (--json gives all)\n", routes.shared.size() - rows);
  }
  return out;
}

std::string flows_table(const Snapshot& snapshot, const Routes& routes, const Paint& paint) {
  if (routes.flows.empty()) return "";
  Table table({"job", "ring", "from", "to", "uplink"});
  const size_t rows = std::min(routes.flows.size(), kMaxFlowsListed);
  for (size_t i = 0; i < rows; ++i) {
    const auto& [flow, uplink] = routes.flows[i];
    table.add({group_name(snapshot, flow.group), fmt::format("{}", flow.ring),
               place_name(snapshot, flow, true), place_name(snapshot, flow, false),
               uplink < 0 ? "none" : fmt::format("{}", uplink)});
  }
  std::string out = "\n" + table.text(paint);
  if (rows < routes.flows.size()) {
    out += fmt::format("... and {} more (--json gives all)\n", routes.flows.size() - rows);
  }
  return out;
}

/// nullopt after a message; otherwise the flows of `--previous`, none without it.
std::optional<std::vector<PreviousRoute>> read_previous(const std::string& file) {
  if (file.empty()) return std::vector<PreviousRoute>();
  const std::optional<std::string> text = read_input(file);
  if (!text) return std::nullopt;
  Diagnostics diagnostics;
  std::optional<std::vector<PreviousRoute>> previous = parse_routes(*text, file, diagnostics);
  print_findings(diagnostics);
  return previous;
}

int run_route(const RouteOptions& options) {
  if (options.snapshot == "-" && options.previous == "-") {
    print_error("SNAPSHOT and --previous cannot both be standard input");
    return kExitBadInput;
  }
  const std::optional<SnapshotInput> input = read_snapshot(options.snapshot, options.uplinks);
  const std::optional<std::vector<PreviousRoute>> previous = read_previous(options.previous);
  if (!input || !previous) return kExitBadInput;
  const absl::Status routable = check_routable(input->snapshot);
  if (!routable.ok()) {
    print_error(fmt::format("{}: {}", options.snapshot, std::string(routable.message())));
    return kExitBadInput;
  }
  const Routes result = routes(input->snapshot, options.previous.empty() ? nullptr : &*previous);
  if (options.json) return print_result(write_routes(input->snapshot, result), kExitDone);
  return print_result(routes_text(input->snapshot, result, Paint(colors_wanted())), kExitDone);
}

}  // namespace

std::string routes_text(const Snapshot& snapshot, const Routes& routes, const Paint& paint) {
  return summary(snapshot, routes, paint) + shared_links(snapshot, routes, paint) +
         flows_table(snapshot, routes, paint);
}

void add_route(CLI::App& app, int& exit_code) {
  const auto options = std::make_shared<RouteOptions>();
  CLI::App& command = add_command(app, "route", "the uplink of every ring flow", kExamples);
  add_snapshot_argument(command, options->snapshot);
  command.add_flag("--json", options->json, "print monkeytree/routes/v1");
  command
      .add_option("--previous", options->previous,
                  "routes as they are now (- is standard input); as few as possible change")
      ->type_name("ROUTES");
  add_uplinks_option(command, options->uplinks);
  command.callback([options, &exit_code] { exit_code = run_route(*options); });
}

}  // namespace monkeytree
