#include "workload/catalogue.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cassert>
#include <map>
#include <set>
#include <utility>

#include "base/json.h"
#include "workload/catalogue_text.h"
#include "workload/number.h"

namespace monkeytree {
namespace {

constexpr size_t kMaxBytes = size_t{4} << 20;
constexpr int64_t kMaxGpus = int64_t{1} << 20;
constexpr int64_t kMaxDegree = 65536;
constexpr size_t kMaxPhases = 20'000;
constexpr size_t kMaxSizes = 1000;
constexpr int kMaxDepth = 8;
/// Of one iteration: 11 days of computing, a petabyte. Far from where sums could overflow.
constexpr int64_t kMaxUs = 1'000'000'000'000;
constexpr int64_t kMaxData = 1'000'000'000'000'000;

int line_of(const YAML::Node& node) { return node.Mark().line + 1; }

bool good_name(std::string_view name) {
  return !name.empty() && name.size() <= 100 && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
  });
}

/// The fields of a map. What is missing or wrong is reported once, and read as the low bound.
class Fields {
 public:
  Fields(std::string what, int line, std::string_view file, Diagnostics& diagnostics)
      : what_(std::move(what)), line_(line), file_(file), diagnostics_(diagnostics) {}

  /// Takes the fields; false where the node is no map.
  bool read(const YAML::Node& node, std::initializer_list<std::string_view> known) {
    if (!node.IsMap()) {
      error(line_, fmt::format("expected {}", expected(known)));
      return false;
    }
    for (const auto& item : node) {
      const int line = line_of(item.first);
      const std::string key = item.first.IsScalar() ? item.first.Scalar() : "";
      if (std::find(known.begin(), known.end(), key) == known.end()) {
        error(line, fmt::format("unknown key {}, expected {}", quote(key), expected(known)));
      } else if (!values_.emplace(key, item.second).second) {
        error(line, fmt::format("the key {} stands there twice", quote(key)));
      }
    }
    return true;
  }

  const YAML::Node* find(const std::string& key) const {
    const auto found = values_.find(key);
    return found == values_.end() ? nullptr : &found->second;
  }

  const YAML::Node* require(const std::string& key) {
    const YAML::Node* node = find(key);
    if (node == nullptr) error(line_, fmt::format("`{}` is missing", key));
    return node;
  }

  int64_t number(const YAML::Node& node, std::string_view key, int64_t low, int64_t high) {
    const std::string text = node.IsScalar() ? node.Scalar() : "";
    const std::optional<int64_t> value = whole_number(text);
    if (value && *value >= low && *value <= high) return *value;
    error(line_of(node), fmt::format("{}: expected a whole number from {} to {}{}", key, low, high,
                                     text.empty() ? "" : ", found " + quote(text)));
    return low;
  }
  int64_t number(const std::string& key, int64_t low, int64_t high) {
    const YAML::Node* node = require(key);
    return node == nullptr ? low : number(*node, key, low, high);
  }
  int degree(const std::string& key) { return static_cast<int>(number(key, 1, kMaxDegree)); }

  void error(int line, const std::string& message) {
    diagnostics_.error(file_, line, "", what_.empty() ? message : what_ + ": " + message);
  }

 private:
  static std::string expected(std::initializer_list<std::string_view> known) {
    std::string out = known.size() == 1 ? "" : "one of ";
    for (std::string_view key : known) {
      if (key != *known.begin()) out += ", ";
      out += key;
    }
    return out;
  }

  std::string what_;
  int line_;
  std::string_view file_;
  Diagnostics& diagnostics_;
  std::map<std::string, YAML::Node> values_;
};

/// Bytes and time of a phase, so large at most that sums of them do not overflow.
struct Extent {
  double us = 0, bytes = 0;
};

Extent extent(const Phase& phase) {
  if (const auto* p = std::get_if<Compute>(&phase)) return {static_cast<double>(p->us), 0};
  if (const auto* p = std::get_if<AllReduce>(&phase)) return {0, static_cast<double>(p->bytes)};
  if (const auto* p = std::get_if<StridedRing>(&phase)) return {0, static_cast<double>(p->bytes)};
  if (const auto* p = std::get_if<AllToAllRing>(&phase)) return {0, static_cast<double>(p->bytes)};
  const Pipeline& p = std::get<Pipeline>(phase);
  const double microbatches = p.microbatches;
  return {microbatches * (static_cast<double>(p.forward_us) + static_cast<double>(p.backward_us)),
          microbatches * 2 * static_cast<double>(p.activation_bytes) +
              static_cast<double>(p.shard_bytes)};
}

class CatalogueReader {
 public:
  CatalogueReader(std::string_view file, Diagnostics& diagnostics)
      : file_(file), diagnostics_(diagnostics), errors_before_(diagnostics.error_count()) {}

