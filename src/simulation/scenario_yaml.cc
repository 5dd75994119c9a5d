#include "simulation/scenario_yaml.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>
#include <variant>
#include <vector>

#include "base/file.h"
#include "base/json.h"
#include "base/yaml.h"
#include "simulation/simulation.h"

namespace monkeytree {
namespace {

constexpr int kMaxGpus = 1 << 20;
constexpr int kMaxGpusPerRack = 16384;
constexpr int kMaxSpines = 512;
constexpr int kMaxThreshold = 65536;
constexpr int kMaxJobs = 10'000'000;
constexpr int64_t kMaxIterations = 1'000'000'000;
constexpr int64_t kMaxPause_us = 1'000'000'000'000;  // 11 days
constexpr double kMaxStateScale = 100;
constexpr int64_t kMaxSeed = 999'999'999'999'999'999;
constexpr int64_t kMaxWork = 1'000'000'000'000;
constexpr int kMaxWeight = 1'000'000;

/// "folder/scenario.yaml" and "jobs.csv" → "folder/jobs.csv".
std::string beside(std::string_view file, const std::string& name) {
  return name.starts_with('/') || name == "-" ? name : folder_of(file) + name;
}

class ScenarioReader {
 public:
  ScenarioReader(std::string_view file, const ScenarioOverrides& overrides)
      : overrides_(overrides) {
    out_.file = file;
  }

  ScenarioFile read(const YamlValue& root) {
    const YamlMap map = root.map({"fabric", "scheduler", "queue", "system", "threshold", "rules",
                                  "fill", "migration", "freeze_unfragmented", "crux_intensity",
                                  "pipeline", "plan_work_limit", "models", "workload", "seed"});
    read_rules(map);
    read_system(map);
    read_fabric(map.find("fabric"));
    read_placement(map);
    read_migration(map.find("migration"));
    if (const YamlValue* at = map.find("plan_work_limit")) {
      read_into(scenario_.plan_work_limit, at->integer(0, kMaxWork));
    }
    if (const YamlValue* at = map.find("seed")) {
      read_into(scenario_.seed, at->integer(0, kMaxSeed));
    }
    if (overrides_.seed) scenario_.seed = *overrides_.seed;
    if (const YamlValue* at = map.find("models")) out_.models = named_file(*at);
    read_workload_source(root, map.find("workload"));
    return std::move(out_);
  }

 private:
  template <class To, class From>
  static void read_into(To& to, const std::optional<From>& value) {
    if (value) to = static_cast<To>(*value);
  }

  /// Reads a choice: each name stands for the value at its place.
  template <class To, size_t n>
  static void choose(const YamlMap& map, std::string_view key, To& to,
                     const std::array<std::string_view, n>& names,
                     const std::array<To, n>& values) {
    const YamlValue* at = map.find(key);
    if (at == nullptr) return;
    if (const std::optional<size_t> chosen = at->one_of(names)) to = values[*chosen];
  }

  std::optional<NamedFile> named_file(const YamlValue& at) const {
    std::optional<std::string> name = at.nonempty_string();
    if (!name) return std::nullopt;
    return NamedFile{beside(out_.file, *name), at.line(), at.path()};
  }

  /// First of all, since the others' defaults follow from it.
  void read_rules(const YamlMap& map) {
    choose<bool, 2>(map, "rules", scenario_.paper_rules, {"ours", "paper"}, {false, true});
    if (!scenario_.paper_rules) return;
    scenario_.fill = FillRule::kPaper;
    scenario_.state = StateRule::kPaper;
    scenario_.freeze_unfragmented = true;
    scenario_.crux_intensity = CruxIntensity::kTotal;
    out_.mean_without_bubbles = true;
  }

  void read_system(const YamlMap& map) {
    if (const YamlValue* at = map.find("system")) {
      std::vector<std::string_view> names;
      for (const System& system : System::all()) names.push_back(system.name);
      if (const std::optional<size_t> chosen = at->one_of(names)) {
        scenario_.system = &System::all()[*chosen];
      }
    }
    if (overrides_.system) scenario_.system = System::find(*overrides_.system);
  }

  void read_fabric(const YamlValue* at) {
    FabricShape& fabric = scenario_.fabric;
    if (at != nullptr) {
      const YamlMap map = at->map(
          {"kind", "gpus", "gpus_per_node", "gpus_per_rack", "spines", "link_gbps", "nvlink"});
      const YamlValue* spines = map.find("spines");
      const auto size = [&](const char* key, int& to, int most) {
        if (const YamlValue* value = map.find(key)) {
          const std::optional<int> got = value->integer32(1, most);
          sound_ = sound_ && got;
          read_into(to, got);
        }
      };
      if (const YamlValue* kind = map.find("kind")) {
        constexpr std::array<std::string_view, 1> kKinds = {"leaf-spine"};
        kind->one_of(kKinds);
      }
      size("gpus", fabric.gpus, kMaxGpus);
      size("gpus_per_node", fabric.gpus_per_node, kMaxGpusPerRack);
      size("gpus_per_rack", fabric.gpus_per_rack, kMaxGpusPerRack);
      size("spines", fabric.spines, kMaxSpines);
      if (const YamlValue* value = map.find("link_gbps")) {
        if (const std::optional<double> gbps = value->number(1, 1e6)) {
          fabric.link_bytes_per_us = *gbps * 125;
        }
      }
      if (const YamlValue* value = map.find("nvlink")) read_into(fabric.nvlink, value->boolean());
      const auto place = [&](const char* key) { return map.find(key) ? *map.find(key) : *at; };
      if (sound_) check_fabric(place("gpus"), place("gpus_per_rack"), spines ? *spines : *at);
    }
    if (scenario_.system->name == "full-bisection") fabric.spines = fabric.gpus_per_rack;
  }

