#include "cli/analyze.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "cli/common.h"
#include "cluster/picture.h"

namespace monkeytree {
namespace {

constexpr size_t kMaxRacksDrawn = 40;
constexpr size_t kMaxJobsListed = 30;
constexpr size_t kMaxDegreeRows = 20;
constexpr size_t kMaxRackName = 16;
constexpr size_t kMinCells = 16;

constexpr const char* kExamples =
    "Examples:\n"
    "  monkeytree analyze cluster.json               a picture of the racks\n"
    "  monkeytree analyze cluster.json --uplinks 4   as if each rack had 4 uplinks\n"
    "  monkeytree import slurm ... | monkeytree analyze -\n"
    "  monkeytree analyze cluster.json --json        monkeytree/analysis/v1\n"
    "\n"
    "A rack is a row and a letter is a job; 3/2 is a degree of 3 over a bound of 2:\n"
    "three rings leave the rack and two uplinks carry them.";

/// Writes the analysis for people.
class AnalysisText {
 public:
  AnalysisText(const Snapshot& snapshot, const Analysis& analysis, const Paint& paint)
      : snapshot_(snapshot), analysis_(analysis), paint_(paint), picture_(snapshot) {}

  std::string text() {
    choose_racks();
    letters_ = letters_of(snapshot_, analysis_, drawn_);
    return summary() + racks() + (all_drawn_ ? "" : histogram()) + jobs();
  }

 private:
  int over_by(RackId rack) const { return analysis_.degrees[rack] - analysis_.bounds[rack]; }

  std::string summary() const {
    std::string out;
    if (!snapshot_.name.empty()) out += paint_.bold(fit(snapshot_.name, kColumns)) + "\n";
    out +=
        fmt::format("{}, {}, {}\n", counted(ssize(snapshot_.racks), "rack"),
                    counted(ssize(snapshot_.nodes), "node"), counted(ssize(snapshot_.jobs), "job"));
    out += states();
    if (analysis_.over.empty()) {
      out += paint_.good("no rack is over its bound") + "\n";
    } else {
      out += paint_.bad(fmt::format("{} of {} over the bound, {} short in all",
                                    analysis_.over.size(), counted(ssize(snapshot_.racks), "rack"),
                                    counted(analysis_.excess, "uplink"))) +
             "\n";
    }
    out += fmt::format("{} of {} fragmented, holding {} of {} {}\n", analysis_.fragmented.size(),
                       counted(ssize(snapshot_.jobs), "job"), analysis_.gpus_fragmented,
                       analysis_.gpus, analysis_.gpus_known ? "GPUs" : "slots in use");
    return out;
  }

  template <class Container>
  static long long ssize(const Container& container) {
    return static_cast<long long>(container.size());
  }

  std::string states() const {
    std::array<int, 4> counts = {};
    for (const Node& node : snapshot_.nodes) ++counts[static_cast<size_t>(node.state)];
    std::string out;
    for (NodeState state : {NodeState::kDrain, NodeState::kDown, NodeState::kReserved}) {
      const int count = counts[static_cast<size_t>(state)];
      if (count == 0) continue;
      out += fmt::format("{}{} in state {}", out.empty() ? "" : ", ", counted(count, "node"),
                         name_of(state));
    }
    return out.empty() ? out : out + "\n";
  }

  /// All racks of a small cluster; of a big one those over their bound, the worst first.
  void choose_racks() {
    all_drawn_ = snapshot_.racks.size() <= kMaxRacksDrawn;
    if (all_drawn_) {
      for (RackId rack : snapshot_.racks.keys()) drawn_.push_back(rack);
      return;
    }
    drawn_ = analysis_.over;
    std::stable_sort(drawn_.begin(), drawn_.end(),
                     [&](RackId a, RackId b) { return over_by(a) > over_by(b); });
    if (drawn_.size() > kMaxRacksDrawn) drawn_.resize(kMaxRacksDrawn);
  }

