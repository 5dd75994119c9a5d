#include "study/study.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "base/json.h"
#include "base/sha256.h"
#include "study/measure.h"

namespace monkeytree {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr size_t kMostKeyBytes = 150;
/// Results that were kept by a program with other rules are not used again.
constexpr std::string_view kRules = "study rules 1";

std::string number_text(double value) {
  return std::isfinite(value) ? fmt::format("{}", value) : "null";
}

double number_of(const JsonValue& value) {
  return value.is_null() ? kNaN : value.number().value_or(kNaN);
}

const StudyAxis* find(const std::vector<StudyAxis>& axes, std::string_view name) {
  const auto at =
      std::find_if(axes.begin(), axes.end(), [&](const StudyAxis& it) { return it.name == name; });
  return at == axes.end() ? nullptr : &*at;
}

void set_default(Settings& settings, const char* path, const std::string& value) {
  settings.try_emplace(path, value);
}

/// The paper's cluster and workload, where the study does not say otherwise.
void add_defaults(Settings& base, const StudySize& size) {
  set_default(base, "fabric.gpus", "1024");
  set_default(base, "fabric.gpus_per_rack", "64");
  set_default(base, "fabric.spines", "16");
  set_default(base, "system", "monkeytree");
  set_default(base, "workload.generate.load", "1.0");
  set_default(base, "workload.generate.iterations", size.iterations);
  set_default(base, "workload.generate.jobs", std::to_string(size.jobs));
}

/// Runs that take longer than others under the same load.
double expected_cost(const StudyCell& cell) {
  const auto setting = [&](const char* path, double otherwise) {
    const auto at = cell.settings().find(path);
    double value = otherwise;
    if (at != cell.settings().end()) {
      const std::string& text = at->second.text;
      std::from_chars(text.data(), text.data() + text.size(), value);
    }
    return value;
  };
  const auto at = cell.settings().find("system");
  const std::string system = at == cell.settings().end() ? "" : at->second.text;
  const double flows = system.ends_with("sglb") ? 20 : system.ends_with("ecmp") ? 8 : 2;
  return flows * setting("workload.generate.load", 1) * setting("workload.generate.jobs", 1) *
         std::max(1.0, setting("fabric.gpus", 1024));
}

}  // namespace

const std::string& StudyCell::text(std::string_view axis) const {
  static const std::string kNothing;
  const auto at =
      std::find_if(at_.begin(), at_.end(), [&](const auto& it) { return it.first == axis; });
  return at == at_.end() ? kNothing : at->second;
}

double StudyCell::number(std::string_view axis) const {
  const std::string& value = text(axis);
  double number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  return error == std::errc() && end == value.data() + value.size() ? number : kNaN;
}

uint64_t StudyCell::seed() const {
  const double seed = number(kSeedAxis);
  return seed >= 0 ? static_cast<uint64_t>(seed) : 0;
}

std::string StudyCell::key() const {
  std::string exact;
  for (const auto& [axis, value] : at_) {
    exact += fmt::format("{}{}={}", exact.empty() ? "" : "-", axis, value);
  }
  std::string key = exact;
  for (char& c : key) {
    const bool good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                      std::string_view("._=+-").find(c) != std::string_view::npos;
    if (!good) c = '+';
  }
  if (key.empty()) return "all";
  if (key.size() > kMostKeyBytes) key.resize(kMostKeyBytes);
  if (key != exact || key[0] == '.') key = "cell-" + key + "-" + sha256(exact).substr(0, 12);
  return key;
}

double Measurements::value(std::string_view name) const {
  for (const auto& [key, value] : values) {
    if (key == name) return value;
  }
  return kNaN;
}

const std::vector<double>& Measurements::list(std::string_view name) const {
  static const std::vector<double> kNone;
  for (const auto& [key, numbers] : lists) {
    if (key == name) return numbers;
  }
  return kNone;
}

