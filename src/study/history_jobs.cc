#include "study/history_jobs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <utility>

#include "base/json.h"
#include "inventory/parallelism.h"

namespace monkeytree {
namespace {

constexpr int64_t kMostGpusPerNode = 1024;
constexpr int64_t kMostYears = 10;  ///< that a job runs, or is apart from the others
constexpr int64_t kYearUs = int64_t{31'557'600} * 1'000'000;
constexpr int kMostStages = 4096;

class HistoryReader {
 public:
  HistoryReader(const SacctLog& log, const Snapshot& fabric, ImportCounts counts,
                std::string_view file, Diagnostics& diagnostics)
      : log_(log), fabric_(fabric), file_(file), diagnostics_(diagnostics) {
    out_.counts = std::move(counts);
  }

  std::optional<RecordedHistory> read() {
    if (!log_.has_node_lists) {
      diagnostics_.error(file_, 1, "", "no column NodeList, expected it in what sacct prints (-o)");
      return std::nullopt;
    }
    find_nodes();
    find_middle();
    find_last_moment();
    find_gpus_per_node();
    out_.jobs.reserve(log_.jobs.size());
    for (const SacctJob& job : log_.jobs) read_job(job);
    for (size_t n = 0; n < log_.node_names.size(); ++n) {
      if (unknown_[n]) out_.unknown_nodes.push_back(log_.node_names[n]);
    }
    out_.counts.jobs = static_cast<int64_t>(out_.jobs.size());
    if (out_.jobs.empty()) {
      diagnostics_.error(file_, 0, "", fmt::format("no job to replay: {}", out_.counts.text()));
      return std::nullopt;
    }
    std::stable_sort(out_.jobs.begin(), out_.jobs.end(),
                     [](const auto& a, const auto& b) { return a.start_us < b.start_us; });
    return std::move(out_);
  }

 private:
  void find_nodes() {
    std::map<std::string_view, NodeId> by_name;
    for (NodeId node : fabric_.nodes.keys()) by_name.emplace(fabric_.nodes[node].name, node);
    unknown_.assign(log_.node_names.size(), false);
    for (const std::string& name : log_.node_names) {
      const auto at = by_name.find(name);
      nodes_.push_back(at == by_name.end() ? NodeId() : at->second);
    }
  }

  /// The median of the starts, which one clock gone wrong does not move.
  void find_middle() {
    std::vector<int64_t> starts;
    for (const SacctJob& job : log_.jobs) starts.push_back(job.start_us);
    if (starts.empty()) return;
    const auto middle = starts.begin() + static_cast<std::ptrdiff_t>(starts.size() / 2);
    std::nth_element(starts.begin(), middle, starts.end());
    middle_us_ = *middle;
  }

  bool near_the_others(const SacctJob& job) const {
    return std::abs(job.start_us - middle_us_) <= kMostYears * kYearUs;
  }
  static bool plausible_end(const SacctJob& job) {
    return job.end_us.value_or(job.start_us) - job.start_us <= kMostYears * kYearUs &&
           job.run_us <= kMostYears * kYearUs;
  }
  static bool plausible_gpus(const SacctJob& job) {
    return job.gpus <= kMostGpusPerNode * static_cast<int64_t>(job.nodes.size());
  }

  void find_last_moment() {
    for (const SacctJob& job : log_.jobs) {
      if (!near_the_others(job) || !plausible_end(job)) continue;
      last_us_ = std::max(last_us_, std::max(job.start_us, job.end_us.value_or(job.start_us)));
      last_us_ = std::max(last_us_, job.start_us + std::max<int64_t>(0, job.run_us));
    }
  }

  void find_gpus_per_node() {
    for (const SacctJob& job : log_.jobs) {
      const int64_t nodes = static_cast<int64_t>(job.nodes.size());
      if (nodes > 0 && job.gpus > 0 && plausible_gpus(job)) {
        out_.gpus_per_node = std::max(out_.gpus_per_node, (job.gpus + nodes - 1) / nodes);
      }
    }
    if (out_.gpus_per_node == 0) out_.gpus_per_node = 8;
  }

