#include "kubernetes/objects.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/json.h"
#include "base/json_syntax.h"
#include "kubernetes/owners.h"
#include "kubernetes/pods.h"
#include "kubernetes/reading.h"
#include "kubernetes/workload_books.h"

namespace monkeytree {
namespace {

using simdjson::dom::element;

KubeNode read_node(element object, const KubeReadRules& rules, std::optional<KubeFault>& fault) {
  KubeNode node;
  node.name = kube_text(object, {"metadata", "name"});
  node.labels = KubeLabels(kube_texts(kube_at(object, {"metadata", "labels"})));
  node.unschedulable = kube_true(object, {"spec", "unschedulable"});
  for (const element taint : kube_items(kube_at(object, {"spec", "taints"}))) {
    node.taints.push_back({std::string(kube_text(taint, {"key"})),
                           std::string(kube_text(taint, {"value"})),
                           std::string(kube_text(taint, {"effect"}))});
  }
  for (const element condition : kube_items(kube_at(object, {"status", "conditions"}))) {
    if (kube_text(condition, {"type"}) != "Ready") continue;
    node.ready = kube_text(condition, {"status"}) == "True";
  }
  for (const char* field : {"allocatable", "capacity"}) {
    const auto quantity = kube_at(object, {"status", field, rules.gpu_resource});
    if (!quantity) continue;
    const std::optional<int> gpus = kube_quantity(*quantity);
    if (gpus) {
      node.gpus = *gpus;
    } else {
      fault = KubeFault{fmt::format("/status/{}/{}", field, pointer_step(rules.gpu_resource)),
                        "expected a whole number of GPUs"};
    }
    break;
  }
  return node;
}

KubeClaim read_claim(element object) {
  KubeClaim claim;
  claim.volume = kube_text(object, {"spec", "volumeName"});
  for (const element mode : kube_items(kube_at(object, {"spec", "accessModes"}))) {
    const std::string_view text = kube_text(mode, {});
    claim.many_nodes |= text == "ReadWriteMany" || text == "ReadOnlyMany";
  }
  return claim;
}

/// On a node: its kind says so, or it may be used on some nodes by their names only.
bool is_local(element volume) {
  if (kube_at(volume, {"spec", "local"}) || kube_at(volume, {"spec", "hostPath"})) return true;
  const auto terms = kube_at(volume, {"spec", "nodeAffinity", "required", "nodeSelectorTerms"});
  for (const element term : kube_items(terms)) {
    for (const element expression : kube_items(kube_at(term, {"matchExpressions"}))) {
      if (kube_text(expression, {"key"}) == "kubernetes.io/hostname") return true;
    }
    if (!kube_items(kube_at(term, {"matchFields"})).empty()) return true;
  }
  return false;
}

KubeBudget read_budget(element object) {
  KubeBudget budget;
  const bool empty_matches = kube_text(object, {"apiVersion"}) != "policy/v1beta1";
  if (const auto selector = kube_at(object, {"spec", "selector"})) {
    budget.pods = KubeSelector(*selector, empty_matches);
  }
  budget.allowed = kube_number(object, {"status", "disruptionsAllowed"}).value_or(0);
  return budget;
}

KubeTopology read_topology(element object) {
  KubeTopology topology;
  topology.name = kube_text(object, {"metadata", "name"});
  for (const element level : kube_items(kube_at(object, {"spec", "levels"}))) {
    topology.levels.emplace_back(kube_text(level, {"nodeLabel"}));
  }
  return topology;
}

KubeHyperNode read_hyper_node(element object) {
  KubeHyperNode out;
  out.name = kube_text(object, {"metadata", "name"});
  out.tier = kube_number(object, {"spec", "tier"}).value_or(0);
  for (const element member : kube_items(kube_at(object, {"spec", "members"}))) {
    const std::string exact(kube_text(member, {"selector", "exactMatch", "name"}));
    const bool node = kube_text(member, {"type"}) == "Node";
    const std::string pattern(kube_text(member, {"selector", "regexMatch", "pattern"}));
    if (!pattern.empty()) (node ? out.node_patterns : out.hyper_patterns).push_back(pattern);
    if (!exact.empty()) (node ? out.nodes : out.hyper_nodes).push_back(exact);
    if (const auto labels = kube_at(member, {"selector", "labelMatch"}); labels && node) {
      out.node_labels.emplace_back(*labels, /*empty_matches=*/false);
    }
  }
  return out;
}

/// Anything with a namespace and a name.
template <class T>
T named(T thing, element object) {
  thing.space = kube_text(object, {"metadata", "namespace"});
  thing.name = kube_text(object, {"metadata", "name"});
  return thing;
}

}  // namespace

std::string kube_key(element object) {
  const std::string_view name = kube_text(object, {"metadata", "name"});
  const std::string_view space = kube_text(object, {"metadata", "namespace"});
  if (space.empty() || name.empty()) return std::string(name);
  return fmt::format("{}/{}", space, name);
}

std::string_view KubePod::mark(std::string_view name_of_mark) const {
  if (const auto label = labels.get(name_of_mark)) return *label;
  return annotations.get(name_of_mark).value_or("");
}

namespace {

/// Puts a value in place of what stands there; true where that is news.
template <class T>
bool replace(KubeFacts::ByName<T>& map, const std::string& key, T value) {
  const auto [at, is_new] = map.try_emplace(key);
  if (!is_new && at->second == value) return false;
  at->second = std::move(value);
  return true;
}

}  // namespace

KubePut KubeFacts::put(KubeKind kind, element object, const KubeReadRules& rules) {
  const std::string key = kube_key(object);
  if (key.empty()) {
    return {KubeFault{"/metadata", "no name, expected an object of Kubernetes"}, false};
  }
  std::optional<KubeFault> fault;
  switch (kind) {
    case KubeKind::kNode: {
      KubeNode node = read_node(object, rules, fault);
      if (!fault) return {std::nullopt, replace(nodes, key, std::move(node))};
      break;
    }
    case KubeKind::kPod: {
      std::optional<KubePod> pod = read_kube_pod(object, rules, fault);
      if (pod && pods.size() >= kMaxKubePods && !pods.contains(key)) {
        fault = KubeFault{"", fmt::format("more than {} pods with GPUs", kMaxKubePods)};
      }
      if (pod && !fault) return {std::nullopt, replace(pods, key, *std::move(pod))};
      break;
    }
    case KubeKind::kClaim:
      return {std::nullopt, replace(claims, key, named(read_claim(object), object))};
    case KubeKind::kVolume:
      return {std::nullopt, replace(volumes, key, KubeVolume{key, is_local(object)})};
    case KubeKind::kBudget:
      return {std::nullopt, replace(budgets, key, named(read_budget(object), object))};
    case KubeKind::kTopology:
      return {std::nullopt, replace(topologies, key, read_topology(object))};
    case KubeKind::kHyperNode:
      return {std::nullopt, replace(hyper_nodes, key, read_hyper_node(object))};
    case KubeKind::kWorkload:
      return {std::nullopt, replace(workloads, key, named(read_kube_workload(object), object))};
    case KubeKind::kPodGroup: {
      const int64_t fewest = kube_number(object, {"spec", "minMember"}).value_or(1);
      return {std::nullopt, replace(gangs, key, fewest)};
    }
    default:
      return {std::nullopt,
              replace(owners[kind], key, named(read_kube_owner(kind, object), object))};
  }
  return {std::move(fault), remove(kind, key)};
}

namespace {

/// The map of one kind, handed to `use`.
template <class Facts, class Use>
auto with_kind(Facts& facts, KubeKind kind, Use use) {
  switch (kind) {
    case KubeKind::kNode:
      return use(facts.nodes);
    case KubeKind::kPod:
      return use(facts.pods);
    case KubeKind::kClaim:
      return use(facts.claims);
    case KubeKind::kVolume:
      return use(facts.volumes);
    case KubeKind::kBudget:
      return use(facts.budgets);
    case KubeKind::kTopology:
      return use(facts.topologies);
    case KubeKind::kHyperNode:
      return use(facts.hyper_nodes);
    case KubeKind::kWorkload:
      return use(facts.workloads);
    case KubeKind::kPodGroup:
      return use(facts.gangs);
    default:
      break;
  }
  const auto owners = facts.owners.find(kind);
  if (owners != facts.owners.end()) return use(owners->second);
  static KubeFacts::ByName<KubeOwner> none;
  return use(none);
}

}  // namespace

bool KubeFacts::remove(KubeKind kind, const std::string& key) {
  return with_kind(*this, kind, [&](auto& map) { return map.erase(key) > 0; });
}

std::vector<std::string> KubeFacts::keys(KubeKind kind) const {
  return with_kind(*this, kind, [](const auto& map) {
    std::vector<std::string> out;
    for (const auto& [key, value] : map) out.push_back(key);
    return out;
  });
}

const KubeOwner* KubeFacts::owner(KubeKind kind, const std::string& key) const {
  const auto of_kind = owners.find(kind);
  if (of_kind == owners.end()) return nullptr;
  const auto found = of_kind->second.find(key);
  return found == of_kind->second.end() ? nullptr : &found->second;
}

}  // namespace monkeytree
