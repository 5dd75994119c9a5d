#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "cluster/snapshot.h"
#include "study/history_jobs.h"
#include "study/kept_placement.h"

/// What shared uplinks cost in a recorded history, and what MonkeyTree would have saved.
///
/// Nothing is scheduled: each job stands on its recorded nodes from its recorded start to its
/// recorded end. A job whose fullest link carries k > 1 flows under perfect routing is taken to
/// have its communication, a share c of its iterations, stretched k times, so that of its GPU time
/// the part 1 − 1 ÷ (1 + c · (k − 1)) is lost. Degrees and excess need no such assumption.
namespace monkeytree {

struct ReplayOptions {
  double communication = 0.3;   ///< c, 0 … 1
  double pause_s = 10;          ///< of a job while workers of it move
  int64_t work_limit = 20'000;  ///< search nodes of a plan
  /// Told the share of the record that is done, now and then; true ends the replay there.
  std::function<bool(double done)> stop;
};

/// An hour under one placement. Lost time is the estimate's.
struct ReplayHour {
  double over_s = 0;    ///< that some rack was above its bound
  double excess_s = 0;  ///< ∫ excess dt
  double lost_gpu_s = 0;
  int max_degree = 0;
  int max_excess = 0;
};

/// Sums over the record.
struct ReplayTotals {
  double over_s = 0, excess_s = 0, lost_gpu_s = 0;
  int max_degree = 0, max_excess = 0;
};

struct ReplayRack {
  double over_s = 0;
  double excess_s = 0;
  int max_degree = 0;
};

/// The moment of an hour at which most was lost.
struct ReplayMoment {
  int64_t time_us = 0;
  double gpus_lost = 0;  ///< standing still, as it were
  int excess = 0;
};

struct HistoryReplay {
  int64_t begin_us = 0, end_us = 0;  ///< first start and last end, or where it was stopped
  int64_t first_hour_us = 0;         ///< of `hours`: the full hour before begin_us
  bool stopped = false;
  double busy_gpu_s = 0;      ///< of all jobs
  double crossing_gpu_s = 0;  ///< of jobs with a group in several racks
  int64_t crossing_jobs = 0;
  int64_t single_node_jobs = 0;
  int64_t overlapping_jobs = 0;  ///< that began on a node that another job held, one of them wide
  int64_t sharing_jobs = 0;      ///< of a single node, that began on a node that another held
  std::vector<ReplayHour> recorded, monkeytree;  ///< by hour
  std::vector<double> busy_gpu_s_by_hour;
  std::vector<double> paused_gpu_s_by_hour;
  std::vector<ReplayMoment> worst_by_hour;
  ReplayTotals recorded_total, monkeytree_total;
  IdVector<RackId, ReplayRack> racks;     ///< as recorded
  std::vector<double> lost_gpu_s_by_job;  ///< as recorded
  KeptPlacement::Counters kept;
  /// That MonkeyTree's placement had less excess than the record, and more.
  double ahead_s = 0, behind_s = 0;
};

/// `fabric` without jobs, each bound at least 1, and at least one job. The same input gives the
/// same result. O(jobs · log jobs + hours) beside what the changes of placements cost.
HistoryReplay replay_history(const Snapshot& fabric, const std::vector<RecordedJob>& jobs,
                             const ReplayOptions& options);

/// The cluster at a moment: who stood where, as recorded. A node that several jobs held gets a slot
/// for each of them and they are not movable, nor are jobs of a part of a node. O(all jobs).
Snapshot placement_at(const Snapshot& fabric, const std::vector<RecordedJob>& jobs,
                      int64_t time_us);

}  // namespace monkeytree
