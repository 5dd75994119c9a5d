#include "kubernetes/reading.h"

#include <absl/strings/numbers.h>
#include <absl/time/time.h>

#include <algorithm>
#include <array>
#include <limits>

#include "base/json_syntax.h"

namespace monkeytree {

using simdjson::dom::element;

std::optional<element> kube_at(std::optional<element> value,
                               std::initializer_list<std::string_view> path) {
  for (const std::string_view step : path) {
    if (!value || !value->is_object()) return std::nullopt;
    element next;
    if (value->at_key(step).get(next) != simdjson::SUCCESS) return std::nullopt;
    value = next;
  }
  if (!value || value->is_null()) return std::nullopt;
  return value;
}

std::string_view kube_text(std::optional<element> value,
                           std::initializer_list<std::string_view> path) {
  value = kube_at(value, path);
  std::string_view text;
  if (!value || value->get(text) != simdjson::SUCCESS) return "";
  return text;
}

std::optional<int64_t> kube_number(std::optional<element> value,
                                   std::initializer_list<std::string_view> path) {
  value = kube_at(value, path);
  int64_t number = 0;
  if (!value || value->get(number) != simdjson::SUCCESS) return std::nullopt;
  return number;
}

bool kube_true(std::optional<element> value, std::initializer_list<std::string_view> path) {
  value = kube_at(value, path);
  bool flag = false;
  return value && value->get(flag) == simdjson::SUCCESS && flag;
}

std::vector<element> kube_items(std::optional<element> list) {
  simdjson::dom::array items;
  if (!list || list->get(items) != simdjson::SUCCESS) return {};
  std::vector<element> out;
  for (const element item : items) out.push_back(item);
  return out;
}

std::vector<std::pair<std::string_view, std::string_view>> kube_texts(
    std::optional<element> object) {
  simdjson::dom::object fields;
  if (!object || object->get(fields) != simdjson::SUCCESS) return {};
  std::vector<std::pair<std::string_view, std::string_view>> out;
  for (const simdjson::dom::key_value_pair field : fields) {
    std::string_view text;
    if (field.value.get(text) == simdjson::SUCCESS) out.emplace_back(field.key, text);
  }
  return out;
}

std::optional<int> kube_quantity(element value) {
  constexpr int64_t kMost = std::numeric_limits<int>::max();
  int64_t number = 0;
  if (value.get(number) == simdjson::SUCCESS) {
    return number >= 0 && number <= kMost ? std::optional(static_cast<int>(number)) : std::nullopt;
  }
  std::string_view text;
  if (value.get(text) != simdjson::SUCCESS || text.empty()) return std::nullopt;
  constexpr std::array<std::pair<std::string_view, int64_t>, 4> kSuffixes = {
      {{"k", 1000}, {"Ki", 1024}, {"M", 1'000'000}, {"Mi", 1'048'576}}};
  int64_t factor = 1;
  int64_t divisor = 1;
  for (const auto& [suffix, by] : kSuffixes) {
    if (text.ends_with(suffix)) factor = by;
  }
  if (text.ends_with("m")) divisor = 1000;
  while (!text.empty() && (text.back() < '0' || text.back() > '9')) {
    if (factor == 1 && divisor == 1) return std::nullopt;
    text.remove_suffix(1);
  }
  const bool digits =
      std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (!digits || text.size() > 10 ||
      !absl::SimpleAtoi(absl::string_view(text.data(), text.size()), &number)) {
    return std::nullopt;
  }
  if (number % divisor != 0 || number / divisor * factor > kMost) return std::nullopt;
  return static_cast<int>(number / divisor * factor);
}

std::optional<double> kube_time(std::string_view text) {
  absl::Time time;
  if (!absl::ParseTime(absl::RFC3339_full, absl::string_view(text.data(), text.size()), &time,
                       nullptr)) {
    return std::nullopt;
  }
  return absl::ToDoubleSeconds(time - absl::UnixEpoch());
}

std::optional<KubeRepeatedKey> kube_repeated_key(element value) {
  const auto within = [](std::optional<KubeRepeatedKey> found, const std::string& step) {
    if (found) found->path.insert(0, "/" + step);
    return found;
  };
  simdjson::dom::object fields;
  if (value.get(fields) == simdjson::SUCCESS) {
    std::vector<std::string_view> keys;
    for (const simdjson::dom::key_value_pair field : fields) keys.push_back(field.key);
    std::sort(keys.begin(), keys.end());
    const auto twice = std::adjacent_find(keys.begin(), keys.end());
    if (twice != keys.end()) return KubeRepeatedKey{std::string(*twice), ""};
    for (const simdjson::dom::key_value_pair field : fields) {
      if (!field.value.is_object() && !field.value.is_array()) continue;
      if (auto found = kube_repeated_key(field.value)) {
        return within(std::move(found), pointer_step(field.key));
      }
    }
  }
  size_t index = 0;
  for (const element item : kube_items(value)) {
    if (item.is_object() || item.is_array()) {
      if (auto found = kube_repeated_key(item)) {
        return within(std::move(found), std::to_string(index));
      }
    }
    ++index;
  }
  return std::nullopt;
}

}  // namespace monkeytree
