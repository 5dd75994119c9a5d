#include "kubernetes/workload_books.h"

#include <algorithm>
#include <map>
#include <utility>

#include "kubernetes/pods.h"
#include "kubernetes/reading.h"

namespace monkeytree {
namespace {

using simdjson::dom::element;

/// Domains of one workload that are read at most, and pods in one of them; a cluster has no more.
constexpr int64_t kMost = 1 << 18;

int64_t limited(int64_t pods) { return std::clamp<int64_t>(pods, 0, kMost); }

/// The values of a slice's domains at one level: one for all, or a root each between prefix and
/// suffix.
struct LevelValues {
  explicit LevelValues(element level)
      : all(kube_text(level, {"universal"})),
        prefix(kube_text(level, {"individual", "prefix"})),
        suffix(kube_text(level, {"individual", "suffix"})),
        roots(kube_items(kube_at(level, {"individual", "roots"}))) {}

  std::string of(size_t domain) const {
    if (!all.empty()) return std::string(all);
    std::string out(prefix);
    if (domain < roots.size()) out += kube_text(roots[domain], {});
    return out.append(suffix);
  }

  std::string_view all, prefix, suffix;
  std::vector<element> roots;
};

/// Takes from `left` as many domains as the slice has.
void add_slice(element slice, int64_t& left, KubeAssignment& assignment) {
  std::vector<LevelValues> levels;
  for (const element level : kube_items(kube_at(slice, {"valuesPerLevel"}))) {
    levels.emplace_back(level);
  }
  const auto each = kube_number(slice, {"podCounts", "universal"});
  const std::vector<element> counts = kube_items(kube_at(slice, {"podCounts", "individual"}));
  const int64_t domains =
      std::clamp<int64_t>(kube_number(slice, {"domainCount"}).value_or(0), 0, left);
  left -= domains;
  for (size_t i = 0; i < static_cast<size_t>(domains); ++i) {
    std::vector<std::string> values;
    for (const LevelValues& level : levels) values.push_back(level.of(i));
    const int64_t own = i < counts.size() ? kube_number(counts[i], {}).value_or(0) : 0;
    assignment.pods[std::move(values)] += limited(each.value_or(own));
  }
}

}  // namespace

KubeWorkload read_kube_workload(element object) {
  KubeWorkload workload;
  workload.owner = controller_of(object);
  int64_t left = kMost;
  const auto sets = kube_at(object, {"status", "admission", "podSetAssignments"});
  for (const element set : kube_items(sets)) {
    const auto books = kube_at(set, {"topologyAssignment"});
    if (!books) continue;
    KubeAssignment assignment;
    for (const element level : kube_items(kube_at(books, {"levels"}))) {
      assignment.levels.emplace_back(kube_text(level, {}));
    }
    for (const element domain : kube_items(kube_at(books, {"domains"}))) {
      std::vector<std::string> values;
      for (const element value : kube_items(kube_at(domain, {"values"}))) {
        values.emplace_back(kube_text(value, {}));
      }
      assignment.pods[std::move(values)] += limited(kube_number(domain, {"count"}).value_or(0));
    }
    for (const element slice : kube_items(kube_at(books, {"slices"}))) {
      assignment.in_slices = true;
      add_slice(slice, left, assignment);
    }
    workload.assignments.push_back(std::move(assignment));
  }
  return workload;
}

std::string books_stay(const KubeWorkload& workload) {
  for (const KubeAssignment& assignment : workload.assignments) {
    if (assignment.in_slices) return "Kueue's books of it are written in slices";
    for (const auto& [values, count] : assignment.pods) {
      if (count > 1) return "Kueue books several of its pods in one domain";
    }
  }
  return "";
}

std::string books_fault(const KubeWorkload& workload, const std::vector<const KubePod*>& pods,
                        const KubeFacts& facts) {
  if (workload.assignments.empty()) return "";
  // Pods do not say which set of the workload they are of; what counts is their sum.
  std::map<std::vector<std::string>, int64_t> booked;
  const std::vector<std::string>& levels = workload.assignments.front().levels;
  for (const KubeAssignment& assignment : workload.assignments) {
    if (assignment.levels != levels) return "Kueue's books place its pods by several topologies";
    for (const auto& [values, count] : assignment.pods) booked[values] += count;
  }
  for (const KubePod* pod : pods) {
    std::vector<std::string> values;
    const auto node = facts.nodes.find(pod->node);
    for (const std::string& level : levels) {
      values.emplace_back(node == facts.nodes.end() ? ""
                                                    : node->second.labels.get(level).value_or(""));
    }
    if (--booked[std::move(values)] < 0) return "Kueue's books place its pods elsewhere";
  }
  return "";
}

}  // namespace monkeytree
