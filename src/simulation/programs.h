#pragma once

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "simulation/program.h"
#include "simulation/scenario.h"
#include "simulation/time.h"
#include "workload/catalogue.h"

namespace monkeytree {

/// Jobs of one model and size: what the simulation needs to know of them.
struct JobKind {
  const Model* model = nullptr;
  Program program;
  std::vector<RankGroup> groups;
  int nodes = 0;                     ///< taken, whole
  Time ideal_iteration = 0;          ///< alone on an idle fabric
  double work = 0;                   ///< GPUs · compute time of an iteration
  std::vector<int64_t> state_bytes;  ///< by rank
};

/// Makes each kind once. Pointers stay valid.
class Programs {
 public:
  Programs(const Scenario& scenario, const Catalogue& catalogue)
      : scenario_(scenario), catalogue_(catalogue) {}
  const JobKind& of(const std::string& model, int gpus);

 private:
  const Scenario& scenario_;
  const Catalogue& catalogue_;
  std::map<std::pair<std::string, int>, std::unique_ptr<JobKind>> kinds_;
};

/// The program of a job; which pairs are ring hops is found from its groups' shape.
Program program_of(const Model& model, int gpus, const Scenario& scenario);

}  // namespace monkeytree
