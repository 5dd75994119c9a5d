#pragma once

#include <cstdint>
#include <vector>

#include "planning/cost_network.h"

/// How many moves a cluster with many racks over their bound needs at least, and what must happen
/// in those racks. A relaxation of planning: where the moved workers land is left open.
///
/// Let rack t have degree f_t, bound λ_t and demand e_t = f_t − λ_t; group g has weight d_g and
/// w_gt workers in t. A group counts in t while it is *partial* there: some of its workers are in
/// t, some are not. A group that was partial in t and no longer is has either left t altogether (it
/// was *emptied*, z_gt = 1) or gathered all its workers in t (it was *completed*, c_gt = 1), and a
/// completion in t empties the group's entries in all other racks. Asked for is
///
///     minimise  Σ_gt w_gt z_gt + Σ_t displaced_t
///     demand:   Σ_g d_g (z_gt + c_gt) ≥ e_t                                for each t with e_t > 0
///     whole:    c_gt ≤ z_gu for u ≠ t,  z_gt + c_gt ≤ 1,  Σ_t c_gt ≤ 1
///     room:     displaced_t ≥ Σ_g c_gt (|g| − w_gt) − free_t − Σ_g w_gt z_gt,  displaced_t ≥ 0
///
/// *No plan has fewer moves than this optimum.* Take the placement w' that a plan reaches. Its
/// moves are Σ_gt max(0, w_gt − w'_gt), each counted where its worker leaves. Set z_gt = 1 where g
/// was partial in t and w'_gt = 0, c_gt = 1 where g was partial and w'_gt = |g|; "whole" holds by
/// definition. "Demand" holds because e_t = f_t − λ_t ≤ f_t − f'_t, and f_t − f'_t is at most the
/// weight of the groups that were partial in t and are not any more. An emptied entry contributes
/// w_gt departures; one that a completion elsewhere asks for is the same departure and is counted
/// once, because z_gt is one variable. Let displaced_t be the departures from t beyond those of
/// emptied entries. The load of t may grow by free_t at most, so arrivals − departures ≤ free_t,
/// and the arrivals include |g| − w_gt for each completion: "room" holds. The cost of this solution
/// is at most the number of the plan's moves. ∎
///
/// Left out, each of which only raises the true optimum: whether the leaving workers find free
/// slots elsewhere, what their landing breaks there, that displacing one worker of a whole group
/// makes it partial, node classes (a class's own room), and islands. Completing a group in a rack
/// that is not over never pays here.
namespace monkeytree {

/// The workers of one partial group in one rack.
struct CoverEntry {
  int rack = 0;              ///< index into the racks
  int workers = 1;           ///< > 0
  bool can_empty = true;     ///< no immovable worker here
  bool can_hold_all = true;  ///< the rack could hold the whole group if everything else left
  int strain = 0;  ///< ≥ 0; of the cheapest solutions, the one with the least strain of the entries
                   ///< that are emptied without a completion is chosen (say, how hard it is to find
                   ///< a place for these workers); never changes the cost
};

/// A partial group: entries in at least two racks, each rack once, all of them listed, whether over
/// their bound or not.
struct CoverGroup {
  int weight = 1;  ///< d_g > 0
  std::vector<CoverEntry> entries;
};

struct CoverRack {
  int demand = 0;      ///< f − λ; over its bound where > 0
  int free_slots = 0;  ///< workers that can arrive while none leaves; negative counts as 0. Where
                       ///< slots of several sizes make that unclear, a number too large is safe.
};

/// One entry that is emptied or completed; indices into the groups and the racks.
struct CoverAction {
  int group = 0;
  int rack = 0;
  friend auto operator<=>(const CoverAction&, const CoverAction&) = default;
};

struct CoverResult {
  int lower_bound = 0;                ///< on the moves of every plan; kNever: no plan exists at all
  int cost = 0;                       ///< of the actions below; kNever: none were found
  std::vector<CoverAction> evict;     ///< z, with those that completions ask for; ascending
  std::vector<CoverAction> complete;  ///< c; ascending
  std::vector<int> displaced;         ///< of each rack: workers that must leave besides
  std::vector<int> conflict;  ///< lower_bound kNever: racks that cannot all meet their demand
  int shared_groups = 0;      ///< groups whose choice ties racks together
  int largest = 0;            ///< of those, most in one component
  int cut_racks = 0;          ///< racks with so many shared groups that some were left out of the
                              ///< rack's table, as if they cost it nothing: the bound is weaker
  int64_t work = 0;

  bool proved() const { return lower_bound == cost; }
};

/// Solves the above exactly unless `work_limit` table cells do not suffice; then lower_bound and
/// the actions still hold. Only a group that can be completed ties racks together (without a
/// completion its entries are independent offers to their racks), so what is searched is which rack
/// each such group is completed in, if any: a CostNetwork with a table for each rack, whose cells
/// are small knapsack covers over that rack's own offers. Deterministic.
CoverResult solve_cover(const std::vector<CoverRack>& racks, const std::vector<CoverGroup>& groups,
                        int64_t work_limit = 50'000'000);

}  // namespace monkeytree
