#pragma once

#include <simdjson.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace monkeytree {

/// Labels or annotations of one object, in one piece of memory: a cluster has millions of them.
class KubeLabels {
 public:
  KubeLabels() = default;
  /// In any order; of a key given twice the first counts.
  explicit KubeLabels(std::vector<std::pair<std::string_view, std::string_view>> fields);

  /// O(labels).
  std::optional<std::string_view> get(std::string_view key) const;
  bool empty() const { return packed_.empty(); }
  /// In the order of their keys.
  std::vector<std::pair<std::string_view, std::string_view>> fields() const;
  friend bool operator==(const KubeLabels&, const KubeLabels&) = default;

 private:
  std::string packed_;  ///< key, NUL, value, NUL, …; neither may hold a NUL in Kubernetes
};

/// What a LabelSelector asks of labels.
class KubeSelector {
 public:
  enum class Operator : unsigned char { kIn, kNotIn, kExists, kDoesNotExist, kNone };

  KubeSelector() = default;
  /// What it cannot read matches nothing. `empty_matches`: what a selector without terms does.
  KubeSelector(simdjson::dom::element selector, bool empty_matches);

  bool matches(const KubeLabels& labels) const;
  friend bool operator==(const KubeSelector&, const KubeSelector&) = default;

 private:
  struct Term {
    std::string key;
    Operator how = Operator::kNone;
    std::vector<std::string> values;
    friend bool operator==(const Term&, const Term&) = default;
  };
  void add_expression(simdjson::dom::element expression);

  std::vector<Term> terms_;
  bool empty_matches_ = false;
};

}  // namespace monkeytree
