#include "base/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/json_syntax.h"

namespace monkeytree {
namespace {

using simdjson::dom::element_type;

constexpr size_t kLongestQuote = 60;
constexpr size_t kFewFields = 12;  ///< compared pair by pair, which is faster than sorting

std::string_view kind_of(simdjson::dom::element element) {
  switch (element.type()) {
    case element_type::ARRAY:
      return "an array";
    case element_type::OBJECT:
      return "an object";
    case element_type::INT64:
    case element_type::UINT64:
    case element_type::DOUBLE:
      return "a number";
    case element_type::STRING:
      return "a string";
    case element_type::BOOL:
      return "a boolean";
    case element_type::NULL_VALUE:
      return "null";
  }
  return "a value";
}

/// A key that appears twice among `fields`, with the place of its second appearance.
std::vector<size_t> repeated(const std::vector<JsonObject::Field>& fields) {
  std::vector<size_t> repeats;
  if (fields.size() <= kFewFields) {
    for (size_t i = 1; i < fields.size(); ++i) {
      for (size_t j = 0; j < i; ++j) {
        if (fields[i].key != fields[j].key) continue;
        repeats.push_back(i);
        break;
      }
    }
    return repeats;
  }
  std::vector<size_t> order(fields.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const int compared = fields[a].key.compare(fields[b].key);
    return compared != 0 ? compared < 0 : a < b;
  });
  for (size_t i = 1; i < order.size(); ++i) {
    if (fields[order[i]].key == fields[order[i - 1]].key) repeats.push_back(order[i]);
  }
  std::sort(repeats.begin(), repeats.end());
  return repeats;
}

/// Says why the parser refused a text: it tells that something is wrong, but not where.
void report_refusal(std::string_view text, std::string_view file, std::string_view otherwise,
                    Diagnostics& diagnostics) {
  const std::optional<JsonSyntaxError> syntax = find_json_syntax_error(text);
  const std::optional<JsonSyntaxError> fault = syntax ? syntax : find_unfit_number(text);
  if (!fault) return diagnostics.error(file, 0, "", std::string(otherwise));
  const std::string_view before = text.substr(0, fault->offset);
  const auto line = static_cast<int>(1 + std::count(before.begin(), before.end(), '\n'));
  if (!syntax) return diagnostics.error(file, line, fault->path, fault->message);
  const size_t line_start = before.rfind('\n') + 1;  // npos + 1 is 0
  diagnostics.error(file, line, "",
                    fmt::format("not JSON: at byte {} of the line: {}",
                                fault->offset - line_start + 1, fault->message));
}

}  // namespace

std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    const bool c1_control =
        c == 0xC2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xA0;
    if (c < 0x20 || c == 0x7F) {
      out += fmt::format("\\x{:02x}", c);
    } else if (c1_control) {
      out += fmt::format("\\u00{:02x}", static_cast<unsigned char>(text[++i]));
    } else {
      out += text[i];
    }
  }
  return out;
}

std::string quote(std::string_view text) {
  if (text.size() <= kLongestQuote) return fmt::format("\"{}\"", printable(text));
  size_t end = kLongestQuote;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return fmt::format("\"{}...\"", printable(text.substr(0, end)));
}

std::string JsonValue::path() const {
  std::vector<std::string> steps;
  if (parent_ >= 0) {
    steps.push_back(key_.data() ? pointer_step(key_) : std::to_string(index_));
    for (int32_t at = parent_; at >= 0;) {
      const JsonDocument::Container& container = document_->containers_[static_cast<size_t>(at)];
      if (container.parent >= 0) {
        steps.push_back(container.key.data() ? pointer_step(container.key)
                                             : std::to_string(container.index));
      }
      at = container.parent;
    }
  }
  std::string path;
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) path.append("/").append(*step);
  return path;
}

void JsonValue::error(std::string message) const {
  document_->diagnostics_.error(document_->file_, 0, path(), std::move(message));
}

void JsonValue::warning(std::string message) const {
  document_->diagnostics_.warning(document_->file_, 0, path(), std::move(message));
}

void JsonValue::note(std::string message) const {
  document_->diagnostics_.note(document_->file_, 0, path(), std::move(message));
}

void JsonValue::error_expected(std::string_view expected) const {
  std::string found(kind_of(element_));
  if (element_.is_string()) found = quote(element_.get_string().value_unsafe());
  if (element_.is_number()) {
    found = fmt::format("{}", element_.get_double().value_unsafe());
    if (element_.is_int64()) found = std::to_string(element_.get_int64().value_unsafe());
    if (element_.is_uint64()) found = std::to_string(element_.get_uint64().value_unsafe());
  }
  error(fmt::format("expected {}, found {}", expected, found));
}

std::optional<std::string_view> JsonValue::string() const {
  if (element_.is_string()) return element_.get_string().value_unsafe();
  error_expected("a string");
  return std::nullopt;
}

std::optional<std::string_view> JsonValue::nonempty_string() const {
  if (element_.is_string() && !element_.get_string().value_unsafe().empty()) return string();
  error_expected("a string that is not empty");
  return std::nullopt;
}

std::optional<bool> JsonValue::boolean() const {
  if (element_.is_bool()) return element_.get_bool().value_unsafe();
  error_expected("true or false");
  return std::nullopt;
}