  std::vector<Model> read(const std::string& text) {
    std::vector<Model> models;
    const YAML::Node root = YAML::Load(text);
    Fields fields("", 1, file_, diagnostics_);
    if (!fields.read(root, {"models"})) return models;
    const YAML::Node* list = fields.require("models");
    if (list == nullptr) return models;
    if (!list->IsSequence()) {
      error(line_of(*list), "models: expected a list of models");
      return models;
    }
    for (const YAML::Node& node : *list) {
      Model model = read_model(node);
      if (!model.name.empty() && !names_.insert(model.name).second) {
        error(line_of(node), fmt::format("the model {} stands there twice", quote(model.name)));
      }
      models.push_back(std::move(model));
    }
    return models;
  }

 private:
  void error(int line, std::string message) {
    diagnostics_.error(file_, line, "", std::move(message));
  }

  /// No more errors are kept. Aliases could repeat a fault without end.
  bool hopeless() const {
    return diagnostics_.error_count() >= errors_before_ + Diagnostics::kMaxErrors;
  }

  Model read_model(const YAML::Node& node) {
    Model model;
    const int line = line_of(node);
    if (node.IsMap() && node["name"] && node["name"].IsScalar()) {
      model.name = node["name"].Scalar();
      if (!good_name(model.name)) {
        error(line_of(node["name"]),
              fmt::format("name {}, expected up to 100 letters, digits, '_', '-' and '.'",
                          quote(model.name)));
        model.name.clear();
      }
    }
    Fields fields(model.name.empty() ? "model" : model.name, line, file_, diagnostics_);
    if (!fields.read(node, {"name", "gpus", "weight", "sharded", "phases"})) return model;
    fields.require("name");
    if (fields.find("weight") != nullptr) {
      model.weight = static_cast<int>(fields.number("weight", 0, 1'000'000));
    }
    if (const YAML::Node* sharded = fields.find("sharded")) {
      if (!YAML::convert<bool>::decode(*sharded, model.sharded)) {
        fields.error(line_of(*sharded), "sharded: expected true or false");
      }
    }
    const size_t errors = diagnostics_.error_count();
    if (const YAML::Node* phases = fields.require("phases")) {
      read_phases(*phases, fields, 0, model.phases);
    }
    const bool sound = diagnostics_.error_count() == errors && check_extent(model, fields, line);
    if (const YAML::Node* gpus = fields.require("gpus")) read_sizes(*gpus, fields, sound, model);
    return model;
  }

  void read_sizes(const YAML::Node& node, Fields& fields, bool sound, Model& model) {
    if (!node.IsSequence() || node.size() == 0) {
      fields.error(line_of(node), "gpus: expected a list of job sizes, such as [16, 32]");
      return;
    }
    for (const YAML::Node& item : node) {
      const size_t errors = diagnostics_.error_count();
      const int gpus = static_cast<int>(fields.number(item, "gpus", 1, kMaxGpus));
      if (diagnostics_.error_count() > errors) continue;
      if (std::find(model.gpus.begin(), model.gpus.end(), gpus) != model.gpus.end()) {
        fields.error(line_of(item), fmt::format("gpus: {} stands there twice", gpus));
      }
      const std::string reason = sound ? misfit(model, gpus) : "";
      if (!reason.empty()) {
        fields.error(line_of(item), fmt::format("cannot run on {} GPUs: {}", gpus, reason));
      }
      model.gpus.push_back(gpus);
      if (model.gpus.size() > kMaxSizes) {
        fields.error(line_of(item), fmt::format("gpus: more than {} sizes", kMaxSizes));
        return;
      }
    }
  }

  bool check_extent(const Model& model, Fields& fields, int line) {
    Extent sum;
    for (const Phase& phase : model.phases) {
      const Extent part = extent(phase);
      sum.us += part.us;
      sum.bytes += part.bytes;
    }
    if (sum.us > static_cast<double>(kMaxUs)) {
      fields.error(line, fmt::format("computes for more than {} µs in an iteration", kMaxUs));
      return false;
    }
    if (sum.bytes > static_cast<double>(kMaxData)) {
      fields.error(line, fmt::format("sends more than {} bytes in an iteration", kMaxData));
      return false;
    }
    return true;
  }

  void read_phases(const YAML::Node& node, Fields& fields, int depth, std::vector<Phase>& phases) {
    if (!node.IsSequence() || node.size() == 0) {
      fields.error(line_of(node), "phases: expected a list, such as [{compute: {us: 1000}}]");
      return;
    }
    if (depth > kMaxDepth) {
      fields.error(line_of(node), fmt::format("repeats more than {} deep", kMaxDepth));
      return;
    }
    for (const YAML::Node& item : node) {
      if (phases.size() > kMaxPhases || hopeless()) return;  // has been reported
      if (item.IsMap() && item["repeat"]) {
        read_repeat(item, fields, depth, phases);
      } else {
        read_phase(item, fields, phases);
      }
      if (phases.size() > kMaxPhases) {
        fields.error(line_of(item), fmt::format("more than {} phases", kMaxPhases));
      }
    }
  }

