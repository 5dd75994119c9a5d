#include "study/history_replay.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "cluster/fragmentation.h"

namespace monkeytree {
namespace {

constexpr int64_t kHourUs = int64_t{3600} * 1'000'000;
constexpr int kMomentsBetweenStops = 1024;

double seconds(int64_t us) { return static_cast<double>(us) / 1e6; }

int64_t hour_before(int64_t us) {
  const int64_t rest = us % kHourUs;
  return us - rest - (rest < 0 ? kHourUs : 0);
}

/// What stays the same until the next start or end.
struct Rates {
  double lost_gpus = 0;
  int excess = 0;
  int max_degree = 0;
};

class Replay {
 public:
  Replay(const Snapshot& fabric, const std::vector<RecordedJob>& jobs, const ReplayOptions& options)
      : fabric_(fabric),
        jobs_(jobs),
        options_(options),
        bounds_(bounds(fabric)),
        recorded_(bounds_),
        kept_(fabric, jobs, options.pause_s, options.work_limit),
        holders_(fabric.nodes.size()) {}

  HistoryReplay run() {
    sort_moments();
    prepare();
    size_t start = 0, end = 0;
    int moments = 0;
    while (end < ends_.size()) {
      const int64_t next = start < starts_.size()
                               ? std::min(job(starts_[start]).start_us, job(ends_[end]).end_us)
                               : job(ends_[end]).end_us;
      account(next);
      if (options_.stop && ++moments % kMomentsBetweenStops == 0 && options_.stop(done())) {
        out_.stopped = true;
        break;
      }
      while (end < ends_.size() && job(ends_[end]).end_us == next) leave(ends_[end++]);
      while (start < starts_.size() && job(starts_[start]).start_us == next) {
        enter(starts_[start++]);
      }
      settle();
    }
    finish();
    return std::move(out_);
  }

 private:
  const RecordedJob& job(int number) const { return jobs_[static_cast<size_t>(number)]; }
  size_t hour_of(int64_t us) const {
    return static_cast<size_t>((us - out_.first_hour_us) / kHourUs);
  }
  double done() const {
    return seconds(now_us_ - out_.begin_us) / std::max(1.0, seconds(last_us_ - out_.begin_us));
  }

  void sort_moments() {
    starts_.resize(jobs_.size());
    std::iota(starts_.begin(), starts_.end(), 0);
    ends_ = starts_;
    std::stable_sort(starts_.begin(), starts_.end(),
                     [&](int a, int b) { return job(a).start_us < job(b).start_us; });
    std::stable_sort(ends_.begin(), ends_.end(),
                     [&](int a, int b) { return job(a).end_us < job(b).end_us; });
  }

  void prepare() {
    now_us_ = out_.begin_us = job(starts_.front()).start_us;
    last_us_ = job(ends_.back()).end_us;
    out_.first_hour_us = hour_before(now_us_);
    const size_t hours = hour_of(last_us_ - 1) + 1;
    out_.recorded.resize(hours);
    out_.monkeytree.resize(hours);
    out_.busy_gpu_s_by_hour.resize(hours, 0);
    out_.paused_gpu_s_by_hour.resize(hours, 0);
    out_.worst_by_hour.resize(hours);
    out_.racks.resize(fabric_.racks.size());
    out_.lost_gpu_s_by_job.resize(jobs_.size(), 0);
  }

  void enter(int number) {
    const RecordedJob& started = job(number);
    const bool wide = started.nodes.size() > 1;
    bool held = false, overlaps = false;
    for (NodeId node : started.nodes) {
      Holders& holders = holders_[node];
      held = held || holders.all > 0;
      overlaps = overlaps || holders.wide > 0 || (wide && holders.all > 0);
      ++holders.all;
      holders.wide += wide;
    }
    out_.overlapping_jobs += overlaps;
    out_.sharing_jobs += held && !overlaps;
    out_.single_node_jobs += !wide;
    busy_gpus_ += started.gpus;
    if (wide) {
      std::vector<RackRing> rings = rings_of(fabric_, started.nodes, started.stages, started.rings);
      if (!rings.empty()) {
        ++out_.crossing_jobs;
        out_.crossing_gpu_s +=
            static_cast<double>(started.gpus) * seconds(started.end_us - started.start_us);
        for (const RackRing& ring : rings)
          touched_.insert(touched_.end(), ring.racks.begin(), ring.racks.end());
        recorded_.add(number, std::move(rings));
      }
    }
    kept_.start(number);
  }

  void leave(int number) {
    const RecordedJob& ended = job(number);
    const bool wide = ended.nodes.size() > 1;
    for (NodeId node : ended.nodes) {
      --holders_[node].all;
      holders_[node].wide -= wide;
    }
    busy_gpus_ -= ended.gpus;
    if (wide) recorded_.remove(number);
    kept_.end(number);
  }

  /// Once all that happens at one moment has happened.
  void settle() {
    const double paused = kept_.settle(now_us_);
    if (paused > 0) out_.paused_gpu_s_by_hour[std::min(hour_of(now_us_), last_hour())] += paused;
    for (RackId rack : touched_) {
      out_.racks[rack].max_degree = std::max(out_.racks[rack].max_degree, recorded_.degree(rack));
    }
    touched_.clear();
    rates_ = rates(recorded_);
    kept_rates_ = rates(kept_.uplinks());
  }
  size_t last_hour() const { return out_.recorded.size() - 1; }

  double lost_share(int flows) const { return 1 - 1 / (1 + options_.communication * (flows - 1)); }