  void read_job(const SacctJob& record) {
    const auto skip = [&](const std::string& reason) { out_.counts.skip(reason, record.line); };
    if (record.gpus == 0) return skip("no GPUs");
    if (record.bad_node_list) return skip("a node list that is none");
    if (record.nodes.empty()) return skip("no node list");
    if (!plausible_gpus(record)) {
      return skip(fmt::format("more than {} GPUs on a node", kMostGpusPerNode));
    }
    if (!near_the_others(record)) {
      return skip(fmt::format("started more than {} years before or after most jobs", kMostYears));
    }
    if (!plausible_end(record)) return skip(fmt::format("ran for more than {} years", kMostYears));
    RecordedJob job;
    job.id = record.id;
    job.start_us = record.start_us;
    job.end_us = record.end_us       ? *record.end_us
                 : record.run_us > 0 ? record.start_us + record.run_us
                                     : last_us_;
    if (job.end_us <= job.start_us) return skip("ran for no time");
    for (int32_t n : record.nodes) {
      const NodeId node = nodes_[static_cast<size_t>(n)];
      if (!node.valid()) {
        unknown_[static_cast<size_t>(n)] = true;
      } else {
        job.nodes.push_back(node);
      }
    }
    if (job.nodes.empty()) return skip("on no node of the topology");
    const IslandId island = island_of(job.nodes[0]);
    if (std::any_of(job.nodes.begin(), job.nodes.end(),
                    [&](NodeId node) { return island_of(node) != island; })) {
      return skip("on nodes that no switch of the topology connects");
    }
    if (job.nodes.size() < record.nodes.size()) {
      mend("some of its nodes are not in the topology: the others taken", record);
    }
    if (!record.end_us) mend("still running: until the last moment of the log", record);
    job.gpus = record.gpus;
    if (record.gpus < 0) {
      job.gpus = static_cast<int64_t>(record.nodes.size()) * out_.gpus_per_node;
      mend(fmt::format("GPUs not told: {} for each of its nodes taken", out_.gpus_per_node),
           record);
    }
    job.whole = job.gpus >= static_cast<int64_t>(record.nodes.size()) * out_.gpus_per_node;
    read_comment(record, job);
    out_.jobs.push_back(std::move(job));
  }

  void mend(const std::string& what, const SacctJob& record) {
    out_.counts.mend(what, record.line);
  }

  IslandId island_of(NodeId node) const { return fabric_.racks[fabric_.nodes[node].rack].island; }

  void read_comment(const SacctJob& record, RecordedJob& job) {
    if (record.comment.empty()) return;
    std::vector<std::string> faults;
    const CommentFacts facts = parse_comment(record.comment, faults);
    if (!faults.empty()) mend("a comment that makes no sense: one group", record);
    job.movable = facts.movable;
    if (!facts.any_parallelism() && !facts.rings) return;
    const int64_t nodes = static_cast<int64_t>(job.nodes.size());
    const int64_t stages = facts.pp.value_or(1);
    const int64_t inner = int64_t{facts.tp.value_or(1)} * stages;
    const bool fits = !facts.any_parallelism() ||
                      (facts.dp ? inner * *facts.dp == job.gpus : job.gpus % inner == 0);
    if (!fits) {
      mend("a comment whose dp x tp x pp are not its GPUs: one group", record);
      return;
    }
    out_.comments = true;
    job.rings = facts.rings.value_or(facts.tp.value_or(1));
    if (stages == 1) return;
    if (stages > kMostStages || nodes % stages != 0) {
      if (nodes > 1) mend("pipeline stages that share a node: one group", record);
      return;
    }
    job.stages = static_cast<int>(stages);
  }

  const SacctLog& log_;
  const Snapshot& fabric_;
  std::string_view file_;
  Diagnostics& diagnostics_;
  std::vector<NodeId> nodes_;  ///< by number in the log
  std::vector<bool> unknown_;
  int64_t middle_us_ = 0, last_us_ = INT64_MIN;
  RecordedHistory out_;
};

}  // namespace

std::optional<RecordedHistory> recorded_history(const SacctLog& log, const Snapshot& fabric,
                                                ImportCounts counts, std::string_view file,
                                                Diagnostics& diagnostics) {
  return HistoryReader(log, fabric, std::move(counts), file, diagnostics).read();
}

}  // namespace monkeytree
