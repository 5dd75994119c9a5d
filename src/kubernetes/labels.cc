#include "kubernetes/labels.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "kubernetes/reading.h"

namespace monkeytree {

KubeLabels::KubeLabels(std::vector<std::pair<std::string_view, std::string_view>> fields) {
  std::stable_sort(fields.begin(), fields.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::string_view last;
  bool first = true;
  for (const auto& [key, value] : fields) {
    const bool whole = key.find('\0') == key.npos && value.find('\0') == value.npos;
    if (!whole || (!first && key == last)) continue;
    packed_.append(key).push_back('\0');
    packed_.append(value).push_back('\0');
    last = key;
    first = false;
  }
  packed_.shrink_to_fit();
}

std::vector<std::pair<std::string_view, std::string_view>> KubeLabels::fields() const {
  std::vector<std::pair<std::string_view, std::string_view>> out;
  for (size_t at = 0; at < packed_.size();) {
    const std::string_view key = packed_.data() + at;
    const std::string_view value = packed_.data() + at + key.size() + 1;
    out.emplace_back(key, value);
    at += key.size() + value.size() + 2;
  }
  return out;
}

std::optional<std::string_view> KubeLabels::get(std::string_view key) const {
  for (size_t at = 0; at < packed_.size();) {
    const std::string_view found = packed_.data() + at;
    const std::string_view value = packed_.data() + at + found.size() + 1;
    if (found == key) return value;
    at += found.size() + value.size() + 2;
  }
  return std::nullopt;
}

KubeSelector::KubeSelector(simdjson::dom::element selector, bool empty_matches)
    : empty_matches_(empty_matches) {
  for (const auto& [key, value] : kube_texts(kube_at(selector, {"matchLabels"}))) {
    terms_.push_back({std::string(key), Operator::kIn, {std::string(value)}});
  }
  for (const simdjson::dom::element expression :
       kube_items(kube_at(selector, {"matchExpressions"}))) {
    add_expression(expression);
  }
}

void KubeSelector::add_expression(simdjson::dom::element expression) {
  constexpr std::array<std::string_view, 4> kNames = {"In", "NotIn", "Exists", "DoesNotExist"};
  Term term;
  term.key = kube_text(expression, {"key"});
  const auto* name = std::find(kNames.begin(), kNames.end(), kube_text(expression, {"operator"}));
  term.how = static_cast<Operator>(name - kNames.begin());
  for (const simdjson::dom::element value : kube_items(kube_at(expression, {"values"}))) {
    term.values.emplace_back(kube_text(value, {}));
  }
  terms_.push_back(std::move(term));
}

bool KubeSelector::matches(const KubeLabels& labels) const {
  if (terms_.empty()) return empty_matches_;
  return std::all_of(terms_.begin(), terms_.end(), [&](const Term& term) {
    const std::optional<std::string_view> value = labels.get(term.key);
    const bool among =
        value && std::find(term.values.begin(), term.values.end(), *value) != term.values.end();
    switch (term.how) {
      case Operator::kIn:
        return among;
      case Operator::kNotIn:
        return !among;
      case Operator::kExists:
        return value.has_value();
      case Operator::kDoesNotExist:
        return !value.has_value();
      case Operator::kNone:
        return false;
    }
    return false;
  });
}

}  // namespace monkeytree
