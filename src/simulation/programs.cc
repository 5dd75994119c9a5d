#include "simulation/programs.h"

#include <algorithm>
#include <cmath>
#include <variant>

#include "simulation/router.h"
#include "workload/idle.h"

namespace monkeytree {
namespace {

/// Calls `hop(from, to)` for every hop of a gradient ring.
template <class Hop>
void each_ring_hop(const Model& model, int gpus, Hop hop) {
  for (const Phase& phase : model.phases) {
    if (std::holds_alternative<AllReduce>(phase)) {
      for (int r = 0; r < gpus; ++r) hop(r, (r + 1) % gpus);
    } else if (const auto* ring = std::get_if<StridedRing>(&phase)) {
      for (int r = 0; r < gpus; ++r) hop(r, (r + ring->stride) % gpus);
    } else if (const auto* pipeline = std::get_if<Pipeline>(&phase)) {
      const int stage = gpus / pipeline->stages;
      for (int r = 0; r < gpus; ++r) {
        const int first = r / stage * stage;
        hop(r, first + (r - first + pipeline->tensor) % stage);
      }
    }
  }
}

}  // namespace

Program program_of(const Model& model, int gpus, const Scenario& scenario) {
  Program program =
      make_program(rank_steps(model, gpus, scenario.pipeline), scenario.fabric.gpus_per_node);
  each_ring_hop(model, gpus, [&](int from, int to) {
    if (RankPair* pair = find_pair(program, from, to)) pair->ring = true;
  });
  return program;
}

Time ideal_iteration(const Scenario& scenario, const Model& model, int gpus) {
  const FabricShape& fabric = scenario.fabric;
  const Program program = program_of(model, gpus, scenario);
  if (gpus <= fabric.gpus_per_rack) {
    return idle_iteration_us(program.steps, quantized_rate(fabric.link_bytes_per_us),
                             fabric.gpus_per_node, fabric.nvlink);
  }
  Scenario alone = scenario;
  alone.fabric.spray = false;
  alone.system = System::find("perfect");
  const int nodes = (gpus + fabric.gpus_per_node - 1) / fabric.gpus_per_node;
  const FreeNodes empty(fabric.racks(), fabric.gpus_per_rack / fabric.gpus_per_node);
  const std::vector<NodeId> placed = *empty.place(nodes, PlacementRule::kBestFit, scenario.fill);
  std::vector<int> hosts;
  for (int r = 0; r < gpus; ++r) {
    hosts.push_back(placed[static_cast<size_t>(r / fabric.gpus_per_node)].value *
                        fabric.gpus_per_node +
                    r % fabric.gpus_per_node);
  }
  const std::unique_ptr<Router> router = make_router(alone);
  router->place(0, program, hosts, 0);
  router->update();
  const std::unique_ptr<Engine> engine = make_fast_engine({alone.fabric, {}});
  engine->start(0, program, hosts, router->spines(0), 1);
  std::vector<Notice> notices;
  Time time = 0;
  while (notices.empty()) {
    time = engine->next();
    engine->advance(time, notices);
  }
  return time;
}

const JobKind& Programs::of(const std::string& name, int gpus) {
  std::unique_ptr<JobKind>& kind = kinds_[{name, gpus}];
  if (kind) return *kind;
  kind = std::make_unique<JobKind>();
  const Model& model = *catalogue_.find(name);
  kind->model = &model;
  kind->program = program_of(model, gpus, scenario_);
  kind->groups = rank_groups(model, gpus, scenario_.fabric.gpus_per_node);
  kind->nodes = (gpus + scenario_.fabric.gpus_per_node - 1) / scenario_.fabric.gpus_per_node;
  kind->ideal_iteration = ideal_iteration(scenario_, model, gpus);
  kind->work = static_cast<double>(compute_us(model, gpus)) * gpus;
  for (int r = 0; r < gpus; ++r) {
    const auto bytes = static_cast<double>(state_bytes(model, gpus, r, scenario_.state));
    kind->state_bytes.push_back(std::llround(bytes * scenario_.state_scale));
  }
  return *kind;
}

}  // namespace monkeytree
