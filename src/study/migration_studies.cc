#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "study/built_in.h"
#include "study/measure.h"
#include "study/study_report.h"

namespace monkeytree {
namespace {

const std::string kFirstSeed = "1";

/// One list over the simulated hours of the first seed, a step line for each system.
Figure over_time(const StudyResults& results, const char* list, StepChart chart) {
  chart.x = {.label = "Simulated time", .unit = "h"};
  for (const std::string& system : results.axis("system")->values) {
    const Selection where = {{"system", system}, {std::string(kSeedAxis), kFirstSeed}};
    const double hours = results.estimate("simulated_h", where).mean;
    StepSeries line{.name = system,
                    .end = hours,
                    .style = style_of_system(system),
                    .strong = system == "monkeytree"};
    const std::vector<double> values = results.summed(list, where);
    for (size_t i = 0; i < values.size(); ++i) {
      line.points.push_back({hours * static_cast<double>(i) / kTimeSteps, values[i]});
    }
    chart.series.push_back(std::move(line));
  }
  return draw(chart);
}

Study fragmentation_over_time() {
  return {.name = "fragmentation-over-time",
          .title = "How placements decay, and what keeps them in bounds",
          .question =
              "Jobs come and go at full load. A rack's degree is the number of rings that leave "
              "it; above the bound of 16 uplinks some must share one, whatever the routing does. "
              "`ecmp` stands for every system that leaves jobs where they are; `repack` fills the "
              "cluster anew at every trigger.",
          .axes = {{"system", {"ecmp", "repack", "monkeytree"}}},
          .quick_size = {.jobs = 400, .seeds = 3, .iterations = "[20, 200]"},
          .metrics = {"degree_avg", "degree_max", "time_over", "moves", "slowdown_avg",
                      "gpu_hours_lost", "gpu_hours_saved"},
          .draw = [](const StudyResults& results, StudyReport& report) {
            report.add(over_time(results, "degree_over_time",
                                 {.title = "Highest degree of any rack",
                                  .caption = "Seed 1; the greatest value in each 240th of the "
                                             "time. Workers on the move count where they will be.",
                                  .y = {.label = "Degree", .low = 0},
                                  .references = {{16, "bound: 16 uplinks"}}}));
            report.add(over_time(results, "busy_over_time",
                                 {.title = "Share of nodes that jobs have",
                                  .caption = "Seed 1.",
                                  .y = {.label = "Share", .low = 0, .high = 1}}));
            report.add(bars(results, {.title = "Workers moved", .metric = "moves", .x = "system"}));
          }};
}

void draw_moves(const StudyResults& results, StudyReport& report) {
  constexpr size_t kShown = 8;
  BarChart chart{.title = "Plans by the number of workers they move",
                 .caption = "All seeds together. The last bar holds all larger plans.",
                 .y = {.label = "Plans", .unit = "%"}};
  DataTable table{.title = "Plans by the number of workers they move",
                  .columns = {{"load"}, {"moves"}, {"plans"}, {"share"}}};
  for (size_t moves = 1; moves <= kShown; ++moves) {
    chart.categories.push_back(fmt::format("{}{}", moves, moves == kShown ? "+" : ""));
  }
  for (const std::string& load : results.axis("load")->values) {
    const std::vector<double> plans = results.summed("plan_moves", {{"load", load}});
    double all = 0;
    for (const double count : plans) all += count;
    BarSeries series{.name = "load " + load, .bars = std::vector<Bar>(kShown, Bar{0})};
    for (size_t i = 0; i < plans.size(); ++i) {
      series.bars[std::min(i, kShown - 1)].value += all > 0 ? 100 * plans[i] / all : 0;
      if (plans[i] == 0) continue;
      table.rows.push_back({load, static_cast<int64_t>(i + 1), static_cast<int64_t>(plans[i]),
                            DataCell(plans[i] / all, 3)});
    }
    chart.series.push_back(std::move(series));
  }
  report.add(draw(chart));
  report.add(lines(results,
                   {.title = "Workers moved in a run", .metric = "moves", .x = "load", .low = 0}));
  report.add(table, "plans");
}

Study moves_per_event() {
  return {.name = "moves-per-event",
          .title = "How many workers a plan moves",
          .question =
              "A plan is made when an arrival or a departure leaves a rack above its bound. How "
              "large are plans, and how many move just two workers? Plans that take up what an "
              "event in between left undone count as plans of their own.",
          .axes = {{"load", {"0.8", "0.9", "1.0"}}},
          .quick_size = {.jobs = 1500, .seeds = 3, .iterations = "[20, 200]"},
          .metrics = {"plans", "moves", "plans_of_one", "plans_of_two", "jobs_moved",
                      "plans_failed", "slowdown_avg", "gpu_hours_lost"},
          .draw = draw_moves};
}

Study threshold() {
  return {.name = "threshold",
          .title = "The bound: fewer moves or less sharing",
          .question =
              "The bound λ is the number of uplinks, 16. A lower one moves more than it must, a "
              "higher one lets rings share uplinks before it moves anything. Full load.",
          .axes = {{"threshold", {"8", "12", "16", "20", "24", "32"}}},
          .quick = {{"threshold", {"8", "16", "24", "32"}}},
          .quick_size = {.jobs = 600, .seeds = 3, .iterations = "[20, 200]"},
          .metrics = {"moves", "plans", "plans_failed", "slowdown_avg", "slowdown_p99",
                      "gpu_hours_lost", "time_over"},
          .draw = [](const StudyResults& results, StudyReport& report) {
            const auto chart = [&](const char* metric, const char* title, double low) {
              report.add(
                  lines(results, {.title = title, .metric = metric, .x = "threshold", .low = low}));
            };
            chart("moves", "Workers moved", 0);
            chart("slowdown_avg", "Average slowdown", 1);
            chart("slowdown_p99", "Slowdown that one job in a hundred exceeds", 1);
            chart("gpu_hours_lost", "GPU-hours lost", 0);
          }};
}

Study migration_cost() {
  return {
      .name = "migration-cost",
      .title = "What a move may cost",
      .question =
          "A moved worker's job stands still while its state is on its way and for a pause "
          "after: 10 s on the paper's testbed, of which the network is a small part. State is "
          "weights and optimizer, 14 bytes a parameter, times a factor: 0 is a move that carries "
          "nothing. Full load.",
      .axes = {{"state_scale", {"0", "0.25", "1", "4"}}, {"pause_s", {"0", "1", "3", "10", "30"}}},
      .quick = {{"state_scale", {"0", "1", "4"}}, {"pause_s", {"0", "1", "10", "30"}}},
      .quick_size = {.jobs = 600, .seeds = 3, .iterations = "[20, 200]"},
      .metrics = {"slowdown_avg", "slowdown_p99", "paused_s", "moves", "gpu_hours_lost"},
      .draw = [](const StudyResults& results, StudyReport& report) {
        const auto chart = [&](const char* metric, const char* title, double low) {
          report.add(lines(results, {.title = title,
                                     .metric = metric,
                                     .x = "pause_s",
                                     .series = "state_scale",
                                     .caption = "A line for each factor on the state.",
                                     .low = low}));
        };
        chart("slowdown_avg", "Average slowdown", 1);
        chart("slowdown_p99", "Slowdown that one job in a hundred exceeds", 1);
        chart("paused_s", "How long a moved job stands still", 0);
        chart("gpu_hours_lost", "GPU-hours lost", 0);
      }};
}

}  // namespace

std::vector<Study> migration_studies() {
  return {fragmentation_over_time(), moves_per_event(), threshold(), migration_cost()};
}

}  // namespace monkeytree