std::optional<double> JsonValue::number() const {
  if (element_.is_number()) return element_.get_double().value_unsafe();
  error_expected("a number");
  return std::nullopt;
}

std::optional<int64_t> JsonValue::integer(int64_t low, int64_t high) const {
  std::optional<int64_t> found;
  if (element_.is_int64()) {
    found = element_.get_int64().value_unsafe();
  } else if (element_.is_double()) {
    const double real = element_.get_double().value_unsafe();
    constexpr double kExact = 9007199254740992.0;  // 2^53: above it doubles skip whole numbers
    if (std::abs(real) <= kExact && real == std::floor(real)) found = static_cast<int64_t>(real);
  }
  if (found && *found >= low && *found <= high) return found;
  error_expected(fmt::format("a whole number from {} to {}", low, high));
  return std::nullopt;
}

std::optional<int> JsonValue::integer32(int low, int high) const {
  const std::optional<int64_t> found = integer(low, high);
  if (!found) return std::nullopt;
  return static_cast<int>(*found);
}

std::optional<JsonObject> JsonValue::object() const {
  if (!element_.is_object()) {
    error_expected("an object");
    return std::nullopt;
  }
  const simdjson::dom::object object = element_.get_object().value_unsafe();
  std::vector<JsonObject::Field> fields;
  fields.reserve(object.size());
  const int32_t self = document_->open(*this);
  for (const simdjson::dom::key_value_pair field : object) {
    fields.push_back({field.key, JsonValue(document_, self, field.key, 0, field.value)});
  }
  return JsonObject(*this, std::move(fields));
}

std::optional<std::vector<JsonValue>> JsonValue::array() const {
  if (!element_.is_array()) {
    error_expected("an array");
    return std::nullopt;
  }
  const simdjson::dom::array array = element_.get_array().value_unsafe();
  std::vector<JsonValue> values;
  values.reserve(array.size());
  const int32_t self = document_->open(*this);
  for (const simdjson::dom::element element : array) {
    values.push_back(JsonValue(document_, self, {}, values.size(), element));
  }
  return values;
}

std::optional<JsonValue> JsonObject::find(std::string_view key) {
  for (Field& field : fields_) {
    if (field.key != key) continue;
    field.known = true;
    return field.value;
  }
  return std::nullopt;
}

std::optional<JsonValue> JsonObject::require(std::string_view key) {
  std::optional<JsonValue> found = find(key);
  if (!found) error(fmt::format("no field \"{}\", expected one", key));
  return found;
}

void JsonObject::finish(UnknownField unknown) const {
  if (unknown == UnknownField::kIgnore) return;
  for (const Field& field : fields_) {
    if (field.known) continue;
    if (unknown == UnknownField::kError) {
      field.value.error("unknown field, expected one that the format names");
    } else {
      field.value.warning("unknown field, not used");
    }
  }
}

int32_t JsonDocument::open(const JsonValue& value) {
  containers_.push_back({value.parent_, value.key_, value.index_});
  return static_cast<int32_t>(containers_.size() - 1);
}

void JsonDocument::report_duplicate_keys(const JsonObject& object) {
  for (size_t i : repeated(object.fields())) {
    object.fields()[i].value.error("a second field of this name, expected one");
  }
}

/// Recursion is no deeper than kMaxJsonDepth: the parser refuses what is nested further.
void JsonDocument::report_duplicates(const JsonValue& value) {
  const size_t kept = containers_.size();
  if (value.is_object()) {
    const std::optional<JsonObject> object = value.object();
    report_duplicate_keys(*object);
    for (const JsonObject::Field& field : object->fields()) {
      if (field.value.is_object() || field.value.is_array()) report_duplicates(field.value);
    }
  } else if (value.is_array()) {
    const int32_t self = open(value);
    size_t index = 0;
    const simdjson::dom::array array = value.element_.get_array().value_unsafe();
    for (const simdjson::dom::element element : array) {
      if (element.is_object() || element.is_array()) {
        report_duplicates(JsonValue(this, self, {}, index, element));
      }
      ++index;
    }
  }
  containers_.resize(kept);
}

std::unique_ptr<JsonDocument> JsonDocument::parse(std::string_view text, std::string_view file,
                                                  Diagnostics& diagnostics) {
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) {
    diagnostics.error(file, 0, "", "empty, expected a JSON object");
    return nullptr;
  }
  if (text.substr(0, 3) == "\xEF\xBB\xBF") text.remove_prefix(3);  // a byte order mark
  std::unique_ptr<JsonDocument> document(new JsonDocument(file, diagnostics));
  simdjson::error_code code = document->parser_.allocate(text.size(), kMaxJsonDepth);
  if (code == simdjson::SUCCESS) {
    code = document->parser_.parse(text.data(), text.size()).get(document->root_);
  }
  if (code != simdjson::SUCCESS) {
    report_refusal(text, file, simdjson::error_message(code), diagnostics);
    return nullptr;
  }
  const size_t errors = diagnostics.error_count();
  document->report_duplicates(document->root());
  if (diagnostics.error_count() > errors) return nullptr;
  return document;
}

}  // namespace monkeytree
