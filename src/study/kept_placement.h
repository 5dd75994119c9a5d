#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "cluster/snapshot.h"
#include "planning/planner.h"
#include "study/history_jobs.h"
#include "study/shared_uplinks.h"

namespace monkeytree {

/// Where the recorded jobs would stand had MonkeyTree moved their workers.
///
/// A job starts on its recorded nodes. One that this placement has occupied is replaced by a free
/// node of the same rack, which changes no degree; where there is none that is a conflict, and the
/// worker goes to a free node of a rack that the job already has, else of the rack with the most.
/// Jobs of a single node that share it in the record share it here. A job for whose workers there
/// is no node stays as recorded, on links but on no node.
class KeptPlacement {
 public:
  struct Counters {
    int64_t plans = 0;  ///< that moved something
    int64_t moves = 0;
    int64_t short_plans = 0;       ///< plans after which some rack was still above its bound
    int64_t workers = 0;           ///< that started
    int64_t replaced = 0;          ///< workers that came to another node of their rack
    int64_t conflicts = 0;         ///< workers that came to another rack
    int64_t conflict_jobs = 0;     ///< and their jobs
    int64_t left_as_recorded = 0;  ///< jobs for which there was no room
    double paused_gpu_s = 0;  ///< of the jobs of moved workers, a pause for each round they are in
    std::vector<double> held_s;  ///< how long each plan's bounds held
  };

  /// Looks into `fabric` and `jobs`, which must outlive it.
  KeptPlacement(const Snapshot& fabric, const std::vector<RecordedJob>& jobs, double pause_s,
                int64_t work_limit);

  void start(int job);
  void end(int job);
  /// Plans and moves where a rack is above its bound; gives the pauses in GPU-s. Called once all
  /// that happens at one moment has happened.
  double settle(int64_t now_us);
  /// At the end of the record.
  void close(int64_t now_us);

  SharedUplinks& uplinks() { return uplinks_; }
  const Counters& counters() const { return counters_; }

 private:
  /// The jobs of a single node that share it in the record; here they are one, that of the first.
  struct Seat {
    JobId planned;
    int jobs = 0;
  };

  const RecordedJob& record(int job) const { return jobs_[static_cast<size_t>(job)]; }
  JobId& planned(int job) { return planned_[static_cast<size_t>(job)]; }
  void start_small(int job);
  void start_wide(int job);
  std::optional<NodeId> free_in(RackId rack, const std::vector<NodeId>& taken) const;
  std::optional<NodeId> place_for(NodeId recorded, const std::vector<NodeId>& taken,
                                  bool& conflict) const;
  JobId add(std::vector<NodeId> nodes, int job);
  void show_on_uplinks(int job);
  void forget_ended();

  const Snapshot& fabric_;
  const std::vector<RecordedJob>& jobs_;
  double pause_s_;
  int64_t work_limit_;
  Planner planner_;
  SharedUplinks uplinks_;
  std::vector<JobId> planned_;     ///< by recorded job; not valid where it is none of the planner's
  IdVector<JobId, int> recorded_;  ///< by planner's job; the first of a seat
  IdVector<NodeId, Seat> seats_;   ///< by recorded node
  size_t live_ = 0;                ///< jobs of the planner
  std::optional<int64_t> bounds_held_since_us_;
  Counters counters_;
};

}  // namespace monkeytree
