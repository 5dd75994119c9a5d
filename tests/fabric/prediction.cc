#include "prediction.h"

#include <algorithm>
#include <memory>

#include "simulation/engine.h"

namespace monkeytree {
namespace {

constexpr int kIterations = 40, kForever = 1'000'000;

Program program_of(const PredictedJob& job) {
  const int n = static_cast<int>(job.ring.size());
  RankSteps steps(job.ring.size());
  for (int rank = 0; rank < n; ++rank) {
    std::vector<Step>& own = steps[static_cast<size_t>(rank)];
    if (job.compute_us > 0) own.push_back({job.compute_us, -1, 0, -1});
    for (int message = 0; message < 2 * (n - 1); ++message) {
      own.push_back({0, (rank + 1) % n, job.piece_bytes, (rank + n - 1) % n});
    }
  }
  return make_program(std::move(steps), 1);
}

}  // namespace

std::vector<double> predicted_iterations(const std::vector<PredictedJob>& jobs, int racks,
                                         int hosts, int spines, double bytes_per_s) {
  EngineOptions options;
  options.fabric.gpus = racks * hosts;
  options.fabric.gpus_per_node = 1;
  options.fabric.gpus_per_rack = hosts;
  options.fabric.spines = spines;
  options.fabric.link_bytes_per_us = bytes_per_s / 1e6;
  std::vector<Program> programs;
  for (const PredictedJob& job : jobs) programs.push_back(program_of(job));
  std::vector<double> seconds;
  for (size_t observed = 0; observed < jobs.size(); ++observed) {
    const std::unique_ptr<Engine> engine = make_plain_engine(options);
    for (size_t j = 0; j < jobs.size(); ++j) {
      std::vector<int> at;
      for (const PredictedJob::Host& host : jobs[j].ring) {
        at.push_back(host.rack * hosts + host.host);
      }
      PairSpines by;
      for (const RankPair& pair : programs[j].pairs) {
        by.push_back(static_cast<int16_t>(jobs[j].ring[static_cast<size_t>(pair.from)].spine));
      }
      engine->start(static_cast<int>(j), programs[j], at, std::move(by),
                    j == observed ? kIterations : kForever);
    }
    std::vector<Notice> notices;
    Time now = 0;
    while (notices.empty()) {
      now = engine->next();
      engine->advance(now, notices);
    }
    seconds.push_back(static_cast<double>(now) / 1e6 / kIterations);
  }
  return seconds;
}

}  // namespace monkeytree