  std::string racks() const {
    if (drawn_.empty()) return "";
    size_t name_width = 4, degree_width = 0, widest = 0, most_nodes = 0;
    for (RackId rack : drawn_) {
      name_width = std::max(name_width, fit(snapshot_.racks[rack].name, kMaxRackName).size());
      degree_width = std::max(degree_width, degree(rack).size());
      widest = std::max(widest, picture_.cell_count(rack, CellOf::kSlot));
      most_nodes = std::max(most_nodes, picture_.cell_count(rack, CellOf::kNode));
    }
    const size_t notes_width = 24;
    const size_t used = name_width + 2 + 2 + degree_width + notes_width;
    const size_t room = used + kMinCells > kColumns ? kMinCells : kColumns - used;
    const CellOf what = widest <= room ? CellOf::kSlot : CellOf::kNode;
    const size_t columns =
        std::min(room, std::max<size_t>(what == CellOf::kSlot ? widest : most_nodes, 4));
    std::string out = "\n" +
                      paint_.bold(fmt::format("{:<{}}  {:<{}}  degree/bound", "rack", name_width,
                                              what == CellOf::kSlot ? "slots" : "nodes", columns)) +
                      "\n";
    for (RackId rack : drawn_) out += row(rack, what, name_width, columns, degree_width);
    if (!all_drawn_ && analysis_.over.size() > drawn_.size()) {
      out += fmt::format("and {} more over their bound\n",
                         counted(ssize(analysis_.over) - ssize(drawn_), "rack"));
    }
    return out + legend(what);
  }

  std::string degree(RackId rack) const {
    return fmt::format("{}/{}", analysis_.degrees[rack], analysis_.bounds[rack]);
  }

  std::string row(RackId rack, CellOf what, size_t name_width, size_t columns,
                  size_t degree_width) const {
    const std::vector<Cell> cells = picture_.cells(rack, what);
    const std::string name = fit(snapshot_.racks[rack].name, kMaxRackName);
    std::string out =
        name + std::string(name_width - std::min(name_width, name.size()), ' ') + "  ";
    const bool over = over_by(rack) > 0;
    std::string tail = fmt::format("{:>{}}", degree(rack), degree_width);
    if (over) tail = paint_.bad(fmt::format("{}  over by {}", tail, over_by(rack)));
    tail += occupied_states(cells, over);
    for (size_t i = 0; i < std::max<size_t>(cells.size(), 1); i += columns) {
      if (i > 0) out += std::string(name_width + 2, ' ');
      const size_t end = std::min(cells.size(), i + columns);
      for (size_t j = i; j < end; ++j) out += cell_text(cells[j]);
      if (i == 0) out += std::string(columns - (end - i), ' ') + "  " + tail;
      out += "\n";
    }
    return out;
  }

  /// Nodes that hold workers and are not up: their letters do not show it.
  std::string occupied_states(const std::vector<Cell>& cells, bool over) const {
    NodeId last;
    int count = 0;
    for (const Cell& cell : cells) {
      if (cell.node == last || !cell.job.valid()) continue;
      last = cell.node;
      count += snapshot_.nodes[cell.node].state != NodeState::kUp;
    }
    if (count == 0) return "";
    return fmt::format("{}{} not up", over ? ", " : "  ", count);
  }

  std::string cell_text(const Cell& cell) const {
    if (!cell.job.valid()) {
      return paint_.faint(std::string(1, free_cell(snapshot_.nodes[cell.node].state)));
    }
    if (cell.mixed) return "*";
    return paint_.hue(static_cast<size_t>(cell.job.value), std::string(1, letters_[cell.job]));
  }

  std::string legend(CellOf what) const {
    std::string marks = ". free";
    const auto add = [&](NodeState state, std::string_view text) {
      for (const Node& node : snapshot_.nodes) {
        if (node.state != state) continue;
        marks += text;
        return;
      }
    };
    add(NodeState::kDrain, "  - drained");
    add(NodeState::kDown, "  ! down");
    add(NodeState::kReserved, "  = reserved");
    if (what == CellOf::kNode) marks += "  * shared or part free";
    bool unlettered = false;
    for (RackId rack : drawn_) {
      for (const Cell& cell : picture_.cells(rack, what)) {
        unlettered |= cell.job.valid() && letters_[cell.job] == kNoLetter;
      }
    }
    if (unlettered) marks += "  + another job";
    return paint_.faint(marks) + "\n";
  }

  std::string histogram() const {
    std::map<int, int> counts;
    for (int degree : analysis_.degrees) ++counts[degree];
    const int highest = counts.rbegin()->first;
    const int step = highest / static_cast<int>(kMaxDegreeRows) + 1;
    std::map<int, int> buckets;
    for (const auto& [degree, racks] : counts) buckets[degree / step * step] += racks;
    int most = 0;
    for (const auto& [degree, racks] : buckets) most = std::max(most, racks);
    std::string out = "\n" + paint_.bold("degree   racks") + "\n";
    for (const auto& [degree, racks] : buckets) {
      const std::string label =
          step == 1 ? std::to_string(degree) : fmt::format("{}-{}", degree, degree + step - 1);
      const auto bar = static_cast<size_t>((int64_t{racks} * 50 + most - 1) / most);
      out += fmt::format("{:>6}  {:>6}  {}\n", label, racks, std::string(bar, '#'));
    }
    return out;
  }

