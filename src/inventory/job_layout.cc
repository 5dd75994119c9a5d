#include "inventory/job_layout.h"

#include <absl/container/flat_hash_map.h>
#include <absl/container/flat_hash_set.h>
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/hostlist.h"
#include "base/json.h"

namespace monkeytree {
namespace {

/// More ranks than this on a node means that the comment speaks of something else.
constexpr int64_t kMaxRanksOnNode = 256;
constexpr size_t kIdsNamed = 10;

using Member = JobLayout::Member;

/// A job that holds a node for another job's moved worker.
struct Companion {
  const SlurmJob* job = nullptr;
  CommentFacts facts;
};

/// The ranks a comment asks for; 0 where it cannot tell.
int64_t ranks_of(const CommentFacts& facts, int64_t gpus) {
  const int64_t inner = int64_t{facts.tp.value_or(1)} * facts.pp.value_or(1);
  if (facts.dp) return inner * *facts.dp;
  return gpus > 0 && gpus % inner == 0 ? gpus : 0;
}

class LayoutBuilder {
 public:
  LayoutBuilder(const SlurmQueue& queue, std::string_view file, Diagnostics& diagnostics)
      : queue_(queue), file_(file), diagnostics_(diagnostics), facts_(queue.jobs.size()) {}

  QueueLayout run() {
    read_comments();
    find_companions();
    for (size_t i = 0; i < queue_.jobs.size(); ++i) {
      const SlurmJob& job = queue_.jobs[i];
      if (!job.running) {
        layout_.held.insert(layout_.held.end(), job.nodes.begin(), job.nodes.end());
      } else if (!attached_[i]) {
        lay_out(i);
      }
    }
    note_jobs_without_parallelism();
    return std::move(layout_);
  }

 private:
  void warning(const SlurmJob& job, std::string_view what) {
    diagnostics_.warning(file_, job.line, job.path, fmt::format("job {}: {}", job.id, what));
  }
  void note(const SlurmJob& job, std::string_view what) {
    diagnostics_.note(file_, job.line, job.path, fmt::format("job {}: {}", job.id, what));
  }

  void read_comments() {
    for (size_t i = 0; i < queue_.jobs.size(); ++i) {
      const SlurmJob& job = queue_.jobs[i];
      if (!job.running) continue;
      std::vector<std::string> faults;
      facts_[i] = parse_comment(job.comment, faults);
      for (const std::string& fault : faults) {
        warning(job, fmt::format("comment: {}; it counts as one group", fault));
      }
    }
  }

  void find_companions() {
    attached_.assign(queue_.jobs.size(), false);
    companions_.resize(queue_.jobs.size());
    absl::flat_hash_map<std::string, size_t> mains;
    for (size_t i = 0; i < queue_.jobs.size(); ++i) {
      if (!queue_.jobs[i].running || facts_[i].companion_of) continue;
      mains.emplace(queue_.jobs[i].id, i);
      mains.emplace(fmt::format("{}", queue_.jobs[i].number), i);
    }
    for (size_t i = 0; i < queue_.jobs.size(); ++i) {
      const SlurmJob& job = queue_.jobs[i];
      if (!job.running || !facts_[i].companion_of) continue;
      const auto main = mains.find(*facts_[i].companion_of);
      if (main == mains.end()) {
        warning(job, fmt::format("companion of {}, which is no running job; it counts as a job of "
                                 "its own that does not move",
                                 quote(*facts_[i].companion_of)));
        facts_[i].movable = false;
        continue;
      }
      const SlurmJob& owner = queue_.jobs[main->second];
      if (owner.user != job.user) {
        warning(job, fmt::format("companion of {}, which is another user's; it counts as a job of "
                                 "its own that does not move",
                                 owner.id));
        facts_[i].movable = false;
        continue;
      }
      attached_[i] = true;
      companions_[main->second].push_back({&job, facts_[i]});
    }
  }

