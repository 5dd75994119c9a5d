/// What the planner and the router answer about small clusters, one a line, for the tests of the
/// teaching panel's own solver (web/test).
///
/// panel_plans < PANELS    a panel is a line `UPLINKS RACK/RACK/…`, a rack a row of letters and
/// dots:
///                         `2 AAAABB../AAACC...`. Prints `STATUS MOVES DEGREES MOST FILL`: the
///                         fewest moves, degrees parted by commas, the most flows on one uplink,
///                         and the moves and degrees of Theorem 1's fill, largest job first, ties
///                         by letter.
/// panel_plans FILE.case…  prints each question for a plan as `FILE:LINE STATUS MOVES PROBLEM`, the
///                         problem as JSON: counts[group][rack], capacity, bound, rings; or null
///                         where counts do not say all (node classes, workers that must not move or
///                         not come back).

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "case_cluster.h"
#include "case_expect.h"
#include "cluster/fragmentation.h"
#include "cluster/letters.h"
#include "planning/fill.h"
#include "planning/plan.h"
#include "routing/routes.h"

namespace monkeytree {
namespace {

std::vector<int> numbers_of(const IdVector<RackId, int>& by_rack) {
  return {by_rack.begin(), by_rack.end()};
}

/// The most flows that leave a rack on one uplink.
int most_on_one_uplink(const Snapshot& snapshot) {
  std::map<std::pair<RackId, int>, int> flows;
  int most = 0;
  for (const RoutedFlow& routed : routes(snapshot).flows) {
    most = std::max(most, ++flows[{routed.flow.from_rack, routed.uplink}]);
  }
  return most;
}

std::vector<GroupId> largest_first_then_letter(const Snapshot& snapshot) {
  std::vector<GroupId> order = largest_first(snapshot);
  const auto key = [&](GroupId id) {
    const Group& group = snapshot.groups[id];
    return std::pair(-static_cast<int>(group.workers.size()), snapshot.jobs[group.job].id);
  };
  std::sort(order.begin(), order.end(), [&](GroupId a, GroupId b) { return key(a) < key(b); });
  return order;
}

bool answer_panel(const std::string& line) {
  std::istringstream in(line);
  LetterOptions options;
  std::string racks;
  if (!(in >> options.uplinks >> racks)) return false;
  std::string rows;
  std::istringstream parts(racks);
  int rack = 0;
  for (std::string part; std::getline(parts, part, '/');) {
    rows += fmt::format("R{} {}\n", ++rack, part);
  }
  const absl::StatusOr<Snapshot> snapshot = parse_letters(rows, options);
  if (!snapshot.ok()) return false;
  const Plan answer = plan(*snapshot);
  const std::optional<Fill> filled = fill(*snapshot, largest_first_then_letter(*snapshot));
  fmt::print("{} {} {} {} {} {}\n", name_of(answer.status), answer.moves,
             fmt::join(numbers_of(fragmentation(*snapshot)), ","), most_on_one_uplink(*snapshot),
             filled ? filled->moves : -1,
             filled ? fmt::format("{}", fmt::join(numbers_of(filled->degrees), ",")) : "-");
  return true;
}

int answer_panels() {
  int number = 0;
  for (std::string line; std::getline(std::cin, line);) {
    ++number;
    if (answer_panel(line)) continue;
    fmt::print(stderr, "line {}: '{}' is not UPLINKS RACK/RACK/…\n", number, line);
    return 1;
  }
  return 0;
}

/// Whether counts per rack say all there is to know of this cluster.
bool is_plain(const Snapshot& snapshot) {
  if (snapshot.classes.size() > 1 || snapshot.islands.size() > 1) return false;
  for (const Node& node : snapshot.nodes) {
    if (node.slots != 1) return false;
  }
  for (GroupId id : snapshot.groups.keys()) {
    const Group& group = snapshot.groups[id];
    for (size_t w = 0; w < group.workers.size(); ++w) {
      if (snapshot.immovable(id, static_cast<int>(w)) ||
          snapshot.nodes[group.workers[w]].state != NodeState::kUp) {
        return false;
      }
    }
  }
  return true;
}

std::string problem_of(const Snapshot& snapshot) {
  if (!is_plain(snapshot)) return "null";
  std::vector<int> capacity, bound, rings;
  for (const Rack& rack : snapshot.racks) {
    bound.push_back(rack.bound());
    capacity.push_back(
        static_cast<int>(std::count_if(rack.nodes.begin(), rack.nodes.end(), [&](NodeId node) {
          return snapshot.nodes[node].state == NodeState::kUp;
        })));
  }
  std::vector<std::string> counts;
  for (GroupId id : snapshot.groups.keys()) {
    const Group& group = snapshot.groups[id];
    rings.push_back(group.rings);
    IdVector<RackId, int> row(snapshot.racks.size(), 0);
    for (NodeId node : group.workers) ++row[snapshot.nodes[node].rack];
    counts.push_back(fmt::format("[{}]", fmt::join(row, ",")));
  }
  return fmt::format(R"({{"counts":[{}],"capacity":[{}],"bound":[{}],"rings":[{}]}})",
                     fmt::join(counts, ","), fmt::join(capacity, ","), fmt::join(bound, ","),
                     fmt::join(rings, ","));
}

void answer_question(cases::CaseCluster& cluster, const std::string& place) {
  PlanOptions options;
  options.mend = cluster.mend();
  const Plan answer = plan(cluster.snapshot(), options);
  fmt::print("{} {} {} {}\n", place, name_of(answer.status), answer.moves,
             cluster.mend() ? "null" : problem_of(cluster.snapshot()));
}

void answer_line(cases::CaseCluster& cluster, const std::vector<std::string>& words,
                 const std::string& place, bool& in_rows) {
  if (words[0] == "expect") {
    in_rows = false;
    if (words.size() > 1 && words[1] == "plan") answer_question(cluster, place);
  } else if (words[0] == "apply") {
    in_rows = false;
    cases::apply_plan(cluster);
  } else if (cluster.change(words)) {
    in_rows = false;
  } else if (in_rows) {
    cluster.add_row(words);
  }
}

/// Reads a case as case_test does; that one says what is wrong with a line.
void answer_case(const std::filesystem::path& path) {
  std::ifstream in(path);
  cases::CaseCluster cluster(path.parent_path().string());
  bool in_rows = true;
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    line.resize(std::min(line.size(), line.find('#')));
    std::istringstream parts(line);
    std::vector<std::string> words;
    for (std::string word; parts >> word;) words.push_back(word);
    if (words.empty()) {
      if (cluster.has_rows()) in_rows = false;
      continue;
    }
    answer_line(cluster, words, fmt::format("{}:{}", path.filename().string(), number), in_rows);
  }
}

}  // namespace
}  // namespace monkeytree

int main(int argc, char** argv) {
  if (argc == 1) return monkeytree::answer_panels();
  for (int i = 1; i < argc; ++i) monkeytree::answer_case(argv[i]);
  return 0;
}
