#pragma once

#include <simdjson.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kubernetes/kinds.h"
#include "kubernetes/labels.h"

/// What a snapshot needs of Kubernetes' objects, and no more: objects are large, and there are
/// many.
namespace monkeytree {

/// What the readers must know of a configuration.
struct KubeReadRules {
  std::string gpu_resource = "nvidia.com/gpu";
  /// Jobs move only where they say so, by kMovesAnnotation.
  bool only_allowed = false;
};

struct KubeTaint {
  std::string key, value, effect;
  friend bool operator==(const KubeTaint&, const KubeTaint&) = default;
};

struct KubeNode {
  std::string name;
  KubeLabels labels;
  int gpus = 0;
  bool ready = false;
  bool unschedulable = false;
  std::vector<KubeTaint> taints;
  friend bool operator==(const KubeNode&, const KubeNode&) = default;
};

/// The object that controls another.
struct KubeOwnerRef {
  std::string kind, group, name;
  bool is(std::string_view a_kind, std::string_view a_group) const {
    return kind == a_kind && group == a_group;
  }
  friend bool operator==(const KubeOwnerRef&, const KubeOwnerRef&) = default;
};

/// A pod that holds GPUs, or may by claims that we cannot count.
struct KubePod {
  std::string space, name, uid, node;  ///< `node` is "" until it is bound
  int gpus = 0;
  bool terminating = false;
  bool counts_unknown = false;  ///< holds devices by resource claims
  std::optional<double> start_s;
  KubeOwnerRef owner;                      ///< its kind is "" where nothing controls the pod
  KubeLabels labels, annotations;          ///< of annotations those that are used
  std::vector<std::string> claims;         ///< persistent volume claims
  std::vector<std::string> selector_keys;  ///< node labels that it selects by, ascending
  std::string pinned;                      ///< why it must not move, by its own words; or ""

  std::string key() const { return space + "/" + name; }
  /// A label, else an annotation of that name, else "".
  std::string_view mark(std::string_view name_of_mark) const;
  friend bool operator==(const KubePod&, const KubePod&) = default;
};

/// What controls pods, directly or not.
struct KubeOwner {
  KubeKind kind = KubeKind::kJob;
  std::string space, name;
  KubeOwnerRef owner;
  std::string comment;             ///< our annotation
  bool allows_moves = false;       ///< our other one
  bool ended = false;              ///< or about to be: its pods do not come back
  std::string keeps;               ///< why its pods must stay; "" where one may be moved
  std::vector<std::string> tasks;  ///< of a Volcano Job, in order
  friend bool operator==(const KubeOwner&, const KubeOwner&) = default;
};

struct KubeClaim {
  std::string space, name, volume;
  bool many_nodes = false;  ///< may be mounted by several nodes at once
  friend bool operator==(const KubeClaim&, const KubeClaim&) = default;
};

struct KubeVolume {
  std::string name;
  bool local = false;  ///< is on a node
  friend bool operator==(const KubeVolume&, const KubeVolume&) = default;
};

struct KubeBudget {
  std::string space, name;
  KubeSelector pods;
  int64_t allowed = 0;  ///< disruptions, now
  friend bool operator==(const KubeBudget&, const KubeBudget&) = default;
};

/// Kueue's levels of labels, root to leaf.
struct KubeTopology {
  std::string name;
  std::vector<std::string> levels;
  friend bool operator==(const KubeTopology&, const KubeTopology&) = default;
};

/// Volcano's part of a fabric.
struct KubeHyperNode {
  std::string name;
  int64_t tier = 0;                                        ///< 1 is a leaf
  std::vector<std::string> nodes;                          ///< members by exact name
  std::vector<std::string> hyper_nodes;                    ///< members by exact name
  std::vector<KubeSelector> node_labels;                   ///< members by their labels
  std::vector<std::string> node_patterns, hyper_patterns;  ///< members by regular expressions
  friend bool operator==(const KubeHyperNode&, const KubeHyperNode&) = default;
};

/// How many pods of a set Kueue has admitted in which domains.
struct KubeAssignment {
  std::vector<std::string> levels;                   ///< node labels, root to leaf
  std::map<std::vector<std::string>, int64_t> pods;  ///< by values of those labels
  bool in_slices = false;                            ///< written in the later form
  friend bool operator==(const KubeAssignment&, const KubeAssignment&) = default;
};

/// Kueue's word for a job.
struct KubeWorkload {
  std::string space, name;
  KubeOwnerRef owner;  ///< the job
  std::vector<KubeAssignment> assignments;
  friend bool operator==(const KubeWorkload&, const KubeWorkload&) = default;
};

/// The JSON path within the object and what is wrong there.
struct KubeFault {
  std::string path, message;
};

struct KubePut {
  std::optional<KubeFault> fault;
  bool changed = false;  ///< what is known of the cluster is not what it was
};

/// All objects of a cluster that matter. What is namespaced goes by "namespace/name".
struct KubeFacts {
  template <class T>
  using ByName = std::map<std::string, T, std::less<>>;

  ByName<KubeNode> nodes;
  ByName<KubePod> pods;  ///< that are bound or may be, and hold devices; ended ones are left out
  std::map<KubeKind, ByName<KubeOwner>> owners;
  ByName<KubeClaim> claims;
  ByName<KubeVolume> volumes;
  ByName<KubeBudget> budgets;
  ByName<KubeTopology> topologies;
  ByName<KubeHyperNode> hyper_nodes;
  ByName<KubeWorkload> workloads;
  ByName<int64_t> gangs;  ///< of KAI: the fewest members with which they go on

  /// Takes the object in, in place of what had its name; one with a fault is not kept.
  KubePut put(KubeKind kind, simdjson::dom::element object, const KubeReadRules& rules);
  /// True where there was such an object.
  bool remove(KubeKind kind, const std::string& key);
  /// Keys of all objects of that kind, ascending.
  std::vector<std::string> keys(KubeKind kind) const;
  /// An owner of that kind; null where it is not known.
  const KubeOwner* owner(KubeKind kind, const std::string& key) const;
};

/// Pods with GPUs that one cluster may have.
inline constexpr size_t kMaxKubePods = size_t{1} << 18;

/// "namespace/name", or "name" where there is no namespace; "" where there is no name.
std::string kube_key(simdjson::dom::element object);

/// Our annotation, on a job or its pods: the words of a Slurm job's comment (docs/kubernetes.md).
inline constexpr std::string_view kCommentAnnotation = "monkeytree/comment";
/// Of the pods of a Job whose pods have indices, written by Kubernetes.
inline constexpr std::string_view kIndexAnnotation = "batch.kubernetes.io/job-completion-index";

}  // namespace monkeytree
