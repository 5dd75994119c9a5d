#include <fmt/format.h>

#include "study/built_in.h"
#include "study/study_report.h"

namespace monkeytree {
namespace {

const std::vector<std::string> kSlowdown = {"slowdown_avg",   "slowdown_p90",    "slowdown_p99",
                                            "gpu_hours_lost", "gpu_hours_saved", "moves"};

Study slowdown_vs_load() {
  return {.name = "slowdown-vs-load",
          .title = "What congestion costs, by load",
          .question =
              "Jobs arrive at random on the paper's cluster: 1,024 GPUs, 64 to a rack, 16 uplinks "
              "of a rack, so 4:1 oversubscribed. A job's slowdown is its run time over that of the "
              "same job alone on an idle network; what it waits in the queue does not count. How "
              "much do jobs lose under each way to route, and what is left when the placement is "
              "mended instead?",
          .axes = {{"system", {"ecmp", "crux", "perfect", "sglb", "repack", "monkeytree"}},
                   {"load", {"0.7", "0.8", "0.9", "1.0"}}},
          .quick = {{"system", {"ecmp", "crux", "perfect", "sglb", "monkeytree"}},
                    {"load", {"0.8", "0.9", "1.0"}}},
          .quick_size = {.jobs = 500, .seeds = 4, .iterations = "[20, 200]"},
          .metrics = kSlowdown,
          .draw = [](const StudyResults& results, StudyReport& report) {
            const auto chart = [&](const char* metric, const char* title, double low) {
              report.add(lines(
                  results,
                  {.title = title, .metric = metric, .x = "load", .series = "system", .low = low}));
            };
            chart("slowdown_avg", "Average slowdown by load", 1);
            chart("slowdown_p90", "Slowdown that one job in ten exceeds", 1);
            chart("slowdown_p99", "Slowdown that one job in a hundred exceeds", 1);
            chart("gpu_hours_lost", "GPU-hours lost to shared uplinks and to moves", 0);
          }};
}

Study oversubscription() {
  return {.name = "oversubscription",
          .title = "How thin the fabric may be",
          .question =
              "Racks of different sizes with different numbers of uplinks, at full load. A column "
              "times its oversubscription is the rack's size: 64 GPUs over 16 uplinks are 4:1.",
          .axes = {{"system", {"ecmp", "sglb", "monkeytree"}},
                   {"gpus_per_rack", {"32", "64", "128"}},
                   {"spines", {"8", "16", "32"}}},
          .quick = {{"system", {"ecmp", "monkeytree"}}},
          .size = {.jobs = 1200},
          .quick_size = {.jobs = 300, .seeds = 1, .iterations = "[20, 200]"},
          .metrics = kSlowdown,
          .draw = [](const StudyResults& results, StudyReport& report) {
            for (const std::string& system : results.axis("system")->values) {
              for (const char* metric : {"slowdown_avg", "slowdown_p99"}) {
                report.add(heat_map(
                    results, {.title = fmt::format("{}: {}", system, metric_of(metric).label),
                              .metric = metric,
                              .x = "spines",
                              .series = "gpus_per_rack",
                              .where = {{"system", system}}}));
              }
            }
          }};
}

Study front_end_schedulers() {
  return {
      .name = "front-end-schedulers",
      .title = "What the front-end scheduler's placement leaves to mend",
      .question =
          "The scheduler chooses the nodes of an arriving job; moves come after. How much does "
          "its rule matter, with and without moves? Full load.",
      .axes = {{"scheduler", {"best-fit", "first-fit", "random"}},
               {"system", {"ecmp", "perfect", "monkeytree"}}},
      .size = {.jobs = 1200},
      .quick_size = {.jobs = 300, .seeds = 3, .iterations = "[20, 200]"},
      .metrics = kSlowdown,
      .draw = [](const StudyResults& results, StudyReport& report) {
        const auto chart = [&](const char* metric, const char* title) {
          report.add(bars(
              results, {.title = title, .metric = metric, .x = "scheduler", .series = "system"}));
        };
        chart("slowdown_avg", "Average slowdown");
        chart("slowdown_p99", "Slowdown that one job in a hundred exceeds");
        chart("gpu_hours_lost", "GPU-hours lost");
        report.add(bars(results, {.title = "Workers moved",
                                  .metric = "moves",
                                  .x = "scheduler",
                                  .where = {{"system", "monkeytree"}},
                                  .caption = "Under monkeytree."}));
      }};
}

Study expert_parallel() {
  return {.name = "expert-parallel",
          .title = "Jobs whose experts talk all to all",
          .question =
              "Expert parallelism sends between all pairs of a job's GPUs, so a rack's uplinks "
              "carry more than one flow for each job that spans it and the bound on degrees "
              "promises nothing. What do moves bring all the same? All jobs are of one model.",
          .axes = {{"model", {"ep_gpt_120b_32", "ep_qwen3_a3b_16"}},
                   {"system", {"ecmp", "crux", "perfect", "monkeytree"}},
                   {"load", {"0.8", "1.0"}}},
          .quick = {{"system", {"ecmp", "perfect", "monkeytree"}}, {"load", {"1.0"}}},
          .size = {.jobs = 300, .iterations = "[20, 200]"},
          .quick_size = {.jobs = 300, .seeds = 3, .iterations = "[5, 20]"},
          .metrics = kSlowdown,
          .draw = [](const StudyResults& results, StudyReport& report) {
            for (const char* metric : {"slowdown_avg", "slowdown_p99", "gpu_hours_lost"}) {
              report.add(
                  bars(results, {.title = fmt::format("At full load: {}", metric_of(metric).label),
                                 .metric = metric,
                                 .x = "model",
                                 .series = "system",
                                 .where = {{"load", "1.0"}}}));
            }
          }};
}

}  // namespace

std::vector<Study> slowdown_studies() {
  return {slowdown_vs_load(), oversubscription(), front_end_schedulers(), expert_parallel()};
}

}  // namespace monkeytree
