#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostics.h"

/// Reading our own YAML formats: every fault is reported as `file:line: /path: …`, and a reader
/// goes on after one, so that all faults of a file show up in one run.
///
///     std::optional<YamlValue> root = parse_yaml(text, file, diagnostics);
///     if (!root) return std::nullopt;
///     YamlMap map = root->map({"size", "kind"});
///     if (auto size = map.find("size")) thing.size = size->integer(1, 64).value_or(1);
namespace monkeytree {

class YamlMap;

/// One value and where it stands. Cheap to copy. Each reading function reports an error and gives
/// nullopt where the value is of another kind or out of range.
class YamlValue {
 public:
  const std::string& path() const { return path_; }
  int line() const;  ///< from 1

  bool is_map() const;
  bool is_list() const;
  bool is_scalar() const;
  bool is(std::string_view text) const;  ///< a scalar of this text

  std::optional<std::string> nonempty_string() const;
  std::optional<bool> boolean() const;
  std::optional<double> number(double low, double high) const;
  /// A whole number in [low, high]; 3.0 and 1e6 are whole.
  std::optional<int64_t> integer(int64_t low, int64_t high) const;
  std::optional<int> integer32(int low, int high) const;
  /// The position of the text in `names`.
  std::optional<size_t> one_of(std::span<const std::string_view> names) const;
  std::optional<std::vector<YamlValue>> list() const;
  /// The fields of a map; each that is not in `known`, or stands there twice, is an error. Empty
  /// after an error where the value is no map.
  YamlMap map(std::initializer_list<std::string_view> known) const;
  /// The same for a map whose keys are names.
  YamlMap map() const;

  void error(std::string message) const;
  /// error("expected `expected`, found …").
  void error_expected(std::string_view expected) const;

 private:
  friend class YamlMap;
  friend std::optional<YamlValue> parse_yaml(std::string_view text, std::string_view file,
                                             Diagnostics& diagnostics);
  struct Source;
  struct Node;
  YamlValue(std::shared_ptr<const Source> source, const Node* node, std::string path)
      : source_(std::move(source)), node_(node), path_(std::move(path)) {}

  std::shared_ptr<const Source> source_;
  const Node* node_;
  std::string path_;
};

/// The fields of a map, in file order.
class YamlMap {
 public:
  struct Field {
    std::string key;
    YamlValue value;
  };

  const YamlValue* find(std::string_view key) const;  ///< null where there is none
  const std::vector<Field>& fields() const& { return fields_; }
  void fields() const&& = delete;  ///< would not outlive the map

 private:
  friend class YamlValue;
  std::vector<Field> fields_;
};

/// Nullopt after an error: not YAML, not UTF-8, a NUL byte, more than one document, beyond a
/// mebibyte, nested more than 16 deep, or an alias (a format that is read like this has no use for
/// them).
std::optional<YamlValue> parse_yaml(std::string_view text, std::string_view file,
                                    Diagnostics& diagnostics);

}  // namespace monkeytree