  void lay_out(size_t i) {
    JobLayout layout;
    layout.job = &queue_.jobs[i];
    layout.movable = facts_[i].movable;
    place_members(layout, facts_[i], companions_[i]);
    merge_repeats(layout);
    workers_ += layout.members.size();
    form_groups(layout, facts_[i]);
    if (layout.staged) leave_out_staged(layout);
    if (layout.members.empty()) return;
    if (workers_ > kMaxWorkers) {
      if (!std::exchange(too_many_, true)) {
        diagnostics_.error(file_, 0, "",
                           fmt::format("all jobs have more than {} workers together", kMaxWorkers));
      }
      return;
    }
    layout_.jobs.push_back(std::move(layout));
  }

  /// A companion on a node that the job itself holds is the same worker.
  static void merge_repeats(JobLayout& layout) {
    absl::flat_hash_map<std::string, size_t> first;
    std::vector<Member> members;
    for (Member& member : layout.members) {
      const auto [known, is_new] = first.emplace(member.node, members.size());
      if (is_new || member.node == kStagedWorker) {
        members.push_back(std::move(member));
      } else {
        members[known->second].gpus += member.gpus;
      }
    }
    layout.members = std::move(members);
  }

  /// Takes the workers that are on no node out again, after they have had their share of ranks.
  static void leave_out_staged(JobLayout& layout) {
    std::vector<size_t> now(layout.members.size());
    std::vector<Member> members;
    for (size_t n = 0; n < layout.members.size(); ++n) {
      now[n] = members.size();
      if (layout.members[n].node != kStagedWorker) members.push_back(std::move(layout.members[n]));
    }
    std::vector<Stage> stages;
    for (const Stage& stage : layout.stages) {
      Stage rest;
      for (const Share& share : stage) {
        const size_t next = share.node + 1 < now.size() ? now[share.node + 1] : members.size();
        if (next > now[share.node]) rest.push_back({now[share.node], share.ranks});
      }
      if (!rest.empty()) stages.push_back(std::move(rest));
    }
    layout.members = std::move(members);
    layout.stages = std::move(stages);
    layout.movable = false;
  }

  static std::vector<Member> members_of(const SlurmJob& job) {
    std::vector<Member> members;
    for (size_t n = 0; n < job.nodes.size(); ++n) members.push_back({job.nodes[n], job.gpus[n]});
    return members;
  }

  /// Nodes of the job and its companions in logical order.
  void place_members(JobLayout& layout, const CommentFacts& facts,
                     std::vector<Companion>& companions) {
    const SlurmJob& job = *layout.job;
    std::vector<Member> own = members_of(job);
    std::stable_sort(companions.begin(), companions.end(),
                     [](const auto& a, const auto& b) { return a.job->number < b.job->number; });
    if (const std::optional<std::string> list = ranks_of_admin_comment(job.admin_comment)) {
      if (place_by_ranks(layout, *list, own, companions)) return;
    }
    if (!companions.empty()) hold_moves_under_way(job, facts, own, companions);
    if (companions.empty()) {
      layout.members = std::move(own);
    } else {
      layout.members = place_companions(job, facts, std::move(own), companions);
    }
  }

  /// `monkeytree-ranks` names each logical worker's node; false where it cannot be so.
  bool place_by_ranks(JobLayout& layout, const std::string& list, const std::vector<Member>& own,
                      const std::vector<Companion>& companions) {
    const SlurmJob& job = *layout.job;
    absl::StatusOr<std::vector<std::string>> names = expand_hostlist(list);
    if (!names.ok() || names->empty()) {
      warning(job, fmt::format("admin comment: monkeytree-ranks={}: {}; it is ignored", quote(list),
                               names.ok() ? "no nodes" : std::string(names.status().message())));
      return false;
    }
    absl::flat_hash_map<std::string, int> gpus;
    for (const Member& member : own) gpus.emplace(member.node, member.gpus);
    for (const Companion& companion : companions) {
      for (const Member& member : members_of(*companion.job))
        gpus.emplace(member.node, member.gpus);
    }
    std::vector<Member> members;
    const int each = own.empty() ? 0 : own[0].gpus;
    for (std::string& name : *names) {
      if (name == kStagedWorker) {
        members.push_back({std::move(name), each});
        layout.staged = true;
        continue;
      }
      const auto found = gpus.find(name);
      if (found == gpus.end()) {
        warning(job, fmt::format("admin comment: monkeytree-ranks names {}, which the job does not "
                                 "hold (or names it twice); it is ignored",
                                 quote(name)));
        layout.staged = false;
        return false;
      }
      members.push_back({std::move(name), found->second});
      gpus.erase(found);
    }
    layout.members = std::move(members);
    std::vector<std::string> rest;
    for (const auto& [name, count] : gpus) rest.push_back(name);
    hold(job, std::move(rest));
    return true;
  }

