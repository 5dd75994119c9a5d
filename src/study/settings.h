#pragma once

#include <map>
#include <string>
#include <string_view>

#include "base/diagnostics.h"
#include "base/yaml.h"
#include "simulation/scenario_yaml.h"

/// A scenario as a list of settings, so that a study can change one of them.
namespace monkeytree {

/// Value of one key of a scenario, as YAML.
struct Setting {
  std::string text;
  int line = 0;  ///< in the study's file; 0: not from there

  Setting(std::string value, int at = 0) : text(std::move(value)), line(at) {}  // NOLINT
  Setting(const char* value) : text(value) {}                                   // NOLINT
};

/// By path: "workload.generate.load" → "0.9".
using Settings = std::map<std::string, Setting>;

/// What an axis sets: a key of the scenario by its path, or by a short name ("load", "spines",
/// "pause_s", "model").
std::string axis_path(std::string_view axis);

/// Sets the value that an axis stands for, a scalar or a list as "[2, 20]", in place of what stands
/// at its path, above or below.
void set_axis(Settings& settings, std::string_view axis, const std::string& value, int line = 0);

/// A scalar as the YAML of a setting, quoted where it must be; a list "[2, 20]" as it is.
std::string setting_text(std::string_view value);

/// A scalar or a list as one line of YAML.
std::string flow_text(const YamlValue& value);

/// What a map of YAML sets.
Settings settings_of(const YamlValue& map);

/// The scenario as text: all that a run depends on but the files that it names.
std::string scenario_text(const Settings& settings);

/// Reads the scenario and its jobs; nullopt after an error. Findings have the lines of `file`.
struct ScenarioInput {
  Scenario scenario;
  Workload workload;
};
std::optional<ScenarioInput> read_settings(const Settings& settings, std::string_view file,
                                           const FileReader& read, Diagnostics& diagnostics);

}  // namespace monkeytree