std::string to_json(const Measurements& measurements) {
  std::string out = "{\"values\": {";
  std::string comma;
  for (const auto& [name, value] : measurements.values) {
    out += fmt::format("{}{}: {}", comma, quote(name), number_text(value));
    comma = ", ";
  }
  out += "}, \"lists\": {";
  comma.clear();
  for (const auto& [name, values] : measurements.lists) {
    out += fmt::format("{}{}: [", comma, quote(name));
    for (size_t i = 0; i < values.size(); ++i) {
      out += (i > 0 ? ", " : "") + number_text(values[i]);
    }
    out += "]";
    comma = ", ";
  }
  return out + "}}";
}

absl::StatusOr<Measurements> measurements_of(std::string_view json) {
  Diagnostics diagnostics;
  Measurements out;
  if (const auto document = JsonDocument::parse(json, "result", diagnostics)) {
    if (std::optional<JsonObject> root = document->root().object()) {
      const std::optional<JsonValue> values = root->require("values");
      const std::optional<JsonValue> lists = root->require("lists");
      if (values && lists) {
        if (const auto object = values->object()) {
          for (const JsonObject::Field& field : object->fields()) {
            out.values.emplace_back(field.key, number_of(field.value));
          }
        }
        if (const auto object = lists->object()) {
          for (const JsonObject::Field& field : object->fields()) {
            std::vector<double> list;
            for (const JsonValue& value : field.value.array().value_or(std::vector<JsonValue>())) {
              list.push_back(number_of(value));
            }
            out.lists.emplace_back(field.key, std::move(list));
          }
        }
      }
    }
  }
  if (diagnostics.has_errors()) return absl::InvalidArgumentError(diagnostics.text());
  return out;
}

StudyPlan plan_study(Study study, const StudyChoice& choice) {
  StudyPlan plan;
  plan.choice = choice;
  plan.size = choice.quick ? study.quick_size : study.size;
  if (choice.jobs > 0) plan.size.jobs = choice.jobs;
  if (choice.seeds > 0) plan.size.seeds = choice.seeds;
  for (const StudyAxis& axis : study.axes) {
    const StudyAxis* quick = choice.quick ? find(study.quick, axis.name) : nullptr;
    plan.axes.push_back(quick != nullptr ? *quick : axis);
  }
  if (study.seeded && find(plan.axes, kSeedAxis) == nullptr) {
    StudyAxis seeds{std::string(kSeedAxis), {}};
    const auto own = study.base.find("seed");
    if (study.from_file() && choice.seeds == 0 && own != study.base.end()) {
      seeds.values.push_back(own->second.text);
    } else {
      for (int s = 1; s <= plan.size.seeds; ++s) seeds.values.push_back(std::to_string(s));
    }
    plan.axes.push_back(std::move(seeds));
  }
  Settings base = study.base;
  if (!study.from_file()) {
    add_defaults(base, plan.size);
  } else if (choice.jobs > 0) {
    set_axis(base, "jobs", std::to_string(choice.jobs));
  }
  std::vector<StudyCell> cells = {StudyCell({}, std::move(base))};
  for (const StudyAxis& axis : plan.axes) {
    std::vector<StudyCell> next;
    for (const StudyCell& cell : cells) {
      for (const std::string& value : axis.values) {
        auto at = cell.at();
        at.emplace_back(axis.name, value);
        Settings settings = cell.settings();
        set_axis(settings, axis.name, value);
        next.emplace_back(std::move(at), std::move(settings));
      }
    }
    cells = std::move(next);
  }
  plan.cells = std::move(cells);
  plan.study = std::move(study);
  return plan;
}

std::vector<GridCell> grid_of(const StudyPlan& plan, const FileReader& read) {
  const Measure measure = plan.study.measure ? plan.study.measure : simulated_run(read);
  std::vector<GridCell> grid;
  for (const StudyCell& cell : plan.cells) {
    std::string definition =
        fmt::format("{}\n{}\n{}{}", kRules, plan.study.name, scenario_text(cell.settings()),
                    files_definition(cell.settings(), read));
    grid.push_back(
        {.key = cell.key(),
         .definition = std::move(definition),
         .cost = expected_cost(cell),
         .run = [measure, cell](const StopPredicate& stop) -> absl::StatusOr<std::string> {
           absl::StatusOr<Measurements> found = measure(cell, stop);
           if (!found.ok()) return found.status();
           return to_json(*found);
         }});
  }
  return grid;
}

}  // namespace monkeytree
