#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "network/leaf_spine.h"
#include "scheduling/placement.h"
#include "workload/generate.h"
#include "workload/model.h"

namespace monkeytree {

enum class RouteRule : uint8_t { kEcmp, kCrux, kSglb, kPerfect, kSpray };

/// What happens to a placement in which a rack is above its bound.
enum class PlacementCare : uint8_t {
  kNone,
  kFewestMoves,  ///< the planner's plan
  kRepack,       ///< Theorem 1's fill at every trigger, the naive way to comply
};

/// One of the compared systems: how flows are routed and what is done about placements.
struct System {
  std::string_view name;
  RouteRule route = RouteRule::kEcmp;
  PlacementCare care = PlacementCare::kNone;
  /// Null where the name is unknown.
  static const System* find(std::string_view name);
  static std::span<const System> all();
};

/// By which a job's claim to the better routes is measured under Crux.
enum class CruxIntensity : uint8_t {
  kBusiest,  ///< compute work ÷ communication time of its busiest link
  kTotal,    ///< compute work ÷ communication time summed over its links (the authors' program)
};

/// All that one simulated run depends on, apart from the catalogue and the trace
/// (docs/simulator.md, "Scenario").
struct Scenario {
  FabricShape fabric;
  PlacementRule scheduler = PlacementRule::kBestFit;
  FillRule fill = FillRule::kRemainder;
  bool backfill = false;  ///< a job that fits may pass one that waits
  const System* system = System::find("monkeytree");
  std::optional<int> threshold;  ///< λ; none: the spines
  bool paper_rules = false;      ///< the authors' choices where ours differ
  int64_t pause_us = 10'000'000;
  StateRule state = StateRule::kShard;
  double state_scale = 1;            ///< a move carries so many times the rule's bytes
  bool freeze_unfragmented = false;  ///< jobs inside one rack are not moved
  CruxIntensity crux_intensity = CruxIntensity::kBusiest;
  PipelineSchedule pipeline = PipelineSchedule::kGpipe;
  int64_t plan_work_limit = 200'000;  ///< search nodes a plan
  uint64_t seed = 1;

  int bound() const { return threshold.value_or(fabric.spines); }
};

}  // namespace monkeytree
