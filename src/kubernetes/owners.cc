#include "kubernetes/owners.h"

#include <string>
#include <string_view>

#include "kubernetes/moves.h"
#include "kubernetes/pods.h"
#include "kubernetes/reading.h"

namespace monkeytree {
namespace {

using simdjson::dom::element;

/// A pod that goes by the Eviction API has the condition DisruptionTarget.
bool ignores_disruption(element job) {
  for (const element rule : kube_items(kube_at(job, {"spec", "podFailurePolicy", "rules"}))) {
    if (kube_text(rule, {"action"}) != "Ignore") continue;
    for (const element condition : kube_items(kube_at(rule, {"onPodConditions"}))) {
      if (kube_text(condition, {"type"}) == "DisruptionTarget") return true;
    }
  }
  return false;
}

std::string job_keeps(element job) {
  constexpr int64_t kDefaultBackoffLimit = 6;
  if (ignores_disruption(job)) return "";
  if (kube_at(job, {"spec", "backoffLimitPerIndex"})) {
    return "its Job counts failures by index and has no rule to ignore DisruptionTarget";
  }
  const int64_t limit = kube_number(job, {"spec", "backoffLimit"}).value_or(kDefaultBackoffLimit);
  const int64_t failed = kube_number(job, {"status", "failed"}).value_or(0);
  if (failed < limit) return "";
  return "a pod that is moved may count as a failure, and its Job has none left before it fails";
}

std::string group_keeps(element group) {
  const std::string_view policy =
      kube_text(group, {"spec", "leaderWorkerTemplate", "restartPolicy"});
  if (policy == "None") return "";
  return "its LeaderWorkerSet restarts the whole group with one pod (restartPolicy is not None)";
}

/// True where the loss of a pod makes Volcano restart or end more than that pod.
bool spreads(std::optional<element> policies) {
  for (const element policy : kube_items(policies)) {
    const std::string_view action = kube_text(policy, {"action"});
    if (action == "RestartPod" || action == "SyncJob") continue;
    bool concerned = false;
    const auto is_loss = [](std::string_view event) {
      return event == "*" || event == "PodEvicted" || event == "PodFailed";
    };
    concerned = is_loss(kube_text(policy, {"event"}));
    for (const element event : kube_items(kube_at(policy, {"events"}))) {
      concerned |= is_loss(kube_text(event, {}));
    }
    if (concerned) return true;
  }
  return false;
}

std::string volcano_keeps(element job) {
  bool any = spreads(kube_at(job, {"spec", "policies"}));
  for (const element task : kube_items(kube_at(job, {"spec", "tasks"}))) {
    any |= spreads(kube_at(task, {"policies"}));
  }
  if (!any) return "";
  return "a policy of its Volcano Job acts on others when one pod is evicted";
}

bool has_ended(element owner) {
  if (kube_at(owner, {"metadata", "deletionTimestamp"})) return true;
  for (const element condition : kube_items(kube_at(owner, {"status", "conditions"}))) {
    const std::string_view type = kube_text(condition, {"type"});
    const bool last =
        type == "Complete" || type == "Completed" || type == "Failed" || type == "Succeeded";
    if (last && kube_text(condition, {"status"}) == "True") return true;
  }
  return false;
}

}  // namespace

KubeOwner read_kube_owner(KubeKind kind, element object) {
  KubeOwner owner;
  owner.kind = kind;
  owner.owner = controller_of(object);
  if (const auto annotations = kube_at(object, {"metadata", "annotations"})) {
    owner.comment = kube_text(annotations, {kCommentAnnotation});
    owner.allows_moves = kube_text(annotations, {kMovesAnnotation}) == kMovesAllowed;
  }
  owner.ended = has_ended(object);
  if (kind == KubeKind::kJob) owner.keeps = job_keeps(object);
  if (kind == KubeKind::kLeaderWorkerSet) owner.keeps = group_keeps(object);
  if (kind == KubeKind::kVolcanoJob) {
    owner.keeps = volcano_keeps(object);
    for (const element task : kube_items(kube_at(object, {"spec", "tasks"}))) {
      owner.tasks.emplace_back(kube_text(task, {"name"}));
    }
  }
  return owner;
}

}  // namespace monkeytree