  void check_fabric(const YamlValue& gpus, const YamlValue& rack, const YamlValue& spines) {
    const FabricShape& fabric = scenario_.fabric;
    if (fabric.gpus % fabric.gpus_per_node != 0) {
      gpus.error(
          fmt::format("{} GPUs are not whole nodes, expected a multiple of gpus_per_node, {}",
                      fabric.gpus, fabric.gpus_per_node));
    }
    if (fabric.gpus_per_rack % fabric.gpus_per_node != 0) {
      rack.error(
          fmt::format("racks of {} GPUs do not hold whole nodes, expected a multiple of "
                      "gpus_per_node, {}",
                      fabric.gpus_per_rack, fabric.gpus_per_node));
    }
    if (fabric.spines > fabric.gpus_per_rack) {
      spines.error(
          fmt::format("a rack with more uplinks than GPUs, expected at most gpus_per_rack, {}, "
                      "found {}",
                      fabric.gpus_per_rack, fabric.spines));
    }
  }

  void read_placement(const YamlMap& map) {
    choose<PlacementRule, 3>(
        map, "scheduler", scenario_.scheduler, {"best-fit", "first-fit", "random"},
        {PlacementRule::kBestFit, PlacementRule::kFirstFit, PlacementRule::kRandom});
    choose<bool, 2>(map, "queue", scenario_.backfill, {"fifo", "backfill"}, {false, true});
    choose<FillRule, 2>(map, "fill", scenario_.fill, {"paper", "remainder"},
                        {FillRule::kPaper, FillRule::kRemainder});
    choose<CruxIntensity, 2>(map, "crux_intensity", scenario_.crux_intensity, {"intensity", "busy"},
                             {CruxIntensity::kBusiest, CruxIntensity::kTotal});
    choose<PipelineSchedule, 2>(
        map, "pipeline", scenario_.pipeline, {"gpipe", "1f1b"},
        {PipelineSchedule::kGpipe, PipelineSchedule::kOneForwardOneBackward});
    if (const YamlValue* at = map.find("threshold")) {
      if (const std::optional<int> bound = at->integer32(0, kMaxThreshold)) {
        scenario_.threshold = *bound;
      }
    }
    if (const YamlValue* at = map.find("freeze_unfragmented")) {
      read_into(scenario_.freeze_unfragmented, at->boolean());
    }
  }

  void read_migration(const YamlValue* at) {
    if (at == nullptr) return;
    const YamlMap map = at->map({"pause_us", "state", "state_scale"});
    if (const YamlValue* pause = map.find("pause_us")) {
      read_into(scenario_.pause_us, pause->integer(0, kMaxPause_us));
    }
    choose<StateRule, 2>(map, "state", scenario_.state, {"shard", "paper"},
                         {StateRule::kShard, StateRule::kPaper});
    if (const YamlValue* scale = map.find("state_scale")) {
      read_into(scenario_.state_scale, scale->number(0, kMaxStateScale));
    }
  }

  void read_workload_source(const YamlValue& root, const YamlValue* at) {
    constexpr const char* kExpected = "{trace: FILE} or {generate: {...}}";
    out_.generate.seed = scenario_.seed;
    out_.generate.cluster_gpus = scenario_.fabric.gpus;
    if (at == nullptr) {
      if (!overrides_.trace && root.is_map()) {
        root.error(fmt::format("no workload, expected workload: {}", kExpected));
      }
    } else {
      const YamlMap map = at->map({"trace", "generate"});
      const YamlValue* trace = map.find("trace");
      const YamlValue* generate = map.find("generate");
      if (at->is_map() && (trace == nullptr) == (generate == nullptr)) {
        at->error(fmt::format("{}, expected {}", trace != nullptr ? "both" : "neither", kExpected));
      }
      if (trace != nullptr) out_.trace = named_file(*trace);
      if (generate != nullptr) read_generate(*generate);
    }
    if (overrides_.trace) out_.trace = NamedFile{*overrides_.trace, 0, ""};
  }

  void read_generate(const YamlValue& at) {
    GenerateOptions& options = out_.generate;
    out_.generate_place = {"", at.line(), at.path()};
    const YamlMap map = at.map({"load", "jobs", "iterations", "mix", "mean"});
    if (const YamlValue* load = map.find("load")) {
      read_into(options.load, load->number(0.001, 1000));
    }
    if (const YamlValue* jobs = map.find("jobs")) {
      read_into(options.jobs, jobs->integer(0, kMaxJobs));
    }
    if (const YamlValue* iterations = map.find("iterations")) read_iterations(*iterations);
    if (const YamlValue* mix = map.find("mix")) read_mix(*mix);
    choose<bool, 2>(map, "mean", out_.mean_without_bubbles, {"ideal", "no-bubble"}, {false, true});
  }

