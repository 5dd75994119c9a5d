#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kubernetes/objects.h"

/// Which job a pod belongs to, which group of it, and at which place.
namespace monkeytree {

/// One step of an order: numbers by value, before texts.
struct PodRankStep {
  bool is_text = false;
  int64_t number = 0;
  std::string text;
  friend auto operator<=>(const PodRankStep&, const PodRankStep&) = default;
};

struct PodPlace {
  std::string job;   ///< "namespace.kind.name"
  std::string name;  ///< of the job
  PodRankStep group;
  std::vector<PodRankStep> rank;
  bool ranked = true;   ///< false: the pods carry no rank, they go by their names
  bool known = true;    ///< false: of a kind that is not known, it occupies its slots and no more
  std::string comment;  ///< our annotation, on the pod or the job
  bool allows_moves = false;  ///< our other one
  std::string keeps;          ///< why the job's pods must stay; "" where one may be moved
};

/// A row of the table by which pods become jobs.
struct PodGroupingRow {
  KubeKind kind;                 ///< of the job
  std::string_view word;         ///< that stands for it in a job's id
  std::string_view owner;        ///< kind of what controls the pods; "" for pods on their own
  std::string_view owner_group;  ///< of its API
  std::string_view name_mark;    ///< label with the job's name; "": the name of the owner
  std::string_view group_mark;   ///< label whose value parts the job's groups; "": one group
  std::vector<std::string_view> rank_marks;  ///< labels, compared in this order
  /// What decides whether one pod may be taken away: the owner, the job, or neither.
  enum class Decides : uint8_t { kOwner, kJob, kAlwaysMay, kNeverMay } decides;
  std::string_view never = {};  ///< the reason with kNeverMay
};

/// The first row that fits counts.
std::span<const PodGroupingRow> pod_grouping();

PodPlace place_of(const KubePod& pod, const KubeFacts& facts);

/// Names by their parts, numbers by value: "w-2" before "w-10".
PodRankStep rank_step(std::string_view text);

}  // namespace monkeytree
