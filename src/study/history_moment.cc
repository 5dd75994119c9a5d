#include "study/history_moment.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "cluster/analysis.h"
#include "cluster/picture.h"
#include "planning/plan.h"
#include "report/chart.h"
#include "report/text.h"

namespace monkeytree {
namespace {

constexpr size_t kMostRacksDrawn = 24;
constexpr size_t kMostMovesListed = 12;

DataTable move_table(const Snapshot& before, const Plan& plan) {
  DataTable table{.title = fmt::format("The {}", plan.moves == 1 ? "move" : "moves"),
                  .columns = {{"job"}, {"from"}, {"to"}}};
  size_t left = 0;
  const auto place = [&](NodeId node) {
    return fmt::format("{}, {}", before.nodes[node].name,
                       before.racks[before.nodes[node].rack].name);
  };
  for (const Round& round : plan.rounds) {
    for (const Move& move : round) {
      if (move.to == kStaging) continue;
      if (table.rows.size() == kMostMovesListed) {
        ++left;
        continue;
      }
      const Group& group = before.groups[move.group];
      table.rows.push_back({before.jobs[group.job].id,
                            place(group.workers[static_cast<size_t>(move.worker)]),
                            place(move.to)});
    }
  }
  if (left > 0) table.rows.push_back({fmt::format("and {} more", left), "", ""});
  return table;
}

/// All racks of a small cluster, else those above their bound and where the plan moves something.
std::vector<RackId> racks_drawn(const Snapshot& snapshot, const Analysis& analysis,
                                const Plan& plan) {
  std::set<RackId> drawn;
  if (snapshot.racks.size() <= kMostRacksDrawn) {
    for (RackId rack : snapshot.racks.keys()) drawn.insert(rack);
    return {drawn.begin(), drawn.end()};
  }
  std::vector<RackId> over = analysis.over;
  std::stable_sort(over.begin(), over.end(), [&](RackId a, RackId b) {
    return analysis.degrees[a] - analysis.bounds[a] > analysis.degrees[b] - analysis.bounds[b];
  });
  over.resize(std::min(over.size(), kMostRacksDrawn / 2));
  drawn.insert(over.begin(), over.end());
  for (const Round& round : plan.rounds) {
    for (const Move& move : round) {
      for (NodeId node : {move.from, move.to}) {
        if (node != kStaging && drawn.size() < kMostRacksDrawn) {
          drawn.insert(snapshot.nodes[node].rack);
        }
      }
    }
  }
  return {drawn.begin(), drawn.end()};
}

std::vector<bool> crossing_of(const Snapshot& snapshot, const Analysis& analysis) {
  std::vector<bool> crosses(snapshot.jobs.size(), false);
  for (const FragmentedJob& job : analysis.fragmented) {
    crosses[static_cast<size_t>(job.job.value)] = true;
  }
  return crosses;
}

/// A colour for each job, the same before and after; those that cross racks come first.
IdVector<JobId, int> styles_of(const Snapshot& snapshot, const Analysis& analysis) {
  IdVector<JobId, int> styles(snapshot.jobs.size(), -1);
  int next = 0;
  for (const FragmentedJob& job : analysis.fragmented) styles[job.job] = next++;
  for (int& style : styles) {
    if (style < 0) style = next++;
  }
  return styles;
}

RackPicture picture(const Snapshot& snapshot, const Analysis& analysis,
                    const std::vector<RackId>& racks, const IdVector<JobId, char>& letters,
                    const IdVector<JobId, int>& styles, std::string title, std::string caption) {
  const std::vector<bool> crosses = crossing_of(snapshot, analysis);
  RackPicture out{std::move(title), std::move(caption), {}};
  const Picture cells(snapshot);
  for (RackId rack : racks) {
    PictureRack row{snapshot.racks[rack].name, analysis.degrees[rack], analysis.bounds[rack], {}};
    for (const Cell& cell : cells.cells(rack, CellOf::kNode)) {
      PictureSlot slot;
      if (cell.job.valid()) {
        slot.state = PictureSlot::kHeld;
        slot.job = snapshot.jobs[cell.job].id;
        slot.letter = std::string(1, letters[cell.job]);
        slot.crosses = crosses[static_cast<size_t>(cell.job.value)];
        slot.style = styles[cell.job];
      }
      row.slots.push_back(std::move(slot));
    }
    out.racks.push_back(std::move(row));
  }
  return out;
}

}  // namespace

std::string count_of(int64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", grouped_text(static_cast<double>(count), 0), noun,
                     count == 1 ? "" : "s");
}

void add_moment(Page& page, Snapshot snapshot, const std::string& time, const std::string& cost,
                int64_t work_limit) {
  PlanOptions options;
  options.best_effort = true;
  options.work_limit = work_limit;
  const Plan plan = monkeytree::plan(snapshot, options);
  const Analysis before = analyze(snapshot);
  const std::vector<RackId> racks = racks_drawn(snapshot, before, plan);
  const IdVector<JobId, char> letters = letters_of(snapshot, before, racks);
  const IdVector<JobId, int> styles = styles_of(snapshot, before);
  page.add(draw(picture(snapshot, before, racks, letters, styles, time + ", as recorded",
                        fmt::format("{} above the bound, {} short; {}.",
                                    count_of(static_cast<int64_t>(before.over.size()), "rack"),
                                    count_of(before.excess, "uplink"), cost))));
  if (plan.moves == 0) {
    page.paragraph("No move of a job that may move makes this any better.");
    return;
  }
  const DataTable moves = move_table(snapshot, plan);
  for (const Round& round : plan.rounds) {
    for (const Move& move : round) {
      if (move.to == kStaging) continue;
      snapshot.groups[move.group].workers[static_cast<size_t>(move.worker)] = move.to;
    }
  }
  page.add(draw(picture(snapshot, analyze(snapshot), racks, letters, styles,
                        fmt::format("{}, after {}", time, count_of(plan.moves, "move")),
                        plan.excess_after == 0
                            ? "Every flow has an uplink of its own."
                            : fmt::format("{} still short: no plan meets every bound.",
                                          count_of(plan.excess_after, "uplink")))));
  page.add(moves);
}

}  // namespace monkeytree
