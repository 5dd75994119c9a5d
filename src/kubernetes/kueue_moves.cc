#include "kubernetes/kueue_moves.h"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "kubernetes/grouping.h"
#include "kubernetes/reading.h"

namespace monkeytree {
namespace {

using Json = nlohmann::ordered_json;
using Values = std::vector<std::string>;
using simdjson::dom::element;

/// What is known of a job's books and of where its pods are.
struct Books {
  std::string workload;  ///< its name; "" where Kueue does not book the job by domains
  Values wanted;         ///< domain of the node that the worker goes to
  std::map<Values, int64_t> elsewhere;  ///< pods of the job's other workers, by domain
};

Values domain_of(const KubeFacts& facts, const std::string& node, const Values& levels) {
  Values out;
  const auto known = facts.nodes.find(node);
  for (const std::string& level : levels) {
    const bool there = known != facts.nodes.end();
    out.emplace_back(there ? known->second.labels.get(level).value_or("") : "");
  }
  return out;
}

const KubeWorkload* workload_of(const KubeFacts& facts, const std::string& job) {
  for (const auto& [key, workload] : facts.workloads) {
    for (const PodGroupingRow& row : pod_grouping()) {
      const KubeKindRow& kind = row_of(row.kind);
      if (workload.owner.is(kind.name, kind.group) &&
          job == fmt::format("{}.{}.{}", workload.space, row.word, workload.owner.name)) {
        return &workload;
      }
    }
  }
  return nullptr;
}

Books books_of(const KubeFacts& facts, const KubeMove& move) {
  Books books;
  const KubeWorkload* workload = workload_of(facts, move.worker.job);
  if (workload == nullptr || workload->assignments.empty()) return books;
  books.workload = workload->name;
  const Values& levels = workload->assignments.front().levels;
  books.wanted = domain_of(facts, move.to, levels);
  for (const auto& [key, pod] : facts.pods) {
    const bool of_worker = pod.uid == move.uid ||
                           pod.annotations.get(kPlaceAnnotation).value_or(pod.name) == move.place;
    if (pod.space != move.space || of_worker || pod.node.empty()) continue;
    if (place_of(pod, facts).job != move.worker.job) continue;
    ++books.elsewhere[domain_of(facts, pod.node, levels)];
  }
  return books;
}

/// Where in the object the domain stands that nobody is in any more; "" where there is none.
std::string left_domain(element object, Books books, Values& values) {
  size_t set = 0;
  for (const element each :
       kube_items(kube_at(object, {"status", "admission", "podSetAssignments"}))) {
    size_t index = 0;
    for (const element domain : kube_items(kube_at(each, {"topologyAssignment", "domains"}))) {
      values.clear();
      for (const element value : kube_items(kube_at(domain, {"values"}))) {
        values.emplace_back(kube_text(value, {}));
      }
      const int64_t count = kube_number(domain, {"count"}).value_or(0);
      int64_t& others = books.elsewhere[values];
      others -= count;
      if (others < 0) {
        return count == 1
                   ? fmt::format(
                         "/status/admission/podSetAssignments/{}/topologyAssignment/domains/{}/"
                         "values",
                         set, index)
                   : "";
      }
      ++index;
    }
    ++set;
  }
  return "";
}

}  // namespace

absl::Status follow_in_kueue(KubeCalls& calls, const KubeClusterWatch& watch,
                             const KubeMove& move) {
  Books books;
  watch.with_facts([&](const KubeFacts& facts) { books = books_of(facts, move); });
  if (books.workload.empty()) return absl::OkStatus();
  std::string path;
  absl::StatusOr<element> object = absl::NotFoundError("");
  for (const std::string_view version : row_of(KubeKind::kWorkload).versions) {
    path = fmt::format("/apis/kueue.x-k8s.io/{}/namespaces/{}/workloads/{}", version, move.space,
                       books.workload);
    object = calls.get(path);
    if (!absl::IsNotFound(object.status())) break;
  }
  if (!object.ok()) return with_context(object.status(), "Kueue's books");
  Values old;
  const std::string at = left_domain(*object, books, old);
  if (at.empty()) {
    return absl::FailedPreconditionError(
        fmt::format("Kueue's books of {} have no domain that only the worker is in",
                    printable(books.workload)));
  }
  if (old == books.wanted) return absl::OkStatus();
  const Json patch = Json::array({{{"op", "test"}, {"path", at}, {"value", old}},
                                  {{"op", "replace"}, {"path", at}, {"value", books.wanted}}});
  return with_context(
      calls.change("PATCH", path + "/status", patch.dump(), "application/json-patch+json"),
      "Kueue's books");
}

}  // namespace monkeytree