  void hold(const SlurmJob& job, std::vector<std::string> nodes) {
    if (nodes.empty()) return;
    std::sort(nodes.begin(), nodes.end());
    note(job, fmt::format("holds {} besides the nodes of its workers: a move is under way, they "
                          "receive nothing",
                          printable(compress_hostlist(nodes))));
    layout_.held.insert(layout_.held.end(), nodes.begin(), nodes.end());
  }

  /// While a worker moves, the job holds both nodes: with more nodes than its ranks fill, the
  /// newest companions are those moves.
  void hold_moves_under_way(const SlurmJob& job, const CommentFacts& facts,
                            const std::vector<Member>& own, std::vector<Companion>& companions) {
    if (!facts.any_parallelism() || own.empty() || !facts.dp) return;
    const int each = own[0].gpus;
    const int64_t ranks = ranks_of(facts, 0);
    if (each == 0 || ranks % each != 0) return;
    size_t total = own.size();
    for (const Companion& companion : companions) total += companion.job->nodes.size();
    std::vector<std::string> moving;
    while (!companions.empty() && static_cast<int64_t>(total) > ranks / each) {
      const SlurmJob& newest = *companions.back().job;
      total -= newest.nodes.size();
      moving.insert(moving.end(), newest.nodes.begin(), newest.nodes.end());
      companions.pop_back();
    }
    hold(job, std::move(moving));
  }

  /// Companions go where their comment says, the job's own nodes fill the gaps in order, and
  /// companions that say nothing come last.
  std::vector<Member> place_companions(const SlurmJob& job, const CommentFacts& facts,
                                       std::vector<Member> own,
                                       const std::vector<Companion>& companions) {
    size_t total = own.size();
    for (const Companion& companion : companions) total += companion.job->nodes.size();
    std::vector<Member> members(total);
    std::vector<bool> taken(total, false);
    for (const Companion& companion : companions) {
      std::vector<Member> nodes = members_of(*companion.job);
      const std::optional<size_t> place = position(facts, companion.facts, total);
      if (companion.facts.worker && (!place || taken[*place] || nodes.size() != 1)) {
        warning(*companion.job, fmt::format("its group and worker name no free place in job {}; it "
                                            "comes last",
                                            job.id));
      } else if (place) {
        members[*place] = std::move(nodes[0]);
        taken[*place] = true;
        continue;
      }
      std::move(nodes.begin(), nodes.end(), std::back_inserter(own));
    }
    size_t next = 0;
    for (Member& member : own) {
      while (taken[next]) ++next;
      members[next++] = std::move(member);
    }
    return members;
  }

  /// Position of a companion's worker among the job's nodes.
  static std::optional<size_t> position(const CommentFacts& facts, const CommentFacts& companion,
                                        size_t total) {
    if (!companion.worker) return std::nullopt;
    int64_t first = 0;
    const int64_t group = companion.group.value_or(0);
    if (group > 0) {
      if (!facts.dp || group >= facts.pp.value_or(1)) return std::nullopt;
      const int64_t ranks = ranks_of(facts, 0);
      const int64_t each = std::max<int64_t>(1, ranks / static_cast<int64_t>(total));
      first = group * (ranks / facts.pp.value_or(1)) / each;
    }
    const int64_t place = first + *companion.worker;
    if (place >= static_cast<int64_t>(total)) return std::nullopt;
    return static_cast<size_t>(place);
  }

