#include "kubernetes/grouping.h"

#include <absl/strings/numbers.h>
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/json.h"
#include "kubernetes/moves.h"

namespace monkeytree {
namespace {

/// The number at the end of "trainer-12"; nullopt where there is none.
std::optional<std::string_view> ordinal_of(std::string_view name) {
  const size_t dash = name.rfind('-');
  if (dash == std::string_view::npos || dash + 1 == name.size()) return std::nullopt;
  const std::string_view digits = name.substr(dash + 1);
  const bool number =
      std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; });
  return number ? std::optional(digits) : std::nullopt;
}

/// A step in which some texts come before others.
PodRankStep ordered_step(std::string_view text, const std::vector<std::string>& order) {
  const auto found = std::find(order.begin(), order.end(), text);
  if (found == order.end()) return rank_step(text);
  return {false, found - order.begin(), ""};
}

bool fits(const PodGroupingRow& row, const KubePod& pod) {
  if (!row.name_mark.empty() && pod.mark(row.name_mark).empty()) return false;
  return pod.owner.is(row.owner, row.owner_group);
}

void rank(const PodGroupingRow& row, const KubePod& pod, const KubeOwner* job, PodPlace& place) {
  static const std::vector<std::string> kMasters = {"master", "launcher", "leader"};
  const std::vector<std::string>& order = job && !job->tasks.empty() ? job->tasks : kMasters;
  for (const std::string_view mark : row.rank_marks) {
    std::string_view value = pod.mark(mark);
    if (value.empty() && row.kind == KubeKind::kStatefulSet) {
      value = ordinal_of(pod.name).value_or("");
    }
    if (value.empty()) place.ranked = false;
    place.rank.push_back(ordered_step(value, order));
  }
  // Pods of equal rank, and those without, go by their names.
  const std::string_view name = pod.annotations.get(kPlaceAnnotation).value_or(pod.name);
  const std::optional<std::string_view> ordinal = ordinal_of(name);
  if (ordinal) {
    place.rank.push_back({true, 0, std::string(name.substr(0, name.size() - ordinal->size()))});
    place.rank.push_back(rank_step(*ordinal));
  } else {
    place.rank.push_back({true, 0, std::string(name)});
  }
}

/// Why pods of this job must stay; `owner` controls the pod.
std::string keeps(const PodGroupingRow& row, const KubeOwner* owner, const KubeOwner* job) {
  using Decides = PodGroupingRow::Decides;
  if (row.decides == Decides::kAlwaysMay) return "";
  if (row.decides == Decides::kNeverMay) return std::string(row.never);
  const KubeOwner* decides = row.decides == Decides::kOwner ? owner : job;
  if (decides == nullptr) {
    return fmt::format("its {} is not known, which tells what the loss of a pod does",
                       row.decides == Decides::kOwner ? row.owner : row_of(row.kind).name);
  }
  return decides->keeps;
}

PodPlace unknown_place(const KubePod& pod) {
  PodPlace place;
  place.known = false;
  place.job = fmt::format("{}.pod.{}", pod.space, pod.name);
  place.name = pod.name;
  place.keeps = pod.owner.kind.empty()
                    ? "nobody would make the pod anew"
                    : fmt::format("what the loss of a pod does to a {} is not known",
                                  printable(pod.owner.kind));
  return place;
}

}  // namespace

PodRankStep rank_step(std::string_view text) {
  int64_t number = 0;
  const bool digits = !text.empty() && std::all_of(text.begin(), text.end(),
                                                   [](char c) { return c >= '0' && c <= '9'; });
  if (digits && absl::SimpleAtoi(absl::string_view(text.data(), text.size()), &number)) {
    return {false, number, ""};
  }
  return {true, 0, std::string(text)};
}

std::span<const PodGroupingRow> pod_grouping() {
  using Decides = PodGroupingRow::Decides;
  static const std::vector<PodGroupingRow> kRows = {
      {KubeKind::kJobSet,
       "jobset",
       "Job",
       "batch",
       "jobset.sigs.k8s.io/jobset-name",
       "jobset.sigs.k8s.io/replicatedjob-name",
       {"jobset.sigs.k8s.io/job-index", kIndexAnnotation},
       Decides::kOwner},
      {KubeKind::kJob, "job", "Job", "batch", "", "", {kIndexAnnotation}, Decides::kOwner},
      {KubeKind::kLeaderWorkerSet,
       "leaderworkerset",
       "StatefulSet",
       "apps",
       "leaderworkerset.sigs.k8s.io/name",
       "leaderworkerset.sigs.k8s.io/group-index",
       {"leaderworkerset.sigs.k8s.io/worker-index"},
       Decides::kJob},
      {KubeKind::kStatefulSet,
       "statefulset",
       "StatefulSet",
       "apps",
       "",
       "",
       {"apps.kubernetes.io/pod-index"},
       Decides::kAlwaysMay},
      {KubeKind::kPyTorchJob,
       "pytorchjob",
       "PyTorchJob",
       "kubeflow.org",
       "training.kubeflow.org/job-name",
       "",
       {"training.kubeflow.org/replica-type", "training.kubeflow.org/replica-index"},
       Decides::kAlwaysMay},
      {KubeKind::kVolcanoJob,
       "volcanojob",
       "Job",
       "batch.volcano.sh",
       "volcano.sh/job-name",
       "",
       {"volcano.sh/task-spec", "volcano.sh/task-index"},
       Decides::kJob},
      {KubeKind::kPod,
       "podgroup",
       "",
       "",
       "kueue.x-k8s.io/pod-group-name",
       "",
       {"kueue.x-k8s.io/pod-group-pod-index"},
       Decides::kNeverMay,
       "nobody makes the pods of a Kueue pod group anew"},
  };
  return kRows;
}

PodPlace place_of(const KubePod& pod, const KubeFacts& facts) {
  const std::span<const PodGroupingRow> rows = pod_grouping();
  const auto row =
      std::find_if(rows.begin(), rows.end(), [&](const auto& each) { return fits(each, pod); });
  if (row == rows.end()) return unknown_place(pod);
  PodPlace place;
  place.name = row->name_mark.empty() ? pod.owner.name : std::string(pod.mark(row->name_mark));
  place.job = fmt::format("{}.{}.{}", pod.space, row->word, place.name);
  const KubeOwner* job = facts.owner(row->kind, fmt::format("{}/{}", pod.space, place.name));
  const KubeOwner* owner = job;
  if (row->owner != row_of(row->kind).name) {
    const KubeKind kind = row->owner == "Job" ? KubeKind::kJob : KubeKind::kStatefulSet;
    owner = facts.owner(kind, fmt::format("{}/{}", pod.space, pod.owner.name));
  }
  if (!row->group_mark.empty()) place.group = rank_step(pod.mark(row->group_mark));
  rank(*row, pod, job, place);
  place.keeps = keeps(*row, owner, job);
  place.allows_moves = pod.annotations.get(kMovesAnnotation) == kMovesAllowed ||
                       (job && job->allows_moves) || (owner && owner->allows_moves);
  place.comment = pod.annotations.get(kCommentAnnotation).value_or("");
  if (place.comment.empty() && job) place.comment = job->comment;
  if (place.comment.empty() && owner) place.comment = owner->comment;
  return place;
}

}  // namespace monkeytree