  void read_repeat(const YAML::Node& item, Fields& fields, int depth, std::vector<Phase>& phases) {
    Fields repeat("repeat", line_of(item), file_, diagnostics_);
    if (!repeat.read(item, {"repeat", "phases"})) return;
    const int64_t times = repeat.number("repeat", 1, static_cast<int64_t>(kMaxPhases));
    const YAML::Node* body = repeat.require("phases");
    if (body == nullptr) return;
    std::vector<Phase> once;
    read_phases(*body, fields, depth + 1, once);
    for (int64_t i = 0; i < times && phases.size() <= kMaxPhases; ++i) {
      phases.insert(phases.end(), once.begin(), once.end());
    }
  }

  void read_phase(const YAML::Node& item, Fields& fields, std::vector<Phase>& phases) {
    constexpr std::string_view kKinds =
        "compute, all_reduce, strided_ring, all_to_all_ring, pipeline or repeat";
    if (!item.IsMap() || item.size() != 1 || !item.begin()->first.IsScalar()) {
      fields.error(line_of(item), fmt::format("a phase: expected one of {}", kKinds));
      return;
    }
    const std::string kind = item.begin()->first.Scalar();
    const YAML::Node body = item.begin()->second;
    Fields of(kind, line_of(item), file_, diagnostics_);
    if (kind == "compute") {
      if (of.read(body, {"us"})) phases.push_back(Compute{of.number("us", 0, kMaxUs)});
    } else if (kind == "all_reduce") {
      if (of.read(body, {"bytes"})) phases.push_back(AllReduce{of.number("bytes", 0, kMaxData)});
    } else if (kind == "strided_ring") {
      if (!of.read(body, {"bytes", "stride"})) return;
      phases.push_back(StridedRing{of.number("bytes", 0, kMaxData), of.degree("stride")});
    } else if (kind == "all_to_all_ring") {
      if (of.read(body, {"bytes"})) phases.push_back(AllToAllRing{of.number("bytes", 0, kMaxData)});
    } else if (kind == "pipeline") {
      if (!of.read(body, {"stages", "tensor", "microbatches", "forward_us", "backward_us",
                          "activation_bytes", "shard_bytes"})) {
        return;
      }
      phases.push_back(Pipeline{
          of.degree("stages"), of.degree("tensor"), of.degree("microbatches"),
          of.number("forward_us", 0, kMaxUs), of.number("backward_us", 0, kMaxUs),
          of.number("activation_bytes", 0, kMaxData), of.number("shard_bytes", 0, kMaxData)});
    } else {
      fields.error(line_of(item),
                   fmt::format("unknown phase {}, expected {}", quote(kind), kKinds));
    }
  }

  std::string_view file_;
  Diagnostics& diagnostics_;
  size_t errors_before_;
  std::set<std::string> names_;
};

}  // namespace

const Catalogue& Catalogue::standard() {
  static const Catalogue catalogue = [] {
    Diagnostics diagnostics;
    std::optional<Catalogue> parsed = parse(kStandardCatalogue, "catalogue.yaml", diagnostics);
    assert(parsed);
    return std::move(*parsed);
  }();
  return catalogue;
}

std::optional<Catalogue> Catalogue::parse(std::string_view text, std::string_view file,
                                          Diagnostics& diagnostics) {
  if (text.size() > kMaxBytes) {
    diagnostics.error(file, 0, "", fmt::format("expected at most {} MiB", kMaxBytes >> 20));
    return std::nullopt;
  }
  const size_t before = diagnostics.error_count();
  Catalogue catalogue;
  try {
    catalogue.models_ = CatalogueReader(file, diagnostics).read(std::string(text));
  } catch (const YAML::Exception& fault) {
    const int line = fault.mark.is_null() ? 0 : fault.mark.line + 1;
    diagnostics.error(file, line, "", fmt::format("not YAML: {}", printable(fault.msg)));
  } catch (const std::exception& fault) {
    diagnostics.error(file, 0, "", fmt::format("not YAML: {}", printable(fault.what())));
  }
  if (diagnostics.error_count() > before) return std::nullopt;
  return catalogue;
}

void Catalogue::add(const Catalogue& other) {
  for (const Model& model : other.models_) {
    const auto ours = std::find_if(models_.begin(), models_.end(),
                                   [&](const Model& m) { return m.name == model.name; });
    if (ours == models_.end()) {
      models_.push_back(model);
    } else {
      *ours = model;
    }
  }
}

const Model* Catalogue::find(std::string_view name) const {
  for (const Model& model : models_) {
    if (model.name == name) return &model;
  }
  return nullptr;
}

}  // namespace monkeytree
