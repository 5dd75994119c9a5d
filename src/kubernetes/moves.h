#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "cluster/worker_name.h"
#include "kubernetes/objects.h"

/// What Kubernetes keeps of a move that is under way, and how a new pod is sent to where it
/// belongs. docs/kubernetes.md, "Moving".
namespace monkeytree {

/// A worker between its pod of before and the next one. Kept in an object of its own (a ConfigMap)
/// from before the pod is evicted until the worker runs again, so that a restart changes nothing.
struct KubeMove {
  std::string id;  ///< of the object; follows from the worker
  WorkerName worker;
  std::string space;         ///< namespace of the pods
  KubeOwnerRef owner;        ///< makes the pod anew
  std::string pod, uid;      ///< that leaves
  std::string from;          ///< its node
  std::string index;         ///< completion index of a Job's pod, or ""
  std::string place;         ///< name by which the pod counts in the order of its job
  std::string siblings;      ///< uids of the owner's other pods then, with a blank each
  std::string to, hostname;  ///< where the next pod belongs, and that node's label; "": staged
  std::string successor_of;  ///< migration that the next pod is for; "" until it may come
  std::string version;       ///< resourceVersion of the object, "" before there is one

  /// Pods made by the owner in place of the one that left; of a Job without indices any new one.
  bool replaced_by(const KubeOwnerRef& by, std::string_view in_space, std::string_view name,
                   std::string_view completion_index) const;
};

std::string kube_move_id(const WorkerName& worker);

/// The object's JSON, and back; nullopt where it is none of ours.
std::string write_kube_move(const KubeMove& move, const std::string& in_space);
std::optional<KubeMove> read_kube_move(simdjson::dom::element object);

/// What the server asks about a pod that is about to be made.
struct KubeAdmission {
  std::string uid;  ///< of the question
  std::string space, name;
  KubeOwnerRef owner;
  std::string index;
};
/// nullopt where the text is no question about a new pod; `uid` is told whenever there is one.
std::optional<KubeAdmission> read_kube_admission(std::string_view review, std::string& uid);
/// Lets the pod be made as it is.
std::string admit(const std::string& uid);
/// Not now; its controller will ask again.
std::string refuse_admission(const std::string& uid, const std::string& why);
/// Lets it be made for the move: it selects the node, may go where others may not, and its
/// containers are told whose successor they are. Only what the review shows to be missing is added.
std::string admit_to(const std::string& review, const KubeMove& move);

/// Jobs, or their pods, that may be moved have this with the value "allowed".
inline constexpr std::string_view kMovesAnnotation = "monkeytree/moves";
inline constexpr std::string_view kMovesAllowed = "allowed";
/// On a pod that was sent to its node: the migration it is for.
inline constexpr std::string_view kSuccessorAnnotation = "monkeytree/successor-of";
/// On such a pod: the name by which it counts in the order of its job.
inline constexpr std::string_view kPlaceAnnotation = "monkeytree/in-place-of";
/// The taint of nodes that are kept for moves; its value says for which plan or move.
inline constexpr std::string_view kHoldTaint = "monkeytree/held";

}  // namespace monkeytree
