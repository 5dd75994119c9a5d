#include "kubernetes/jobs.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/json.h"
#include "inventory/parallelism.h"
#include "kubernetes/moves.h"
#include "kubernetes/workload_books.h"

namespace monkeytree {
namespace {

struct PlacedPod {
  const KubePod* pod;
  PodPlace place;
};

/// Pods in the order of their ranks become one group a pipeline stage; a pod holds as many ranks as
/// GPUs. O(pods + stages).
std::vector<KubeGroup> stages_of(const std::vector<const KubePod*>& pods, int64_t ranks_per_stage) {
  std::vector<KubeGroup> groups(1);
  std::map<std::string_view, size_t> worker_on;
  int64_t in_stage = 0;
  for (const KubePod* pod : pods) {
    for (int64_t left = pod->gpus; left > 0;) {
      if (in_stage == ranks_per_stage) {
        groups.emplace_back();
        worker_on.clear();
        in_stage = 0;
      }
      std::vector<KubeWorker>& workers = groups.back().workers;
      const auto [at, is_new] = worker_on.emplace(pod->node, workers.size());
      if (is_new) workers.push_back({pod->node, 0, {}});
      KubeWorker& worker = workers[at->second];
      const int64_t here = std::min(left, ranks_per_stage - in_stage);
      worker.gpus += static_cast<int>(here);
      worker.pods.push_back(pod);
      in_stage += here;
      left -= here;
    }
  }
  return groups;
}

class JobsBuilder {
 public:
  JobsBuilder(const KubeFacts& facts, const KubeReadRules& rules, std::string_view source,
              Diagnostics& diagnostics)
      : facts_(facts), rules_(rules), source_(source), diagnostics_(diagnostics) {}

  std::vector<KubeJob> run() {
    for (const auto& [key, workload] : facts_.workloads) index_workload(workload);
    for (const auto& [key, pod] : facts_.pods) {
      if (pod.node.empty() || pod.gpus == 0) continue;
      if (pod.terminating) {
        add_occupant(pod, fmt::format("{}.pod.{}", pod.space, pod.name), "it is ending");
        continue;
      }
      PodPlace place = place_of(pod, facts_);
      if (!place.known) {
        if (pod.annotations.get(kCommentAnnotation)) unread_.push_back(pod.key());
        add_occupant(pod, place.job, place.keeps);
      } else {
        std::vector<PlacedPod>& pods = by_job_[place.job];
        pods.push_back({&pod, std::move(place)});
      }
    }
    for (auto& [id, pods] : by_job_) add_job(id, pods);
    std::sort(jobs_.begin(), jobs_.end(),
              [](const KubeJob& a, const KubeJob& b) { return a.id < b.id; });
    report();
    return std::move(jobs_);
  }

 private:
  /// A workload is of the job that owns it, by the word that stands for the job's kind in ids.
  void index_workload(const KubeWorkload& workload) {
    for (const PodGroupingRow& row : pod_grouping()) {
      const KubeKindRow& kind = row_of(row.kind);
      if (!workload.owner.is(kind.name, kind.group)) continue;
      workloads_[fmt::format("{}.{}.{}", workload.space, row.word, workload.owner.name)] =
          &workload;
    }
  }

  void add_occupant(const KubePod& pod, const std::string& id, std::string why) {
    KubeJob job;
    job.id = id;
    job.name = pod.name;
    job.space = pod.space;
    job.keeps = std::move(why);
    job.known = false;
    job.start_s = pod.start_s;
    job.groups = {KubeGroup{{KubeWorker{pod.node, pod.gpus, {&pod}}}}};
    jobs_.push_back(std::move(job));
  }

  void add_job(const std::string& id, std::vector<PlacedPod>& pods) {
    std::sort(pods.begin(), pods.end(), [](const PlacedPod& a, const PlacedPod& b) {
      return std::tie(a.place.group, a.place.rank) < std::tie(b.place.group, b.place.rank);
    });
    KubeJob job;
    job.id = id;
    job.space = pods.front().pod->space;
    job.name = pods.front().place.name;
    for (const PlacedPod& placed : pods) {
      if (job.comment.empty()) job.comment = placed.place.comment;
      if (job.keeps.empty()) job.keeps = placed.place.keeps;
      job.allowed = job.allowed || placed.place.allows_moves;
      job.ranked = job.ranked && placed.place.ranked;
      const std::optional<double>& start_s = placed.pod->start_s;
      if (start_s && (!job.start_s || *start_s < *job.start_s)) job.start_s = start_s;
    }
    if (!job.ranked) unranked_.push_back(id);
    if (const auto books = workloads_.find(id); books != workloads_.end() && job.keeps.empty()) {
      std::vector<const KubePod*> members;
      for (const PlacedPod& placed : pods) members.push_back(placed.pod);
      job.keeps = books_fault(*books->second, members, facts_);
      if (job.keeps.empty() && rules_.only_allowed) job.keeps = books_stay(*books->second);
    }
    if (rules_.only_allowed && job.keeps.empty()) job.keeps = not_asked(job);
    add_groups(pods, job);
    jobs_.push_back(std::move(job));
  }