  Rates rates(SharedUplinks& uplinks) const {
    Rates out{0, uplinks.excess(), uplinks.max_degree()};
    for (const SharedUplinks::Sharer& sharer : uplinks.sharers()) {
      out.lost_gpus += static_cast<double>(job(sharer.job).gpus) * lost_share(sharer.flows);
    }
    return out;
  }

  static void account_hour(const Rates& rates, double dt, ReplayHour& hour) {
    if (rates.excess > 0) hour.over_s += dt;
    hour.excess_s += rates.excess * dt;
    hour.lost_gpu_s += rates.lost_gpus * dt;
    hour.max_degree = std::max(hour.max_degree, rates.max_degree);
    hour.max_excess = std::max(hour.max_excess, rates.excess);
  }

  /// All stays as it is until `next_us`.
  void account(int64_t next_us) {
    if (next_us <= now_us_) return;
    const double length = seconds(next_us - now_us_);
    for (const SharedUplinks::Sharer& sharer : recorded_.sharers()) {
      out_.lost_gpu_s_by_job[static_cast<size_t>(sharer.job)] +=
          static_cast<double>(job(sharer.job).gpus) * lost_share(sharer.flows) * length;
    }
    for (RackId rack : recorded_.over()) {
      out_.racks[rack].over_s += length;
      out_.racks[rack].excess_s += (recorded_.degree(rack) - bounds_[rack]) * length;
    }
    if (kept_rates_.excess < rates_.excess) out_.ahead_s += length;
    if (kept_rates_.excess > rates_.excess) out_.behind_s += length;
    while (now_us_ < next_us) {
      const size_t hour = hour_of(now_us_);
      const int64_t until =
          std::min(next_us, out_.first_hour_us + static_cast<int64_t>(hour + 1) * kHourUs);
      const double dt = seconds(until - now_us_);
      account_hour(rates_, dt, out_.recorded[hour]);
      account_hour(kept_rates_, dt, out_.monkeytree[hour]);
      out_.busy_gpu_s_by_hour[hour] += static_cast<double>(busy_gpus_) * dt;
      ReplayMoment& worst = out_.worst_by_hour[hour];
      if (std::pair(rates_.lost_gpus, rates_.excess) > std::pair(worst.gpus_lost, worst.excess)) {
        worst = {now_us_, rates_.lost_gpus, rates_.excess};
      }
      now_us_ = until;
    }
  }

  static ReplayTotals total(const std::vector<ReplayHour>& hours) {
    ReplayTotals out;
    for (const ReplayHour& hour : hours) {
      out.over_s += hour.over_s;
      out.excess_s += hour.excess_s;
      out.lost_gpu_s += hour.lost_gpu_s;
      out.max_degree = std::max(out.max_degree, hour.max_degree);
      out.max_excess = std::max(out.max_excess, hour.max_excess);
    }
    return out;
  }

  void finish() {
    out_.end_us = now_us_;
    kept_.close(now_us_);
    out_.kept = kept_.counters();
    out_.recorded_total = total(out_.recorded);
    out_.monkeytree_total = total(out_.monkeytree);
    for (double busy : out_.busy_gpu_s_by_hour) out_.busy_gpu_s += busy;
  }

  struct Holders {
    int all = 0, wide = 0;
  };

  const Snapshot& fabric_;
  const std::vector<RecordedJob>& jobs_;
  const ReplayOptions& options_;
  IdVector<RackId, int> bounds_;
  SharedUplinks recorded_;
  KeptPlacement kept_;
  IdVector<NodeId, Holders> holders_;
  std::vector<int> starts_, ends_;
  std::vector<RackId> touched_;
  Rates rates_, kept_rates_;
  int64_t now_us_ = 0, last_us_ = 0, busy_gpus_ = 0;
  HistoryReplay out_;
};

}  // namespace

HistoryReplay replay_history(const Snapshot& fabric, const std::vector<RecordedJob>& jobs,
                             const ReplayOptions& options) {
  return Replay(fabric, jobs, options).run();
}

Snapshot placement_at(const Snapshot& fabric, const std::vector<RecordedJob>& jobs,
                      int64_t time_us) {
  Snapshot out = fabric;
  IdVector<NodeId, int> holders(fabric.nodes.size(), 0);
  for (const RecordedJob& record : jobs) {
    if (record.start_us > time_us || record.end_us <= time_us) continue;
    Job job;
    job.id = record.id;
    job.movable = record.movable && (record.nodes.size() > 1 || record.whole);
    job.first_group = GroupId(out.groups.size());
    job.group_count = record.stages;
    const JobId id = out.jobs.push_back(std::move(job));
    const size_t each = record.nodes.size() / static_cast<size_t>(record.stages);
    for (size_t g = 0; g < static_cast<size_t>(record.stages); ++g) {
      Group group;
      group.job = id;
      group.rings = record.rings;
      group.workers.assign(record.nodes.begin() + static_cast<std::ptrdiff_t>(g * each),
                           record.nodes.begin() + static_cast<std::ptrdiff_t>((g + 1) * each));
      for (NodeId node : group.workers) ++holders[node];
      out.groups.push_back(std::move(group));
    }
  }
  for (NodeId node : out.nodes.keys()) out.nodes[node].slots = std::max(1, holders[node]);
  for (Group& group : out.groups) {
    if (std::any_of(group.workers.begin(), group.workers.end(),
                    [&](NodeId node) { return holders[node] > 1; })) {
      out.jobs[group.job].movable = false;
    }
  }
  return out;
}

}  // namespace monkeytree
