#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "planning/counts.h"
#include "planning/order.h"

namespace monkeytree {

/// Counts with moves made on them, of which those of any group can be taken back. Racks that were
/// above their bound at the start and still are may keep their degree but not grow: their bound in
/// the counts is their degree.
class ColdState {
 public:
  /// `counts` is restored when the state goes.
  explicit ColdState(Counts& counts);
  ~ColdState();
  ColdState(const ColdState&) = delete;
  ColdState& operator=(const ColdState&) = delete;

  Counts& counts() { return counts_; }
  /// Above their bound at the start, ascending.
  const std::vector<RackId>& racks() const { return racks_; }
  /// Those that are so still.
  std::vector<RackId> open_racks() const;
  /// Above the true bounds, while every rack is excused.
  int excess() const;

  /// Demands the true bound of the rack, or lets it keep its degree again.
  void demand(RackId rack);
  void excuse(RackId rack);

  void apply(std::span<const CountChange> changes);
  /// Takes back the moves of the groups, and of all groups that have come into the slots which
  /// these need, or without which a rack that was within its bound would not be so any more.
  void take_back(std::vector<GroupId> groups);

  int moves() const { return moves_; }
  /// Workers that have left the rack.
  int departures(RackId rack) const { return departures_[rack]; }
  /// What has been moved of the group: at most one shift for each place, none of them zero.
  std::span<const Counts::Shift> moved(GroupId group) const { return moved_[group]; }
  /// Groups of which workers have left the rack, or have come to it.
  std::vector<GroupId> leavers(RackId rack) const;
  std::vector<GroupId> comers(RackId rack) const;
  /// All that differs from the start, ascending.
  std::vector<CountChange> changes() const;

  /// From here on changes are kept, so that rewind() can take them all back.
  void mark();
  void rewind();

 private:
  using Shifts = std::vector<Counts::Shift>;

  void set_allowed(RackId rack, int allowed);
  void excuse_all(const Shifts& shifts);
  void note(const Counts::Shift& shift);
  void count(const Shifts& shifts, int sign);

  Counts& counts_;
  std::vector<RackId> racks_;
  IdVector<RackId, int> bounds_;  // the true ones of racks_; −1 elsewhere
  IdVector<GroupId, Shifts> moved_;
  IdVector<RackId, std::vector<GroupId>> left_;  // a superset of leavers(), by rack
  IdVector<RackId, int> departures_;
  int moves_ = 0;
  IdVector<GroupId, uint32_t> saved_at_;  // the last mark at which the group was saved
  uint32_t mark_ = 0;
  std::vector<std::pair<GroupId, Shifts>> saved_;  // as they were at the mark
};

}  // namespace monkeytree