  std::string jobs() const {
    if (analysis_.fragmented.empty()) return "";
    std::vector<FragmentedJob> jobs = analysis_.fragmented;
    std::stable_sort(jobs.begin(), jobs.end(), [](const FragmentedJob& a, const FragmentedJob& b) {
      if (a.over.size() != b.over.size()) return a.over.size() > b.over.size();
      return a.workers > b.workers;
    });
    Table table({"", "job", "name", "racks", "over", "rings", "workers",
                 analysis_.gpus_known ? "GPUs" : "slots"});
    for (size_t i = 0; i < std::min(jobs.size(), kMaxJobsListed); ++i) {
      const Job& job = snapshot_.jobs[jobs[i].job];
      const char letter = letters_[jobs[i].job];
      table.add({std::string(1, letter == kNoLetter ? ' ' : letter), job.id, job.name,
                 std::to_string(jobs[i].racks), std::to_string(jobs[i].over.size()),
                 std::to_string(jobs[i].rings), std::to_string(jobs[i].workers),
                 std::to_string(jobs[i].gpus)});
    }
    std::string out = "\nfragmented jobs (over: how many of their racks are over the bound)\n";
    out += table.text(paint_);
    if (jobs.size() > kMaxJobsListed) {
      out += fmt::format("and {} more; --json lists all\n", jobs.size() - kMaxJobsListed);
    }
    return out;
  }

  const Snapshot& snapshot_;
  const Analysis& analysis_;
  const Paint& paint_;
  Picture picture_;
  bool all_drawn_ = true;
  std::vector<RackId> drawn_;
  IdVector<JobId, char> letters_;
};

struct AnalyzeOptions {
  std::string snapshot;
  bool json = false;
  std::optional<int> uplinks;
};

int run_analyze(const AnalyzeOptions& options) {
  const std::optional<SnapshotInput> input = read_snapshot(options.snapshot, options.uplinks);
  if (!input) return kExitBadInput;
  const Analysis analysis = analyze(input->snapshot);
  if (options.json) return print_result(write_analysis(input->snapshot, analysis), kExitDone);
  const Paint paint(colors_wanted());
  return print_result(AnalysisText(input->snapshot, analysis, paint).text(), kExitDone);
}

}  // namespace

std::string write_analysis(const Snapshot& snapshot, const Analysis& analysis) {
  using Json = nlohmann::ordered_json;
  Json json;
  json["schema"] = "monkeytree/analysis/v1";
  if (!snapshot.name.empty()) json["name"] = snapshot.name;
  json["racks"] = snapshot.racks.size();
  json["nodes"] = snapshot.nodes.size();
  json["jobs"] = snapshot.jobs.size();
  json["excess"] = analysis.excess;
  json["gpus"] = analysis.gpus;
  json["gpus_fragmented"] = analysis.gpus_fragmented;
  json["gpus_known"] = analysis.gpus_known;
  const auto names = [&](const std::vector<RackId>& racks) {
    Json list = Json::array();
    for (RackId rack : racks) list.push_back(snapshot.racks[rack].name);
    return list;
  };
  json["over"] = names(analysis.over);
  // An ordered_json looks a key up in linear time, so that these are filled as lists of pairs.
  Json::object_t bounds, degrees;
  for (RackId rack : snapshot.racks.keys()) {
    bounds.push_back({snapshot.racks[rack].name, analysis.bounds[rack]});
    degrees.push_back({snapshot.racks[rack].name, analysis.degrees[rack]});
  }
  json["bounds"] = std::move(bounds);
  json["fragmentation"] = std::move(degrees);
  Json& jobs = json["fragmented"] = Json::array();
  for (const FragmentedJob& fragmented : analysis.fragmented) {
    Json job;
    job["job"] = snapshot.jobs[fragmented.job].id;
    if (!snapshot.jobs[fragmented.job].name.empty()) {
      job["name"] = snapshot.jobs[fragmented.job].name;
    }
    job["racks"] = fragmented.racks;
    job["groups"] = fragmented.groups;
    job["rings"] = fragmented.rings;
    job["workers"] = fragmented.workers;
    job["gpus"] = fragmented.gpus;
    job["over"] = names(fragmented.over);
    jobs.push_back(std::move(job));
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

void add_analyze(CLI::App& app, int& exit_code) {
  const auto options = std::make_shared<AnalyzeOptions>();
  CLI::App& command = add_command(
      app, "analyze", "degree and bound of each rack, fragmented jobs, GPUs in them", kExamples);
  add_snapshot_argument(command, options->snapshot);
  command.add_flag("--json", options->json, "print JSON for programs");
  add_uplinks_option(command, options->uplinks);
  command.callback([options, &exit_code] { exit_code = run_analyze(*options); });
}

}  // namespace monkeytree
