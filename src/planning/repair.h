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
/// what it had. Which rack comes first matters, so several orders are tried. Deterministic.
class Repair {
 public:
  /// `counts` is changed while it works and restored before each function returns.
  Repair(Counts& counts, std::function<bool()> stop, int64_t work_limit);

  void set_accept(std::function<bool(std::span<const CountChange>)> accept) {
    accept_ = std::move(accept);
  }

  /// Changes that meet every bound, or nothing where some rack could not be mended. Stops improving
  /// once it is down to `lower_bound` moves.
  std::optional<std::vector<CountChange>> run(int lower_bound);
  /// Mends what it can; *excess becomes what remains.
  std::vector<CountChange> run_best_effort(int* excess);

  int64_t work() const { return work_; }

 private:
  struct Attempt {
    std::vector<CountChange> changes;
    int excess = 0;
    int moves = 0;
  };
  Attempt attempt(std::vector<RackId> order);
  bool mend(RackId rack, int64_t nodes);
  void tighten(RackId rack);
  std::vector<CountChange> difference() const;

  Counts& counts_;
  std::function<bool()> stop_;
  std::function<bool(std::span<const CountChange>)> accept_;
  std::vector<std::pair<RackId, int>> bounds_;  // the true bounds of the racks over them, ascending
  std::vector<std::vector<Counts::Shift>> done_;
  int64_t limit_;
  int64_t work_ = 0;
};

}  // namespace monkeytree
