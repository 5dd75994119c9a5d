#include "base/yaml.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <exception>
#include <set>
#include <sstream>

#include "base/json.h"
#include "base/json_syntax.h"

namespace monkeytree {
namespace {

constexpr size_t kMaxBytes = size_t{1} << 20;
constexpr size_t kMaxDepth = 16;

/// All of `text` as a number; nullopt where it is none, or is none that is finite.
std::optional<double> number_in(std::string_view text) {
  double value = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (fault != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) {
    return std::nullopt;
  }
  return value;
}

std::optional<int64_t> whole_number_in(std::string_view text) {
  int64_t value = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (fault == std::errc() && end == text.data() + text.size()) return value;
  constexpr double kExact = 9'007'199'254'740'992;  // up to here a double holds every whole number
  const std::optional<double> other = number_in(text);
  if (!other || *other != std::floor(*other) || std::abs(*other) > kExact) return std::nullopt;
  return static_cast<int64_t>(*other);
}

}  // namespace

/// A value as it was parsed: a scalar (null is one that was never written), a list or a map.
struct YamlValue::Node {
  enum Kind : uint8_t { kNull, kScalar, kList, kMap };
  Kind kind = kNull;
  int line = 0;
  std::string text;         ///< kScalar
  std::vector<Node> items;  ///< kList; kMap: key, value, key, value, …
};

struct YamlValue::Source {
  std::string file;
  Diagnostics* diagnostics = nullptr;
  Node root;

  class Builder;
};

/// Builds the tree of the first document and counts the others.
class YamlValue::Source::Builder final : public YAML::EventHandler {
 public:
  int documents() const { return documents_; }
  int second_line() const { return second_line_; }
  Node take() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ == 2) second_line_ = mark.line + 1;
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t) override { add(mark, Node::kNull, {}); }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    throw YAML::ParserException(mark, "an alias, expected the value itself");
  }
  void OnScalar(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                const std::string& value) override {
    const bool null = value.empty() || value == "~" || value == "null";
    add(mark, null ? Node::kNull : Node::kScalar, value);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {
    open(mark, Node::kList);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {
    open(mark, Node::kMap);
  }
  void OnMapEnd() override { close(); }

 private:
  static Node node_of(const YAML::Mark& mark, Node::Kind kind, std::string text) {
    Node node;
    node.kind = kind;
    node.line = mark.line + 1;
    node.text = std::move(text);
    return node;
  }
  void add(const YAML::Mark& mark, Node::Kind kind, std::string text) {
    put(node_of(mark, kind, std::move(text)));
  }
  void open(const YAML::Mark& mark, Node::Kind kind) {
    if (open_.size() == kMaxDepth) {
      throw YAML::ParserException(mark, fmt::format("nested more than {} deep", kMaxDepth));
    }
    open_.push_back(node_of(mark, kind, {}));
  }
  void close() {
    Node node = std::move(open_.back());
    open_.pop_back();
    put(std::move(node));
  }
  void put(Node node) {
    if (!open_.empty()) {
      std::vector<Node>& items = open_.back().items;
      // A value is found by its key, also where it is empty or starts below.
      if (open_.back().kind == Node::kMap && items.size() % 2 == 1) node.line = items.back().line;
      items.push_back(std::move(node));
    } else if (documents_ <= 1) {
      root_ = std::move(node);
    }
  }

  Node root_;
  std::vector<Node> open_;
  int documents_ = 0, second_line_ = 0;
};

std::optional<YamlValue> parse_yaml(std::string_view text, std::string_view file,
                                    Diagnostics& diagnostics) {
  const auto refuse = [&](int line, std::string message) {
    diagnostics.error(file, line, "", std::move(message));
    return std::nullopt;
  };
  if (text.size() > kMaxBytes) return refuse(0, fmt::format("more than {} MiB", kMaxBytes >> 20));
  const auto line_at = [&](size_t place) {
    return static_cast<int>(std::count(text.begin(), text.begin() + place, '\n')) + 1;
  };
  const size_t valid = valid_utf8_prefix(text);
  if (valid < text.size()) return refuse(line_at(valid), "not UTF-8");
  // The parser takes it for the end of a value.
  const size_t nul = text.find('\0');
  if (nul != std::string_view::npos) return refuse(line_at(nul), "NUL byte, expected text");
  auto source = std::make_shared<YamlValue::Source>();
  source->file = file;
  source->diagnostics = &diagnostics;
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    YamlValue::Source::Builder builder;
    while (builder.documents() < 2 && parser.HandleNextDocument(builder)) {
    }
    if (builder.documents() > 1) {
      return refuse(builder.second_line(), "a second document, expected one");
    }
    source->root = builder.take();
  } catch (const YAML::Exception& fault) {
    return refuse(fault.mark.is_null() ? 0 : fault.mark.line + 1,
                  fmt::format("not YAML: {}", printable(fault.msg)));
  } catch (const std::exception& fault) {
    return refuse(0, fmt::format("not YAML: {}", printable(fault.what())));
  }
  const YamlValue::Node* root = &source->root;
  return YamlValue(std::move(source), root, "");
}

