#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "planning/counts.h"

namespace monkeytree {

/// Asks whether *any* placement keeps the total excess within a limit, wherever workers stand now.
/// It shares nothing with the search for few moves: first counting arguments, which decide large
/// clusters in O(entries), then rack after rack with a memory of what could not be finished, which
/// decides small ones.
class Sweep {
 public:
  explicit Sweep(const Counts& counts);
  /// The same for one island alone: nothing crosses its border.
  Sweep(const Counts& counts, IslandId island);

  void set_limit(int64_t work, std::function<bool()> stop);

  /// true: some placement exists (not said where a class is mixed); false: none, proved; nullopt:
  /// not decided within the work.
  std::optional<bool> feasible(int allowed_excess);

  /// The changes of a placement with the fewest moves among those whose excess is at most
  /// `allowed_excess`, tried with budgets from `from` up to `last`; *proved says that no smaller
  /// budget from `from` on has one. Nothing where none was found; *from is the first budget not
  /// ruled out.
  std::optional<std::vector<CountChange>> fewest(int allowed_excess, int* from, int last);

  /// Excess that no placement avoids, by counting alone.
  int excess_bound() const;

  /// After feasible(0) == false: racks whose bounds cannot hold together. Leaving any one out would
  /// lift the conflict where the work sufficed to make sure.
  std::vector<RackId> conflict();

  int64_t work() const { return work_; }

 private:
  struct Part {  // movable workers of one group in one domain
    GroupId group;
    ClassId node_class;
    IslandId island;
    int count = 0;
    int alike = -1;  // parts with the same number may be exchanged for each other
  };
  struct Choice;

  std::optional<bool> exhaust(int allowed_excess);
  void prepare();
  bool fill_rack(size_t rack, int allowed, int budget);
  bool choose(size_t rack, size_t index, int in_group, int degree, int allowed, int budget);
  int arrivals_to_come(size_t rack) const;
  std::string key(size_t rack, int allowed) const;
  bool enough_room(size_t rack) const;
  bool enough_bound(size_t rack, int allowed) const;
  bool placed_before(size_t rack, GroupId group, int left) const;
  bool within(RackId rack) const {
    return !island_.valid() || counts_.rack(rack).island == island_;
  }
  int workers_within(const Counts::GroupCounts& group) const;
  int racks_within(const Counts::GroupCounts& group) const;
  int fewest_racks(GroupId group) const;
  int forced_degree(RackId rack) const;

  const Counts& counts_;
  IslandId island_;  // all, if not valid
  std::vector<int> bound_;
  std::vector<RackId> order_;
  std::vector<Part> parts_;
  std::vector<int> left_;  // of each part
  std::vector<std::vector<int>>
      stay_;  // by rack in order_, part: places that only the part may use
  std::vector<std::vector<int>> free_;    // by rack in order_, class
  std::vector<std::vector<int>> room_;    // by rack in order_, part: Σ free and stay from here on
  std::vector<std::vector<int>> widest_;  // by rack in order_, class: largest free from here on
  std::vector<int64_t> bounds_left_;      // by rack in order_: Σ bounds from here on
  std::vector<std::vector<int>> now_;     // by rack in order_, part: workers there now
  std::vector<std::vector<int>> now_after_;      // by rack in order_, part: Σ now_ from here on
  std::vector<std::vector<int>> chosen_;         // by rack in order_, part
  bool counting_ = false;                        // moves matter, so no two parts are alike
  std::unordered_map<std::string, int> failed_;  // state → largest allowance or budget that failed
  std::function<bool()> stop_;
  int64_t work_ = 0;
  int64_t limit_ = INT64_MAX;
  bool limited_ = false;
};

}  // namespace monkeytree