  void form_groups(JobLayout& layout, const CommentFacts& facts) {
    layout.rings = facts.rings.value_or(facts.tp.value_or(1));
    if (facts.any_parallelism()) {
      if (spread(layout, facts)) return;
    } else if (layout.members.size() > 1 && !facts.rings) {
      without_parallelism_.push_back(layout.job->id);
    }
    Stage all;
    for (size_t n = 0; n < layout.members.size(); ++n) all.push_back({n, layout.members[n].gpus});
    layout.stages.push_back(std::move(all));
  }

  /// False, after a warning, where the comment's ranks do not fit the nodes.
  bool spread(JobLayout& layout, const CommentFacts& facts) {
    const SlurmJob& job = *layout.job;
    const int64_t nodes = static_cast<int64_t>(layout.members.size());
    int64_t gpus = 0;
    bool all_known = true;
    for (const Member& member : layout.members) {
      gpus += member.gpus;
      all_known = all_known && member.gpus > 0;
    }
    const int64_t ranks = ranks_of(facts, all_known ? gpus : 0);
    std::vector<int> ranks_on(layout.members.size());
    if (ranks == 0) {
      warning(job, all_known
                       ? fmt::format("comment: tp x pp does not divide its {} GPUs; it counts "
                                     "as one group",
                                     gpus)
                       : "comment: no dp, and its GPUs are not known; it counts as one group");
      return false;
    }
    if (all_known && ranks == gpus) {
      for (size_t n = 0; n < ranks_on.size(); ++n) ranks_on[n] = layout.members[n].gpus;
    } else if (!all_known && ranks % nodes == 0 && ranks / nodes <= kMaxRanksOnNode) {
      std::fill(ranks_on.begin(), ranks_on.end(), static_cast<int>(ranks / nodes));
    } else {
      warning(job, fmt::format("comment: dp x tp x pp is {} ranks, but it holds {} nodes{}; it "
                               "counts as one group",
                               ranks, nodes, all_known ? fmt::format(" with {} GPUs", gpus) : ""));
      return false;
    }
    const int64_t stages = facts.pp.value_or(1);
    layout.stages = spread_stages(ranks / stages, stages, ranks_on);
    layout.names_parallelism = true;
    workers_ -= layout.members.size();
    for (const Stage& stage : layout.stages) workers_ += stage.size();
    return true;
  }

  void note_jobs_without_parallelism() {
    if (without_parallelism_.empty()) return;
    std::string ids;
    for (size_t i = 0; i < std::min(kIdsNamed, without_parallelism_.size()); ++i) {
      ids += (i == 0 ? "" : ", ") + without_parallelism_[i];
    }
    if (without_parallelism_.size() > kIdsNamed) ids += ", ...";
    diagnostics_.note(file_, 0, "",
                      fmt::format("{} without dp=, tp=, pp= or rings= in the comment, taken as one "
                                  "group with rings 1: {}",
                                  without_parallelism_.size() == 1
                                      ? std::string("1 job")
                                      : fmt::format("{} jobs", without_parallelism_.size()),
                                  ids));
  }

  const SlurmQueue& queue_;
  std::string_view file_;
  Diagnostics& diagnostics_;
  std::vector<CommentFacts> facts_;                 ///< by job
  std::vector<std::vector<Companion>> companions_;  ///< by main job
  std::vector<bool> attached_;                      ///< jobs that are part of another
  std::vector<std::string> without_parallelism_;
  QueueLayout layout_;
  size_t workers_ = 0;
  bool too_many_ = false;
};

}  // namespace

QueueLayout lay_out_jobs(const SlurmQueue& queue, std::string_view file, Diagnostics& diagnostics) {
  return LayoutBuilder(queue, file, diagnostics).run();
}

}  // namespace monkeytree
