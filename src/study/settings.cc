#include "study/settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>
#include <vector>

#include "base/json.h"

namespace monkeytree {
namespace {

/// Its keys are names of models, which may hold a point: one setting.
constexpr std::string_view kMix = "workload.generate.mix";
/// For findings; no file that a scenario names is called so.
constexpr std::string_view kSettings = "(settings)";

struct ShortName {
  std::string_view axis, path;
};
constexpr std::array kShortNames = {
    ShortName{"gpus", "fabric.gpus"},
    ShortName{"gpus_per_node", "fabric.gpus_per_node"},
    ShortName{"gpus_per_rack", "fabric.gpus_per_rack"},
    ShortName{"spines", "fabric.spines"},
    ShortName{"link_gbps", "fabric.link_gbps"},
    ShortName{"nvlink", "fabric.nvlink"},
    ShortName{"load", "workload.generate.load"},
    ShortName{"jobs", "workload.generate.jobs"},
    ShortName{"iterations", "workload.generate.iterations"},
    ShortName{"mix", "workload.generate.mix"},
    ShortName{"trace", "workload.trace"},
    ShortName{"pause_us", "migration.pause_us"},
    ShortName{"pause_s", "migration.pause_us"},
    ShortName{"state", "migration.state"},
    ShortName{"state_scale", "migration.state_scale"},
    ShortName{"model", kMix},
};

bool is_plain(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("._/+-").find(c) != std::string_view::npos;
  });
}

/// "[2, 20]": plain values between commas.
bool is_plain_list(std::string_view text) {
  if (text.size() < 2 || text.front() != '[' || text.back() != ']') return false;
  std::string inside(text.substr(1, text.size() - 2));
  std::erase_if(inside, [](char c) { return c == ' ' || c == ','; });
  return inside.empty() || is_plain(inside);
}

std::string map_flow_text(const YamlValue& value) {
  std::string out;
  const YamlMap map = value.map();
  for (const YamlMap::Field& field : map.fields()) {
    out += fmt::format("{}{}: {}", out.empty() ? "" : ", ", setting_text(field.key),
                       flow_text(field.value));
  }
  return "{" + out + "}";
}

void flatten(const YamlValue& map, const std::string& prefix, Settings& out) {
  const YamlMap fields = map.map();
  for (const YamlMap::Field& field : fields.fields()) {
    const std::string path = prefix + field.key;
    if (field.value.is_map() && path != kMix) {
      flatten(field.value, path + ".", out);
    } else {
      out.insert_or_assign(path, Setting(flow_text(field.value), field.value.line()));
    }
  }
}

/// The map below `prefix`; `it` moves to the first setting beyond it.
std::string map_text(Settings::const_iterator& it, Settings::const_iterator end,
                     const std::string& prefix) {
  std::string out;
  while (it != end && it->first.starts_with(prefix)) {
    const std::string rest = it->first.substr(prefix.size());
    const std::string key = rest.substr(0, rest.find('.'));
    out += fmt::format("{}{}: ", out.empty() ? "" : ", ", is_plain(key) ? key : quote(key));
    if (key.size() == rest.size()) {
      out += it->second.text;
      ++it;
    } else {
      out += map_text(it, end, prefix + key + ".");
    }
  }
  return "{" + out + "}";
}

/// The line of the setting that a finding's path ("/fabric/spines") is about, or of one below it.
int line_of(const Settings& settings, std::string path) {
  std::replace(path.begin(), path.end(), '/', '.');
  if (!path.empty()) path.erase(0, 1);
  while (!path.empty()) {
    const auto at = settings.lower_bound(path);
    if (at != settings.end() && at->first.starts_with(path) && at->second.line > 0) {
      return at->second.line;
    }
    const size_t dot = path.rfind('.');
    path.resize(dot == std::string::npos ? 0 : dot);
  }
  return 0;
}

}  // namespace

std::string setting_text(std::string_view value) {
  return is_plain(value) || is_plain_list(value) ? std::string(value) : quote(value);
}

std::string flow_text(const YamlValue& value) {
  if (value.is_map()) return map_flow_text(value);
  if (value.is_scalar()) return setting_text(value.nonempty_string().value_or(""));
  if (!value.is_list()) return "~";
  std::string out;
  const std::vector<YamlValue> items = value.list().value_or(std::vector<YamlValue>());
  for (const YamlValue& item : items) out += (out.empty() ? "" : ", ") + flow_text(item);
  return "[" + out + "]";
}

std::string axis_path(std::string_view axis) {
  const auto at = std::find_if(kShortNames.begin(), kShortNames.end(),
                               [&](const ShortName& it) { return it.axis == axis; });
  return std::string(at == kShortNames.end() ? axis : at->path);
}

void set_axis(Settings& settings, std::string_view axis, const std::string& value, int line) {
  const std::string path = axis_path(axis);
  std::erase_if(settings, [&](const auto& it) {
    return it.first.starts_with(path + ".") || path.starts_with(it.first + ".");
  });
  std::string text = setting_text(value);
  if (axis == "model") text = "{" + text + ": 1}";
  if (axis == "pause_s") {
    double seconds = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), seconds);
    const bool good = error == std::errc() && end == value.data() + value.size();
    if (good) text = fmt::format("{:.0f}", seconds * 1e6);
  }
  settings.insert_or_assign(path, Setting(std::move(text), line));
}

Settings settings_of(const YamlValue& map) {
  Settings settings;
  flatten(map, "", settings);
  return settings;
}

std::string scenario_text(const Settings& settings) {
  auto it = settings.begin();
  return map_text(it, settings.end(), "") + "\n";
}

std::optional<ScenarioInput> read_settings(const Settings& settings, std::string_view file,
                                           const FileReader& read, Diagnostics& diagnostics) {
  Diagnostics found;
  std::optional<ScenarioInput> input;
  const std::optional<ScenarioFile> scenario =
      parse_scenario(scenario_text(settings), kSettings, {}, found);
  if (scenario) {
    std::optional<Workload> workload = read_workload(*scenario, read, found);
    if (workload) input = ScenarioInput{scenario->scenario, *std::move(workload)};
  }
  for (Finding finding : found.findings()) {
    if (finding.file == kSettings) {
      finding.file = file;
      finding.line = line_of(settings, finding.path);
    }
    diagnostics.add(std::move(finding));
  }
  return input;
}

}  // namespace monkeytree