  void read_iterations(const YamlValue& at) {
    const std::optional<std::vector<YamlValue>> list = at.list();
    if (!list) return;
    if (list->size() != 2) {
      at.error(fmt::format("expected the least and the most, such as [100, 1000], found {} values",
                           list->size()));
      return;
    }
    const std::optional<int64_t> least = (*list)[0].integer(1, kMaxIterations);
    const std::optional<int64_t> most = (*list)[1].integer(1, kMaxIterations);
    if (!least || !most) return;
    if (*least > *most) {
      at.error(fmt::format("from {} to {}, expected the least first", *least, *most));
      return;
    }
    out_.generate.min_iterations = *least;
    out_.generate.max_iterations = *most;
  }

  /// `default`, or weights by model.
  void read_mix(const YamlValue& at) {
    if (at.is("default")) return;
    if (!at.is_map()) return at.error_expected("default or {MODEL: WEIGHT, ...}");
    const YamlMap map = at.map();
    for (const YamlMap::Field& field : map.fields()) {
      const std::optional<int> weight = field.value.integer32(0, kMaxWeight);
      if (weight) out_.generate.mix.emplace_back(field.key, *weight);
    }
  }

  const ScenarioOverrides& overrides_;
  ScenarioFile out_;
  Scenario& scenario_ = out_.scenario;
  bool sound_ = true;  ///< of the fabric: every size by itself
};

/// Text of a file that the scenario names; nullopt after an error.
std::optional<std::string> text_of(const ScenarioFile& scenario, const NamedFile& named,
                                   const FileReader& read, Diagnostics& diagnostics) {
  absl::StatusOr<std::string> text = read(named.name);
  if (text.ok()) return *std::move(text);
  const std::string reason(text.status().message());
  if (named.line == 0) {
    diagnostics.error(printable(named.name), 0, "", reason);
  } else {
    diagnostics.error(scenario.file, named.line, named.path,
                      fmt::format("{}: {}", printable(named.name), reason));
  }
  return std::nullopt;
}

/// Time that a pipeline's stages wait for the first and the last microbatch.
int64_t bubble_us(const Model& model) {
  int64_t sum = 0;
  for (const Phase& phase : model.phases) {
    const auto* pipeline = std::get_if<Pipeline>(&phase);
    if (pipeline == nullptr) continue;
    sum += int64_t{pipeline->stages - 1} * (pipeline->forward_us + pipeline->backward_us);
  }
  return sum;
}

}  // namespace

std::optional<ScenarioFile> parse_scenario(std::string_view text, std::string_view file,
                                           const ScenarioOverrides& overrides,
                                           Diagnostics& diagnostics) {
  const size_t before = diagnostics.error_count();
  const std::optional<YamlValue> root = parse_yaml(text, file, diagnostics);
  if (!root) return std::nullopt;
  ScenarioFile scenario = ScenarioReader(file, overrides).read(*root);
  if (diagnostics.error_count() > before) return std::nullopt;
  return scenario;
}

std::optional<Workload> read_workload(const ScenarioFile& scenario, const FileReader& read,
                                      Diagnostics& diagnostics) {
  Workload workload;
  workload.catalogue = Catalogue::standard();
  if (scenario.models) {
    const std::optional<std::string> text = text_of(scenario, *scenario.models, read, diagnostics);
    if (!text) return std::nullopt;
    const std::optional<Catalogue> models =
        Catalogue::parse(*text, printable(scenario.models->name), diagnostics);
    if (!models) return std::nullopt;
    workload.catalogue.add(*models);
  }
  if (scenario.trace) {
    const std::optional<std::string> text = text_of(scenario, *scenario.trace, read, diagnostics);
    if (!text) return std::nullopt;
    std::optional<Trace> trace =
        parse_trace(*text, printable(scenario.trace->name), workload.catalogue,
                    scenario.scenario.fabric.gpus, diagnostics);
    if (!trace) return std::nullopt;
    workload.trace = *std::move(trace);
    return workload;
  }
  const std::string fault = generate_fault(workload.catalogue, scenario.generate);
  if (!fault.empty()) {
    diagnostics.error(scenario.file, scenario.generate_place.line, scenario.generate_place.path,
                      fault);
    return std::nullopt;
  }
  workload.trace = generate_for(scenario.scenario, workload.catalogue, scenario.generate,
                                scenario.mean_without_bubbles);
  return workload;
}

Trace generate_for(const Scenario& scenario, const Catalogue& catalogue,
                   const GenerateOptions& options, bool mean_without_bubbles) {
  return generate_trace(catalogue, options, [&](const Model& model, int gpus) {
    const int64_t ideal = ideal_iteration(scenario, model, gpus);
    return mean_without_bubbles ? std::max<int64_t>(0, ideal - bubble_us(model)) : ideal;
  });
}

}  // namespace monkeytree
