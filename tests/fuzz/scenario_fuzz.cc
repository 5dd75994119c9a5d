// Scenarios of any bytes: refused with a reason, or read into a fabric that can be built; small
// ones are generated and run for a moment.

#include <absl/status/status.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "simulation/output.h"
#include "simulation/scenario_yaml.h"

using namespace monkeytree;  // NOLINT: a program of one function

namespace {

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "does not hold: %s\n", what);
  std::abort();
}

void check_fabric(const Scenario& scenario) {
  const FabricShape& fabric = scenario.fabric;
  require(fabric.gpus >= 1 && fabric.gpus_per_node >= 1 && fabric.gpus_per_rack >= 1, "sizes");
  require(fabric.gpus % fabric.gpus_per_node == 0, "whole nodes");
  require(fabric.gpus_per_rack % fabric.gpus_per_node == 0, "whole nodes in a rack");
  require(fabric.spines >= 1 && fabric.spines <= fabric.gpus_per_rack, "uplinks");
  require(fabric.link_bytes_per_us > 0, "links carry something");
  require(scenario.bound() >= 0 && scenario.pause_us >= 0, "not negative");
}

/// Runs a few jobs for a few hundred steps.
void run(const ScenarioFile& file) {
  const Scenario& scenario = file.scenario;
  if (file.trace || file.models || scenario.fabric.gpus > 128 || file.generate.jobs > 8) return;
  if (file.generate.max_iterations > 20) return;
  Diagnostics diagnostics;
  const std::optional<Workload> workload = read_workload(
      file, [](const std::string&) { return absl::NotFoundError("none"); }, diagnostics);
  require(workload.has_value() != diagnostics.has_errors(), "what is refused has a reason");
  if (!workload) return;
  SimulationOptions options;
  options.stop = [steps = 0](double) mutable { return ++steps > 4; };
  const SimulationResult result = simulate(scenario, workload->catalogue, workload->trace, options);
  const Summary summary = summarize(scenario, workload->trace, result);
  require(result.stopped || summary.ended == summary.jobs, "every job ends");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  Diagnostics diagnostics;
  const std::optional<ScenarioFile> file = parse_scenario(text, "f", {}, diagnostics);
  require(file.has_value() != diagnostics.has_errors(), "what is refused has a reason");
  if (!file) return 0;
  check_fabric(file->scenario);
  run(*file);
  return 0;
}
