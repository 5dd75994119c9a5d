#include "study/study_yaml.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>

#include "base/file.h"
#include "base/json.h"
#include "study/study_report.h"

namespace monkeytree {
namespace {

constexpr size_t kMostNameBytes = 60;
constexpr size_t kMostValues = 1000;
constexpr size_t kMostCells = 100'000;

bool is_name(std::string_view name) {
  return !name.empty() && name.size() <= kMostNameBytes && name[0] != '-' && name[0] != '.' &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '-' || c == '_' || c == '.';
         });
}

std::optional<double> number_of(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// Charts for axes that nobody knew before: along the first axis of numbers, else bars.
void draw_any(const StudyResults& results, StudyReport& report) {
  std::vector<std::string> names;
  for (const StudyAxis& axis : results.plan().axes) {
    if (axis.name != kSeedAxis) names.push_back(axis.name);
  }
  const auto numbers = [&](const std::string& name) {
    const std::vector<StudyCell>& cells = results.plan().cells;
    return results.axis(name)->values.size() > 1 &&
           std::all_of(cells.begin(), cells.end(), [&](const StudyCell& cell) {
             return cell.number(name) == cell.number(name);
           });
  };
  const auto along = std::find_if(names.begin(), names.end(), numbers);
  Drawing drawing;
  drawing.x = along != names.end() ? *along : names.empty() ? "" : names.front();
  for (const std::string& name : names) {
    if (name != drawing.x && drawing.series.empty()) drawing.series = name;
  }
  if (names.size() > 2) drawing.caption = "Averaged over the other axes.";
  for (const char* metric : {"slowdown_avg", "slowdown_p99", "gpu_hours_lost"}) {
    drawing.metric = metric;
    drawing.title = metric_of(metric).label;
    report.add(along != names.end() ? lines(results, drawing) : bars(results, drawing));
  }
}

class StudyReader {
 public:
  StudyReader(std::string_view file, const FileReader& read, Diagnostics& diagnostics)
      : file_(file), read_(read), diagnostics_(diagnostics) {}

  std::optional<Study> read(const YamlValue& root) {
    const size_t before = diagnostics_.error_count();
    const YamlMap map = root.map({"name", "title", "base", "axes"});
    if (!root.is_map()) return std::nullopt;
    study_.file = file_;
    study_.size.seeds = study_.quick_size.seeds = 1;
    read_name(root, map);
    if (const YamlValue* base = map.find("base")) {
      study_.base = settings_of(*base);
    } else {
      root.error("no base, expected a scenario that the axes change");
    }
    if (const YamlValue* axes = map.find("axes")) {
      read_axes(*axes);
    } else {
      root.error("no axes, expected what to vary, such as {system: [ecmp, monkeytree]}");
    }
    if (diagnostics_.error_count() > before) return std::nullopt;
    find_files();
    study_.metrics = {"slowdown_avg",   "slowdown_p90",    "slowdown_p99",
                      "gpu_hours_lost", "gpu_hours_saved", "moves"};
    study_.draw = draw_any;
    check_scenarios();
    if (diagnostics_.error_count() > before) return std::nullopt;
    return std::move(study_);
  }

 private:
  void read_name(const YamlValue& root, const YamlMap& map) {
    const YamlValue* name = map.find("name");
    if (name == nullptr) {
      root.error("no name, expected one for the files of results");
      return;
    }
    study_.name = name->nonempty_string().value_or("");
    if (!study_.name.empty() && !is_name(study_.name)) {
      name->error(
          fmt::format("expected at most {} letters, digits, \"-\", \"_\" or \".\", found {}",
                      kMostNameBytes, quote(study_.name)));
    }
    study_.title = "Study " + study_.name;
    if (const YamlValue* title = map.find("title")) {
      study_.title = title->nonempty_string().value_or("");
    }
    study_.question = "A study of your own: every value of each axis with every one of the others.";
  }

  /// A value and the number that it is, so that 0.5 and 0.50 are one.
  std::optional<std::string> read_value(const YamlValue& at, StudyAxis& axis) {
    if (at.is_map()) {
      at.error_expected("a value");
      return std::nullopt;
    }
    std::optional<std::string> text = at.is_list() ? flow_text(at) : at.nonempty_string();
    if (!text) return std::nullopt;
    const auto same =
        std::find_if(axis.values.begin(), axis.values.end(), [&](const std::string& other) {
          const std::optional<double> a = number_of(*text), b = number_of(other);
          return other == *text || (a && b && *a == *b);
        });
    if (same == axis.values.end()) return text;
    at.error(*same == *text ? fmt::format("{} stands here twice", quote(*text))
                            : fmt::format("{} is the same number as {}, which stands here already",
                                          quote(*text), quote(*same)));
    return std::nullopt;
  }

  /// What an axis sets no other one may.
  void check_path(const YamlMap::Field& field) {
    const std::string path = axis_path(field.key);
    for (const StudyAxis& other : study_.axes) {
      const std::string its = axis_path(other.name);
      if (path == its || path.starts_with(its + ".") || its.starts_with(path + ".")) {
        field.value.error(fmt::format("sets {}, which the axis {} sets too; expected one of them",
                                      path.size() < its.size() ? its : path, quote(other.name)));
        return;
      }
    }
  }

  void read_axes(const YamlValue& at) {
    const YamlMap map = at.map();
    size_t cells = 1;
    for (const YamlMap::Field& field : map.fields()) {
      StudyAxis axis{field.key, {}};
      const std::optional<std::vector<YamlValue>> values = field.value.list();
      if (!values) continue;
      if (values->empty() || values->size() > kMostValues) {
        field.value.error(fmt::format("{} values, expected 1 to {}", values->size(), kMostValues));
        continue;
      }
      for (const YamlValue& value : *values) {
        if (std::optional<std::string> text = read_value(value, axis)) {
          axis.values.push_back(*std::move(text));
        }
      }
      check_path(field);
      lines_[axis.name] = field.value.line();
      cells = std::min(cells * values->size(), 10 * kMostCells);
      study_.axes.push_back(std::move(axis));
    }
    if (cells > kMostCells) {
      at.error(fmt::format("more than {} cells, expected fewer values or axes", kMostCells));
    }
    // Seeds last, so that those of one point stand together.
    std::stable_partition(study_.axes.begin(), study_.axes.end(),
                          [](const StudyAxis& axis) { return axis.name != kSeedAxis; });
  }

  /// Files that the base names lie beside the study's.
  void find_files() {
    const auto beside = [&](const std::string& name) {
      return name.starts_with('/') ? name : folder_of(file_) + name;
    };
    for (const char* path : {"workload.trace", "models"}) {
      const auto at = study_.base.find(path);
      if (at != study_.base.end()) {
        Diagnostics ignored;
        const std::optional<YamlValue> name = parse_yaml(at->second.text, file_, ignored);
        if (name && name->is_scalar()) {
          at->second.text = setting_text(beside(name->nonempty_string().value_or("")));
        }
      }
      for (StudyAxis& axis : study_.axes) {
        if (axis_path(axis.name) != path) continue;
        for (std::string& value : axis.values) value = beside(value);
      }
    }
  }

  /// Each value of each axis with the first values of the others: enough to find what no scenario
  /// can have, without a look at every cell.
  void check_scenarios() {
    Settings first = study_.base;
    for (const StudyAxis& axis : study_.axes) {
      set_axis(first, axis.name, axis.values.front(), lines_[axis.name]);
    }
    std::set<std::string> told;
    const auto check = [&](const Settings& settings) {
      Diagnostics found;
      if (read_settings(settings, file_, read_, found)) return;
      for (const Finding& finding : found.findings()) {
        if (told.insert(finding.text()).second) diagnostics_.add(finding);
      }
    };
    check(first);
    for (const StudyAxis& axis : study_.axes) {
      for (size_t i = 1; i < axis.values.size(); ++i) {
        Settings settings = first;
        set_axis(settings, axis.name, axis.values[i], lines_[axis.name]);
        check(settings);
      }
    }
  }

  std::string_view file_;
  const FileReader& read_;
  Diagnostics& diagnostics_;
  Study study_;
  std::map<std::string, int> lines_;  ///< of the axes
};

}  // namespace

std::optional<Study> parse_study(std::string_view text, std::string_view file,
                                 const FileReader& read, Diagnostics& diagnostics) {
  const std::optional<YamlValue> root = parse_yaml(text, file, diagnostics);
  if (!root) return std::nullopt;
  return StudyReader(file, read, diagnostics).read(*root);
}

}  // namespace monkeytree
