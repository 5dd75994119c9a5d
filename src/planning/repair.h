#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "planning/counts.h"
#include "planning/order.h"
#include "planning/search.h"

namespace monkeytree {

/// A plan from above, where the exact search for all racks at once takes long: racks above their
/// bound are mended one after the other by the exact search, while no other rack may grow beyond
/// what it had. Works on a copy of the counts. Deterministic.
class Repair {
 public:
  Repair(const Counts& counts, std::function<bool()> stop, int64_t work_limit);

  void set_accept(std::function<bool(std::span<const CountChange>)> accept) {
    accept_ = std::move(accept);
  }

  /// Changes that meet every bound, or nothing where some rack could not be mended. Stops improving
  /// once it is down to `lower_bound` moves.
  std::optional<std::vector<CountChange>> run(int lower_bound);
  /// Mends what it can.
  std::vector<CountChange> run_best_effort();

  int lower_bound() const { return lower_bound_; }
  int excess_after() const { return excess_after_; }
  int64_t work() const { return work_; }

 private:
  void mend_all();
  bool mend(RackId rack, int64_t nodes);
  void tighten(RackId rack);
  std::vector<CountChange> difference() const;

  const Counts& before_;
  Counts after_;
  std::function<bool()> stop_;
  std::function<bool(std::span<const CountChange>)> accept_;
  std::vector<int> bound_;  // the true one of each rack
  int64_t limit_;
  int64_t work_ = 0;
  int lower_bound_ = 0;
  int excess_after_ = 0;
};

}  // namespace monkeytree