  /// Why a job must stay that nothing else keeps; "" where it may be moved.
  static std::string not_asked(const KubeJob& job) {
    constexpr size_t kLongest = 128;  // that workers and agents may say
    if (!job.allowed) {
      return fmt::format("it does not ask for it (annotation {}: {})", kMovesAnnotation,
                         kMovesAllowed);
    }
    if (job.id.size() > kLongest) {
      return fmt::format("its name has {} characters, more than {}", job.id.size(), kLongest);
    }
    return "";
  }

  void add_groups(const std::vector<PlacedPod>& pods, KubeJob& job) {
    std::vector<std::string> faults;
    const CommentFacts facts = parse_comment(job.comment, faults);
    for (const std::string& fault : faults) {
      warning(fmt::format("job {}: {}: {}", printable(job.id), kCommentAnnotation, fault));
    }
    job.movable = facts.movable;
    job.rings = facts.rings.value_or(facts.tp.value_or(1));
    if (!facts.any_parallelism() && !facts.rings && pods.size() > 1) silent_.push_back(job.id);
    for (size_t begin = 0; begin < pods.size();) {
      size_t end = begin;
      std::vector<const KubePod*> members;
      int64_t gpus = 0;
      while (end < pods.size() && pods[end].place.group == pods[begin].place.group) {
        members.push_back(pods[end].pod);
        gpus += pods[end].pod->gpus;
        ++end;
      }
      std::vector<KubeGroup> stages = stages_of(members, stage_ranks(facts, gpus, job));
      std::move(stages.begin(), stages.end(), std::back_inserter(job.groups));
      begin = end;
    }
  }

  /// Ranks of a pipeline stage of a group with so many GPUs; all of them where the parallelism is
  /// not told or does not fit.
  int64_t stage_ranks(const CommentFacts& facts, int64_t gpus, const KubeJob& job) {
    if (!facts.any_parallelism()) return gpus;
    const int64_t tp_pp = int64_t{facts.tp.value_or(1)} * facts.pp.value_or(1);
    const int64_t dp = facts.dp ? *facts.dp : gpus / tp_pp;
    if (dp > 0 && tp_pp <= gpus && dp == gpus / tp_pp && gpus % tp_pp == 0) {
      return gpus / facts.pp.value_or(1);
    }
    warning(
        fmt::format("job {}: {}: dp x tp x pp does not fit the {} GPUs of its pods; they count "
                    "as one group",
                    printable(job.id), kCommentAnnotation, gpus));
    return gpus;
  }

  void report() {
    if (!unread_.empty()) {
      warning(fmt::format("{} is not heeded on pods that nothing makes a job of: {}",
                          kCommentAnnotation, listed(unread_)));
    }
    if (!silent_.empty()) {
      diagnostics_.note(
          source_, 0, "",
          fmt::format("{} without dp=, tp=, pp= or rings= in {}, one ring each: {}",
                      silent_.size() == 1 ? "1 job" : fmt::format("{} jobs", silent_.size()),
                      kCommentAnnotation, listed(silent_)));
    }
    if (!unranked_.empty()) {
      diagnostics_.note(source_, 0, "",
                        fmt::format("the pods of some jobs carry no rank and go by their names: {}",
                                    listed(unranked_)));
    }
  }

  static std::string listed(const std::vector<std::string>& names) {
    constexpr size_t kMost = 10;
    std::string out;
    for (size_t i = 0; i < names.size() && i < kMost; ++i) {
      out.append(i == 0 ? "" : ", ").append(printable(names[i]));
    }
    return names.size() > kMost ? out + ", ..." : out;
  }

  void warning(std::string message) { diagnostics_.warning(source_, 0, "", std::move(message)); }

  const KubeFacts& facts_;
  const KubeReadRules& rules_;
  std::string_view source_;
  Diagnostics& diagnostics_;
  std::map<std::string, std::vector<PlacedPod>> by_job_;
  std::map<std::string, const KubeWorkload*> workloads_;  ///< by job
  std::vector<KubeJob> jobs_;
  std::vector<std::string> silent_, unranked_, unread_;
};

}  // namespace

std::vector<KubeJob> kube_jobs(const KubeFacts& facts, const KubeReadRules& rules,
                               std::string_view source, Diagnostics& diagnostics) {
  return JobsBuilder(facts, rules, source, diagnostics).run();
}

}  // namespace monkeytree
