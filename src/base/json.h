#pragma once

#include <simdjson.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostics.h"

/// Reading our own JSON formats: every fault is reported with its JSON path, and a reader goes on
/// after one, so that all faults of a file show up in one run.
///
///     auto document = JsonDocument::parse(text, file, diagnostics);
///     if (!document) return std::nullopt;
///     auto root = document->root().object();
///     if (!root) return std::nullopt;
///     if (auto name = root->find("name")) thing.name = name->string().value_or("");
///     if (auto size = root->require("size")) thing.size = size->integer(1, 64).value_or(1);
///     root->finish(UnknownField::kWarning);
///
/// Values are views into the document and the names they return live as long as it does.
namespace monkeytree {

class JsonDocument;
class JsonObject;

/// What a format makes of a field that it does not know.
enum class UnknownField { kError, kWarning, kIgnore };

/// One value and where it stands. Cheap to copy. Each reading function reports an error and gives
/// nullopt where the value is of another kind or out of range.
class JsonValue {
 public:
  std::string path() const;  ///< "/jobs/3/groups/0"; empty for the whole document

  bool is_null() const { return element_.is_null(); }
  bool is_string() const { return element_.is_string(); }
  bool is_number() const { return element_.is_number(); }
  bool is_array() const { return element_.is_array(); }
  bool is_object() const { return element_.is_object(); }

  std::optional<std::string_view> string() const;
  std::optional<std::string_view> nonempty_string() const;
  std::optional<bool> boolean() const;
  std::optional<double> number() const;
  /// A whole number in [low, high]; 3.0 and 1.2e10 are whole.
  std::optional<int64_t> integer(int64_t low, int64_t high) const;
  /// integer() for the range of an int.
  std::optional<int> integer32(int low, int high) const;
  std::optional<JsonObject> object() const;
  std::optional<std::vector<JsonValue>> array() const;

  void error(std::string message) const;
  void warning(std::string message) const;
  void note(std::string message) const;
  /// error("expected `expected`, found a string").
  void error_expected(std::string_view expected) const;

 private:
  friend class JsonDocument;
  friend class JsonObject;
  JsonValue(JsonDocument* document, int32_t parent, std::string_view key, size_t index,
            simdjson::dom::element element)
      : document_(document), parent_(parent), key_(key), index_(index), element_(element) {}

  JsonDocument* document_;
  int32_t parent_;        ///< container, as numbered by the document; -1 for the root
  std::string_view key_;  ///< within an object; data() is null within an array
  size_t index_;          ///< within an array
  simdjson::dom::element element_;
};

/// The fields of an object; remembers which were asked for.
class JsonObject {
 public:
  struct Field {
    std::string_view key;
    JsonValue value;
    bool known = false;
  };

  /// The field, or nullopt where there is none.
  std::optional<JsonValue> find(std::string_view key);
  /// The field; where there is none, an error says so.
  std::optional<JsonValue> require(std::string_view key);
  /// All fields in file order, for objects that are maps.
  const std::vector<Field>& fields() const { return fields_; }

  std::string path() const { return self_.path(); }
  void error(std::string message) const { self_.error(std::move(message)); }

  /// Reports each field that was never asked for.
  void finish(UnknownField unknown) const;

 private:
  friend class JsonValue;
  JsonObject(JsonValue self, std::vector<Field> fields) : self_(self), fields_(std::move(fields)) {}

  JsonValue self_;
  std::vector<Field> fields_;
};

/// A parsed text. Owns what the values look at.
class JsonDocument {
 public:
  /// Null after an error: not JSON (with line and column), not UTF-8, nested too deeply, or a
  /// duplicate key anywhere. `file` names the text in findings. O(bytes · log of fields).
  static std::unique_ptr<JsonDocument> parse(std::string_view text, std::string_view file,
                                             Diagnostics& diagnostics);

  JsonValue root() { return JsonValue(this, -1, {}, 0, root_); }

 private:
  friend class JsonValue;

  /// Containers that were opened, so that paths are put together only when a finding needs one.
  struct Container {
    int32_t parent;
    std::string_view key;
    size_t index;
  };

  JsonDocument(std::string_view file, Diagnostics& diagnostics)
      : file_(file), diagnostics_(diagnostics) {}
  int32_t open(const JsonValue& value);
  void report_duplicates(const JsonValue& value);
  void report_duplicate_keys(const JsonObject& object);

  std::string file_;
  Diagnostics& diagnostics_;
  simdjson::dom::parser parser_;
  simdjson::dom::element root_;
  std::vector<Container> containers_;
};

/// Text from a file as it may stand in a message: in double quotes, control characters escaped,
/// shortened to some 60 bytes at a character's edge.
std::string quote(std::string_view text);

/// The same without quotes and without shortening: safe on a terminal.
std::string printable(std::string_view text);

}  // namespace monkeytree
