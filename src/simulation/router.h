#pragma once

#include <memory>
#include <span>
#include <vector>

#include "simulation/engine.h"
#include "simulation/scenario.h"

namespace monkeytree {

/// The spines of all running jobs' flows under one routing rule. Jobs come, go and move between two
/// calls of update(), which says whose spines are others now.
class Router {
 public:
  virtual ~Router() = default;

  /// The job runs on these hosts from now on (rank r on hosts[r]), for the first time or after a
  /// move. `work` is what Crux ranks jobs by: compute_us · GPUs.
  void place(int job, const Program& program, std::span<const int> hosts, double work);
  void remove(int job);
  /// Jobs whose spines changed, ascending, those placed since the last call among them.
  virtual std::vector<int> update() = 0;
  const PairSpines& spines(int job) const { return jobs_[static_cast<size_t>(job)].spines; }
  /// State starts on its way; -1 within a rack.
  int transfer_spine(int from_host, int to_host, int job);
  void end_transfer(int from_host, int to_host, int spine);

 protected:
  explicit Router(const FabricShape& fabric);

  struct Job {
    const Program* program = nullptr;  ///< null: not running
    std::vector<int> hosts;
    std::vector<int> crossing;  ///< pairs between racks
    PairSpines spines;
    double work = 0;
  };
  struct Ends {
    int from_rack, to_rack;
    friend bool operator==(const Ends&, const Ends&) = default;
  };
  Ends ends(const Job& job, int pair) const;
  size_t at(int rack, int spine) const {
    return static_cast<size_t>(rack) * static_cast<size_t>(shape_.spines) +
           static_cast<size_t>(spine);
  }
  int& up(int rack, int spine) { return up_[at(rack, spine)]; }
  int& down(int rack, int spine) { return down_[at(rack, spine)]; }
  /// Adds to or takes from the count of flows on the spine's two links.
  void count(const Ends& ends, int spine, int flows) {
    up(ends.from_rack, spine) += flows;
    down(ends.to_rack, spine) += flows;
  }
  /// The spine whose fuller link of the two carries the fewest flows, lowest index first.
  int least_loaded(const Ends& ends);

  /// By default the least loaded spine.
  virtual int choose_for_transfer(int from_host, int to_host, int job);
  virtual void placed(int job) = 0;
  virtual void removed(int job) = 0;

  FabricShape shape_;
  std::vector<Job> jobs_;
  std::vector<int> up_, down_;  ///< flows by rack and spine
  struct Underway {
    Ends ends;
    int spine;
  };
  std::vector<Underway> transfers_;  ///< counted in up_ and down_
};

std::unique_ptr<Router> make_router(const Scenario& scenario);

}  // namespace monkeytree
