#pragma once

#include <absl/status/statusor.h>

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/diagnostics.h"
#include "simulation/scenario.h"
#include "workload/catalogue.h"
#include "workload/generate.h"
#include "workload/trace.h"

/// Scenarios as files (docs/simulator.md, "Scenario").
namespace monkeytree {

/// A name in a scenario, to be read later, and where it stands for what is found wrong then.
struct NamedFile {
  std::string name;  ///< as it is to be opened: those of a scenario start from its folder
  int line = 0;      ///< 0: not from the scenario
  std::string path;  ///< "/workload/trace"
};

/// A scenario and where its jobs come from.
struct ScenarioFile {
  std::string file;  ///< as it was named, for findings
  Scenario scenario;
  std::optional<NamedFile> models;  ///< beside the standard catalogue
  std::optional<NamedFile> trace;   ///< none: generated
  GenerateOptions generate;
  NamedFile generate_place;  ///< its name is empty
  /// The rate of arrivals follows from run times that leave pipeline bubbles out.
  bool mean_without_bubbles = false;
};

/// What a command line says in place of the file.
struct ScenarioOverrides {
  std::optional<std::string_view> system;  ///< one that exists
  std::optional<uint64_t> seed;
  std::optional<std::string> trace;  ///< the scenario need not name a workload then
};

/// Reads a scenario; nullopt after an error. Whatever it does not say has its default, which
/// `rules` may change. `full-bisection` has as many spines as a rack has GPUs.
std::optional<ScenarioFile> parse_scenario(std::string_view text, std::string_view file,
                                           const ScenarioOverrides& overrides,
                                           Diagnostics& diagnostics);

/// All that a run needs besides the scenario.
struct Workload {
  Catalogue catalogue;
  Trace trace;
};

/// Gives the text of a file that a scenario names.
using FileReader = std::function<absl::StatusOr<std::string>(const std::string& name)>;

/// The models and jobs of a scenario: read, or generated. Every job fits the cluster. A finding in
/// a file that `read` gives names that file.
std::optional<Workload> read_workload(const ScenarioFile& scenario, const FileReader& read,
                                      Diagnostics& diagnostics);

/// A trace for a scenario's options. Expects generate_fault() to be empty.
Trace generate_for(const Scenario& scenario, const Catalogue& catalogue,
                   const GenerateOptions& options, bool mean_without_bubbles);

}  // namespace monkeytree
