#pragma once

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include "planning/cover.h"

/// Instances of the cover problem for its test and its benchmark.
namespace monkeytree {

struct CoverInstance {
  std::vector<CoverRack> racks;
  std::vector<CoverGroup> groups;

  int over() const {
    return static_cast<int>(
        std::count_if(racks.begin(), racks.end(), [](const CoverRack& r) { return r.demand > 0; }));
  }
};

/// How a cluster is filled and worn until racks are over their bound.
struct Churn {
  int racks = 64;
  int nodes = 8;          ///< of a rack, one worker each
  int bound = 2;          ///< λ of every rack
  double fill = 0.9;      ///< share of nodes in use
  int largest = 40;       ///< job sizes are uniform in 1 … largest
  int heavy_percent = 0;  ///< jobs of weight 8, the others have 1
  int first_fit = 0;      ///< percentage of jobs that take the first free nodes there are
  int over = 16;          ///< stop when so many racks are over
  int events = 100'000;   ///< stop after so many arrivals
  uint32_t seed = 1;
};

/// Jobs arrive best-fit (the rack with the least sufficient room; where none has it, the racks with
/// most room) or take the first free nodes from a random rack on, and leave at random; nothing is
/// ever moved.
class ChurnedCluster {
 public:
  explicit ChurnedCluster(const Churn& churn)
      : churn_(churn), random_(churn.seed), free_(churn.racks, churn.nodes), degree_(churn.racks) {
    int free_total = churn.racks * churn.nodes;
    const int target = free_total - static_cast<int>(churn.fill * free_total);
    for (int event = 0; event < churn.events && over_ < churn.over; ++event) {
      const int workers = 1 + below(churn.largest);
      while (free_total - workers < target && !jobs_.empty()) free_total += leave();
      free_total -= arrive(workers);
    }
  }

  CoverInstance instance() const {
    CoverInstance out;
    for (int t = 0; t < churn_.racks; ++t)
      out.racks.push_back({degree_[t] - churn_.bound, free_[t]});
    for (const CoverGroup& job : jobs_) {
      const auto is_over = [&](const CoverEntry& e) { return out.racks[e.rack].demand > 0; };
      if (job.entries.size() < 2) continue;
      if (std::none_of(job.entries.begin(), job.entries.end(), is_over)) continue;
      out.groups.push_back(job);
      int total = 0;
      for (const CoverEntry& e : job.entries) total += e.workers;
      for (CoverEntry& e : out.groups.back().entries) e.can_hold_all = total <= churn_.nodes;
    }
    return out;
  }

 private:
  int below(int n) { return static_cast<int>(random_() % static_cast<uint32_t>(n)); }

  void count(const CoverGroup& job, int sign) {
    if (job.entries.size() < 2) return;
    for (const CoverEntry& e : job.entries) {
      over_ -= degree_[e.rack] > churn_.bound;
      degree_[e.rack] += sign * job.weight;
      over_ += degree_[e.rack] > churn_.bound;
    }
  }

  int take(CoverGroup& job, int rack, int wanted) {
    const int taken = std::min(wanted, free_[rack]);
    free_[rack] -= taken;
    job.entries.push_back({rack, taken, true, true});
    return taken;
  }

  int arrive(int workers) {
    CoverGroup job{below(100) < churn_.heavy_percent ? 8 : 1, {}};
    const bool first_fit = below(100) < churn_.first_fit;
    const int first = below(churn_.racks);
    int left = workers;
    for (int i = 0; first_fit && left > 0 && i < churn_.racks; ++i) {
      const int t = (first + i) % churn_.racks;
      if (free_[t] > 0) left -= take(job, t, left);
    }
    while (left > 0) {
      int best = -1;  // least sufficient room, else most room
      for (int t = 0; t < churn_.racks; ++t) {
        if (best < 0) {
          best = t;
        } else if (free_[t] >= left) {
          if (free_[best] < left || free_[t] < free_[best]) best = t;
        } else if (free_[t] > free_[best]) {
          best = t;
        }
      }
      left -= take(job, best, left);
    }
    count(job, 1);
    jobs_.push_back(std::move(job));
    return workers;
  }

  int leave() {
    const int gone = below(static_cast<int>(jobs_.size()));
    std::swap(jobs_[gone], jobs_.back());
    count(jobs_.back(), -1);
    int workers = 0;
    for (const CoverEntry& e : jobs_.back().entries) {
      free_[e.rack] += e.workers;
      workers += e.workers;
    }
    jobs_.pop_back();
    return workers;
  }

  Churn churn_;
  std::mt19937 random_;
  std::vector<int> free_, degree_;
  std::vector<CoverGroup> jobs_;
  int over_ = 0;
};

}  // namespace monkeytree
