#include <fmt/format.h>

#include <array>
#include <charconv>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/yaml.h"
#include "routing/hash_model.h"

namespace monkeytree {
namespace {

constexpr std::array<std::string_view, 9> kFamilies = {"crc16-ccitt", "crc16-ibm", "crc32",
                                                       "crc32c",      "xor8",      "xor16",
                                                       "xor32",       "jenkins",   "one-at-a-time"};
constexpr std::array<std::string_view, 5> kFields = {"source", "destination", "protocol",
                                                     "source_port", "destination_port"};
constexpr std::array<std::string_view, 2> kReductions = {"modulo", "range"};

int bits_of(HashFamily family) {
  if (family == HashFamily::kXor8) return 8;
  const bool sixteen = family == HashFamily::kCrc16Ccitt || family == HashFamily::kCrc16Ibm ||
                       family == HashFamily::kXor16;
  return sixteen ? 16 : 32;
}

/// 305419896 or 0x12345678.
std::optional<uint32_t> word(const YamlValue& value) {
  const std::optional<std::string> text = value.nonempty_string();
  if (!text) return std::nullopt;
  const bool hex = text->starts_with("0x");
  const char* const begin = text->data() + (hex ? 2 : 0);
  const char* const end = text->data() + text->size();
  uint32_t number = 0;
  const auto [stop, fault] = std::from_chars(begin, end, number, hex ? 16 : 10);
  if (fault == std::errc() && stop == end) return number;
  value.error_expected("a number of 32 bits, for example 12345 or 0xff00");
  return std::nullopt;
}

MaskedField read_field(const YamlValue& value) {
  MaskedField masked;
  const YamlValue* name = &value;
  std::optional<YamlMap> map;
  if (value.is_map()) {
    map = value.map({"field", "mask"});
    name = map->find("field");
    if (name == nullptr) value.error_expected("a field");
    if (const YamlValue* mask = map->find("mask")) masked.mask = word(*mask).value_or(0);
  }
  if (name != nullptr) masked.field = static_cast<HashField>(name->one_of(kFields).value_or(0));
  return masked;
}

void read_fields(const YamlValue& value, HashModel& model) {
  const std::optional<std::vector<YamlValue>> list = value.list();
  if (!list) return;
  if (list->empty() || list->size() > 64) return value.error_expected("1 to 64 fields");
  model.fields.clear();
  for (const YamlValue& item : *list) {
    model.fields.push_back(read_field(item));
  }
}

}  // namespace

std::optional<HashModel> parse_hash_model(std::string_view text, std::string_view file,
                                          Diagnostics& diagnostics) {
  const size_t errors = diagnostics.error_count();
  const std::optional<YamlValue> root = parse_yaml(text, file, diagnostics);
  if (!root) return std::nullopt;
  HashModel model;
  const YamlMap map = root->map({"family", "seed", "fields", "shift", "bits", "reduce"});
  if (const YamlValue* family = map.find("family")) {
    model.family = static_cast<HashFamily>(family->one_of(kFamilies).value_or(0));
  } else if (root->is_map()) {
    root->error_expected(fmt::format("family: one of {}", fmt::join(kFamilies, ", ")));
  }
  if (const YamlValue* seed = map.find("seed")) model.seed = word(*seed).value_or(0);
  if (const YamlValue* fields = map.find("fields")) read_fields(*fields, model);
  const int whole = bits_of(model.family);
  if (const YamlValue* shift = map.find("shift")) {
    model.shift = shift->integer32(0, whole - 1).value_or(0);
  }
  if (const YamlValue* bits = map.find("bits")) {
    model.bits = bits->integer32(1, whole - model.shift).value_or(0);
  }
  if (const YamlValue* reduce = map.find("reduce")) {
    model.reduction = static_cast<HashReduction>(reduce->one_of(kReductions).value_or(0));
  }
  if (diagnostics.error_count() > errors) return std::nullopt;
  return model;
}

}  // namespace monkeytree