int YamlValue::line() const { return std::max(1, node_->line); }
bool YamlValue::is_map() const { return node_->kind == Node::kMap; }
bool YamlValue::is_list() const { return node_->kind == Node::kList; }
bool YamlValue::is_scalar() const { return node_->kind == Node::kScalar; }
bool YamlValue::is(std::string_view text) const { return is_scalar() && node_->text == text; }

void YamlValue::error(std::string message) const {
  source_->diagnostics->error(source_->file, line(), path_, std::move(message));
}

void YamlValue::error_expected(std::string_view expected) const {
  std::string found = "nothing";
  if (node_->kind == Node::kScalar) found = quote(node_->text);
  if (node_->kind == Node::kList) found = "a list";
  if (node_->kind == Node::kMap) found = "a map";
  error(fmt::format("expected {}, found {}", expected, found));
}

std::optional<std::string> YamlValue::nonempty_string() const {
  if (is_scalar()) return node_->text;
  error_expected("text");
  return std::nullopt;
}

std::optional<bool> YamlValue::boolean() const {
  if (is_scalar() && (node_->text == "true" || node_->text == "false")) {
    return node_->text == "true";
  }
  error_expected("true or false");
  return std::nullopt;
}

std::optional<double> YamlValue::number(double low, double high) const {
  const std::optional<double> value = is_scalar() ? number_in(node_->text) : std::nullopt;
  if (value && *value >= low && *value <= high) return value;
  error_expected(fmt::format("a number from {} to {}", low, high));
  return std::nullopt;
}

std::optional<int64_t> YamlValue::integer(int64_t low, int64_t high) const {
  const std::optional<int64_t> value = is_scalar() ? whole_number_in(node_->text) : std::nullopt;
  if (value && *value >= low && *value <= high) return value;
  error_expected(fmt::format("a whole number from {} to {}", low, high));
  return std::nullopt;
}

std::optional<int> YamlValue::integer32(int low, int high) const {
  const std::optional<int64_t> value = integer(low, high);
  return value ? std::optional<int>(static_cast<int>(*value)) : std::nullopt;
}

std::optional<size_t> YamlValue::one_of(std::span<const std::string_view> names) const {
  if (is_scalar()) {
    const auto at = std::find(names.begin(), names.end(), node_->text);
    if (at != names.end()) return static_cast<size_t>(at - names.begin());
  }
  error_expected(fmt::format("{}{}", names.size() > 2 ? "one of " : "",
                             fmt::join(names, names.size() == 2 ? " or " : ", ")));
  return std::nullopt;
}

std::optional<std::vector<YamlValue>> YamlValue::list() const {
  if (node_->kind != Node::kList) {
    error_expected("a list");
    return std::nullopt;
  }
  std::vector<YamlValue> values;
  for (size_t i = 0; i < node_->items.size(); ++i) {
    values.push_back(YamlValue(source_, &node_->items[i], fmt::format("{}/{}", path_, i)));
  }
  return values;
}

YamlMap YamlValue::map() const {
  YamlMap map;
  if (!is_map()) {
    error_expected("a map");
    return map;
  }
  std::set<std::string_view> seen;
  for (size_t i = 0; i + 1 < node_->items.size(); i += 2) {
    const Node& key = node_->items[i];
    YamlValue value(source_, &node_->items[i + 1], path_ + "/" + printable(key.text));
    const YamlValue place(source_, &key, value.path_);
    if (key.kind != Node::kScalar) {
      place.error("expected a name as the key");
    } else if (!seen.insert(key.text).second) {
      place.error("this key stands here twice");
    } else {
      map.fields_.push_back({key.text, std::move(value)});
    }
  }
  return map;
}

YamlMap YamlValue::map(std::initializer_list<std::string_view> known) const {
  YamlMap fields = map();
  std::erase_if(fields.fields_, [&](const YamlMap::Field& field) {
    if (std::find(known.begin(), known.end(), field.key) != known.end()) return false;
    field.value.error(fmt::format("unknown key, expected {}{}", known.size() > 1 ? "one of " : "",
                                  fmt::join(known, ", ")));
    return true;
  });
  return fields;
}

const YamlValue* YamlMap::find(std::string_view key) const {
  const auto at = std::find_if(fields_.begin(), fields_.end(),
                               [&](const Field& field) { return field.key == key; });
  return at == fields_.end() ? nullptr : &at->value;
}

}  // namespace monkeytree
