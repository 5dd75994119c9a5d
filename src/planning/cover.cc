#include "planning/cover.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <limits>
#include <optional>
#include <utility>

namespace monkeytree {
namespace {

/// What a rack can do about one entry: pay `cost` (moves in units, and strain), cover `cover` of
/// its demand, and change its load by `load` workers.
struct Offer {
  int cost = 0;
  int cover = 0;
  int load = 0;
};

/// A choice of at most one (or exactly one) of a few offers.
struct Choice {
  std::array<Offer, 3> offers;
  int count = 0;
  void add(Offer offer) { offers[count++] = offer; }
};

/// The cheapest way to reach each amount of cover and load of one rack, after some choices. Loads
/// are kept within ±reach, where reach is the most that can still arrive: below, nothing can be
/// displaced.
class Ledger {
 public:
  Ledger(int demand, int reach) : demand_(demand), reach_(reach), cells_((demand + 1) * width()) {
    std::fill(cells_.begin(), cells_.end(), kNever);
    cells_[cell(0, 0)] = 0;
  }

  Ledger after(const Choice& choice) const {
    Ledger next = *this;
    std::fill(next.cells_.begin(), next.cells_.end(), kNever);
    for (int cover = 0; cover <= demand_; ++cover) {
      for (int load = -reach_; load <= reach_; ++load) {
        const int paid = cells_[cell(cover, load)];
        if (paid >= kNever) continue;
        for (int i = 0; i < choice.count; ++i) {
          const Offer& offer = choice.offers[i];
          int& best = next.cells_[next.target(cover, load, offer)];
          best = std::min(best, paid + offer.cost);
        }
      }
    }
    return next;
  }

  int target(int cover, int load, const Offer& offer) const {
    return cell(std::min(demand_, cover + offer.cover),
                std::clamp(load + offer.load, -reach_, reach_));
  }

  /// Least cost with the demand met, each worker above `free` displaced at the cost of a move.
  int cheapest(int free, int unit) const {
    int least = kNever;
    for (int load = -reach_; load <= reach_; ++load) {
      least = std::min(least, cells_[cell(demand_, load)] + unit * std::max(0, load - free));
    }
    return std::min(least, kNever);
  }

  int at(int cell_index) const { return cells_[cell_index]; }
  int cell(int cover, int load) const { return cover * width() + load + reach_; }
  int size() const { return static_cast<int>(cells_.size()); }

 private:
  int width() const { return 2 * reach_ + 1; }

  int demand_, reach_;
  std::vector<int> cells_;
};

enum SeatState { kFree, kEmptied, kCompleted };

/// An entry of a shared group: a group that can be completed and lies in several over racks.
struct Seat {
  int variable = 0;
  int group = 0;
  std::vector<SeatState> state;  ///< for each value of the variable
  std::array<Choice, 3> choice;  ///< for each state
};

/// An entry that no other rack depends on.
struct OwnEntry {
  int group = 0;
  Choice choice;  ///< nothing, then evict and complete where possible
};

/// An entry that can be emptied, whatever becomes of its group.
struct Price {
  int cost = 0;
  int workers = 0;
  int weight = 0;
  int group = 0;
  friend auto operator<=>(const Price&, const Price&) = default;
};

struct RackModel {
  int rack = 0;
  std::vector<Price> prices;  ///< cheapest first
  std::vector<OwnEntry> own;
  std::vector<Seat> seats;
  std::vector<Seat> loose;  ///< seats left out of the table because it would be too large
  int reach = 0;            ///< workers that all useful completions together bring in
  int most_displaced = 0;   ///< of them, those that may find no free slot
};

struct Variable {
  int group = 0;
  std::vector<int> completes;  ///< entry completed by each value; -1: none
};

/// Cells that the table of one rack and those of all racks may have.
constexpr int64_t kRackCells = 1 << 18;
constexpr int64_t kAllCells = 1 << 24;

class CoverProblem {
 public:
  CoverProblem(const std::vector<CoverRack>& racks, const std::vector<CoverGroup>& groups,
               bool with_strain)
      : racks_(racks),
        groups_(groups),
        model_of_(racks.size(), -1),
        strain_shift_(with_strain ? 0 : std::numeric_limits<int>::digits) {
    for (size_t t = 0; t < racks.size(); ++t) {
      if (racks[t].demand <= 0) continue;
      model_of_[t] = static_cast<int>(models_.size());
      models_.emplace_back().rack = static_cast<int>(t);
    }
    choose_unit();
    list_prices();
    find_useful_completions();
    for (size_t g = 0; g < groups.size(); ++g) add_group(static_cast<int>(g));
    int64_t limit = kRackCells;
    while (limit > 1 && cells_within(limit) > kAllCells) limit /= 2;
    for (RackModel& model : models_) limit_table(model, limit);
  }

  CoverResult solve(int64_t work_limit) {
    CoverResult out;
    out.displaced.assign(racks_.size(), 0);
    for (const RackModel& model : models_) add_table(model, out);
    out.shared_groups = static_cast<int>(variables_.size());
    out.cut_racks = static_cast<int>(std::count_if(
        models_.begin(), models_.end(), [](const RackModel& m) { return !m.loose.empty(); }));
    if (!out.conflict.empty()) {
      out.lower_bound = out.cost = kNever;
      return out;
    }
    const CostMinimum least = minimise(network_, work_limit);
    out.lower_bound = least.lower_bound >= kNever ? kNever : least.lower_bound / unit_;
    out.largest = least.largest;
    out.work += least.work;
    if (out.lower_bound >= kNever) name_conflict(least, out);
    if (least.cost < kNever) {
      act(least.value, out);
    } else {
      out.cost = kNever;
    }
    return out;
  }

 private:
  bool over(int rack) const { return model_of_[rack] >= 0; }

  /// Workers of the group in all racks but that of the entry, or −1 where the group cannot be
  /// completed there.
  int arrivals(const CoverGroup& group, size_t entry) const {
    if (!group.entries[entry].can_hold_all) return -1;
    int sum = 0;
    for (size_t i = 0; i < group.entries.size(); ++i) {
      if (i == entry) continue;
      if (!group.entries[i].can_empty) return -1;
      sum += group.entries[i].workers;
    }
    return sum;
  }

  /// Makes one move dearer than all strain together. Strains too large for the range of a cost lose
  /// their last bits.
  void choose_unit() {
    int64_t workers = 0, strain = 0;
    for (const CoverGroup& group : groups_) {
      for (const CoverEntry& e : group.entries) {
        workers += 2 * e.workers;  // once displaced, once emptied
        strain += e.strain;
      }
    }
    while ((workers + 1) * ((strain >> strain_shift_) + 1) > kNever / 2) ++strain_shift_;
    unit_ = static_cast<int>((strain >> strain_shift_) + 1);
  }

  int strain_of(const CoverEntry& e) const {
    return static_cast<int>(int64_t{e.strain} >> strain_shift_);
  }

  int price_of(const CoverEntry& e) const { return e.workers * unit_ + strain_of(e); }

  void list_prices() {
    for (size_t g = 0; g < groups_.size(); ++g) {
      for (const CoverEntry& e : groups_[g].entries) {
        if (!over(e.rack) || !e.can_empty) continue;
        models_[model_of_[e.rack]].prices.push_back(
            {price_of(e), e.workers, groups_[g].weight, static_cast<int>(g)});
      }
    }
    for (RackModel& model : models_) std::sort(model.prices.begin(), model.prices.end());
  }

  /// What can always be emptied at most so that the group need not be covered at the entry: the
  /// entry itself, or another one of no less weight. Others that are in use already weigh less than
  /// the demand together, so among the cheapest ones that weigh as much as the demand one is left.
  Price substitute(int g, const CoverEntry& entry) const {
    const Price itself{entry.can_empty ? price_of(entry) : kNever, entry.workers, 0, g};
    int seen = 0;
    for (const Price& price : models_[model_of_[entry.rack]].prices) {
      if (price.cost >= itself.cost) break;
      if (price.group == g || price.weight < groups_[g].weight) continue;
      seen += price.weight;
      if (seen >= racks_[entry.rack].demand) return price;
    }
    return itself;
  }

  /// The most that it is worth to the rack of the entry that the group be completed there, whatever
  /// the others do. (Emptying a substitute makes room for as many workers as it moves, so this
  /// holds where workers must be displaced, too.)
  int64_t worth_completed(int g, const CoverEntry& entry) const {
    return substitute(g, entry).cost;
  }

  /// The same for emptying the entry, which also makes room for as many workers as leave, but saves
  /// no more displaced ones than there can be.
  int64_t worth_emptied(int g, const CoverEntry& entry) const {
    const Price other = substitute(g, entry);
    const int room = std::min(entry.workers, models_[model_of_[entry.rack]].most_displaced);
    const int64_t most = other.cost + int64_t{unit_} * std::max(0, room - other.workers);
    return entry.can_empty ? std::min<int64_t>(most, price_of(entry)) : most;
  }

  /// The completions that can be better than none: they pay for the workers in all other racks, and
  /// are worth something to the racks that are over.
  std::vector<int> useful_completions(int g) const {
    const std::vector<CoverEntry>& entries = groups_[g].entries;
    int64_t emptying_all = 0;
    for (const CoverEntry& e : entries) {
      if (over(e.rack)) emptying_all += worth_emptied(g, e);
    }
    std::vector<int> useful;
    for (size_t i = 0; i < entries.size(); ++i) {
      if (!over(entries[i].rack)) continue;
      const int incoming = arrivals(groups_[g], i);
      if (incoming < 0) continue;
      const int64_t gain =
          emptying_all - worth_emptied(g, entries[i]) + worth_completed(g, entries[i]);
      if (int64_t{unit_} * incoming < gain) useful.push_back(static_cast<int>(i));
    }
    return useful;
  }

  /// The fewer completions are useful, the fewer workers they displace, and the fewer are useful.
  void find_useful_completions() {
    for (RackModel& model : models_) model.most_displaced = kNever;
    useful_.resize(groups_.size());
    for (bool shrunk = true; shrunk;) {
      shrunk = false;
      for (RackModel& model : models_) model.reach = 0;
      for (size_t g = 0; g < groups_.size(); ++g) {
        useful_[g] = useful_completions(static_cast<int>(g));
        for (int i : useful_[g]) {
          const size_t entry = static_cast<size_t>(i);
          models_[model_of_[groups_[g].entries[entry].rack]].reach += arrivals(groups_[g], entry);
        }
      }
      for (RackModel& model : models_) {
        const int most = std::max(0, model.reach - std::max(0, racks_[model.rack].free_slots));
        shrunk = shrunk || most < model.most_displaced;
        model.most_displaced = most;
      }
    }
  }

  void add_group(int g) {
    const CoverGroup& group = groups_[g];
    const auto over_count = std::count_if(group.entries.begin(), group.entries.end(),
                                          [&](const CoverEntry& e) { return over(e.rack); });
    Variable variable{g, {-1}};
    for (int entry : useful_[g]) variable.completes.push_back(entry);
    if (over_count > 1 && variable.completes.size() > 1) {
      add_shared(std::move(variable));
      return;
    }
    for (size_t i = 0; i < group.entries.size(); ++i) {
      const CoverEntry& e = group.entries[i];
      if (!over(e.rack)) continue;
      OwnEntry own{g, {}};
      own.choice.add({});
      if (e.can_empty) own.choice.add({price_of(e), group.weight, -e.workers});
      if (variable.completes.size() > 1) {  // the one rack that is over
        const int incoming = arrivals(group, i);
        own.choice.add({unit_ * incoming, group.weight, incoming});
      }
      if (own.choice.count > 1) models_[model_of_[e.rack]].own.push_back(own);
    }
  }

  void add_shared(Variable variable) {
    const CoverGroup& group = groups_[variable.group];
    const int x = static_cast<int>(variables_.size());
    const size_t values = variable.completes.size();
    CostTable own{{x}, {}};
    for (int completed : variable.completes) {
      own.cost.push_back(completed < 0 ? 0
                                       : unit_ * arrivals(group, static_cast<size_t>(completed)));
    }
    for (size_t i = 0; i < group.entries.size(); ++i) {
      const CoverEntry& e = group.entries[i];
      if (!over(e.rack)) continue;
      Seat seat{x, variable.group, std::vector<SeatState>(values, kEmptied), {}};
      seat.state[0] = kFree;
      seat.choice[kFree].add({});
      if (e.can_empty) seat.choice[kFree].add({price_of(e), group.weight, -e.workers});
      seat.choice[kEmptied].add({0, group.weight, -e.workers});
      for (size_t v = 1; v < values; ++v) {
        if (variable.completes[v] != static_cast<int>(i)) continue;
        const int incoming = arrivals(group, i);
        seat.state[v] = kCompleted;
        seat.choice[kCompleted].add({0, group.weight, incoming});
      }
      models_[model_of_[e.rack]].seats.push_back(std::move(seat));
    }
    network_.domain.push_back(static_cast<int>(values));
    network_.tables.push_back(std::move(own));
    variables_.push_back(std::move(variable));
  }

  /// The most seats of the rack, from the first, whose table has no more cells than the limit.
  std::pair<size_t, int64_t> seats_within(const RackModel& model, int64_t limit) const {
    int64_t cells = 1;
    size_t count = 0;
    for (const Seat& seat : model.seats) {
      const int64_t values = network_.domain[seat.variable];
      if (cells * values > limit) break;
      cells *= values;
      ++count;
    }
    return {count, cells};
  }

  int64_t cells_within(int64_t limit) const {
    int64_t sum = 0;
    for (const RackModel& model : models_) sum += seats_within(model, limit).second;
    return sum;
  }

  void limit_table(RackModel& model, int64_t limit) const {
    if (model.most_displaced == 0) model.reach = 0;  // the load does not matter
    const auto cut = model.seats.begin() + seats_within(model, limit).first;
    model.loose.assign(std::make_move_iterator(cut), std::make_move_iterator(model.seats.end()));
    model.seats.erase(cut, model.seats.end());
  }

  /// The cost of the rack for each combination of values of its shared groups.
  void add_table(const RackModel& model, CoverResult& out) {
    Ledger ledger(racks_[model.rack].demand, model.reach);
    for (const OwnEntry& own : model.own) ledger = ledger.after(own.choice);
    for (const Seat& seat : model.loose) {
      Choice freest;  // whatever the group does, this costs no more
      freest.add({});
      freest.add(seat.choice[kEmptied].offers[0]);
      ledger = ledger.after(freest);
    }
    CostTable table;
    size_t cells = 1;
    for (const Seat& seat : model.seats) {
      table.scope.push_back(seat.variable);
      cells *= seat.state.size();
    }
    table.cost.assign(cells, kNever);
    fill(model, model.seats.size(), 0, cells, ledger, table, out);
    const bool possible =
        std::any_of(table.cost.begin(), table.cost.end(), [](int c) { return c < kNever; });
    if (!possible) out.conflict.push_back(model.rack);
    network_.tables.push_back(std::move(table));
  }

  /// Fixes the seats from the last to the first, so that the ledger of the slower ones is shared.
  /// `cell` is the first cell of the run that the seats fixed so far leave, of `cells` cells.
  void fill(const RackModel& model, size_t open, size_t cell, size_t cells, const Ledger& ledger,
            CostTable& table, CoverResult& out) const {
    if (open == 0) {
      table.cost[cell] = ledger.cheapest(std::max(0, racks_[model.rack].free_slots), unit_);
      return;
    }
    const Seat& seat = model.seats[open - 1];
    const size_t run = cells / seat.state.size();
    std::array<std::optional<size_t>, 3> done;  // a cell where the state's run starts
    for (size_t v = 0; v < seat.state.size(); ++v) {
      const SeatState state = seat.state[v];
      const size_t start = cell + v * run;
      if (done[state]) {
        std::copy_n(table.cost.begin() + *done[state], run, table.cost.begin() + start);
        out.work += static_cast<int64_t>(run);
        continue;
      }
      done[state] = start;
      out.work += ledger.size();
      fill(model, open - 1, start, run, ledger.after(seat.choice[state]), table, out);
    }
  }

  void name_conflict(const CostMinimum& least, CoverResult& out) const {
    std::vector<char> stuck(variables_.size(), 0);
    for (int x : least.stuck) stuck[x] = 1;
    for (const RackModel& model : models_) {
      const bool in = std::any_of(model.seats.begin(), model.seats.end(),
                                  [&](const Seat& seat) { return stuck[seat.variable] != 0; });
      if (in) out.conflict.push_back(model.rack);
    }
  }

  /// Turns values into actions and adds up what they truly cost.
  void act(const std::vector<int>& value, CoverResult& out) const {
    for (size_t x = 0; x < variables_.size(); ++x) {
      const int completed = variables_[x].completes[value[x]];
      if (completed < 0) continue;
      const int g = variables_[x].group;
      complete(g, groups_[g].entries[completed].rack, out);
    }
    for (const RackModel& model : models_) {
      if (!act_in(model, value, out)) {
        out.cost = kNever;
        break;
      }
    }
    std::sort(out.evict.begin(), out.evict.end());
    std::sort(out.complete.begin(), out.complete.end());
    if (out.cost >= kNever) {
      out.evict.clear();
      out.complete.clear();
      out.displaced.assign(racks_.size(), 0);
    }
  }

  /// Completes the group in the rack; what that costs counts here for all racks.
  void complete(int g, int rack, CoverResult& out) const {
    out.complete.push_back({g, rack});
    for (const CoverEntry& e : groups_[g].entries) {
      if (e.rack == rack) continue;
      out.evict.push_back({g, e.rack});
      out.cost += e.workers;
    }
  }

  bool act_in(const RackModel& model, const std::vector<int>& value, CoverResult& out) const;

  const std::vector<CoverRack>& racks_;
  const std::vector<CoverGroup>& groups_;
  std::vector<std::vector<int>> useful_;  ///< entries where completing each group can pay
  std::vector<int> model_of_;             ///< of each rack, −1 where it is not over
  std::vector<RackModel> models_;
  std::vector<Variable> variables_;
  CostNetwork network_;
  int strain_shift_;  ///< low bits of strains that are left out
  int unit_ = 1;      ///< cost of one move; strain together costs less
};

/// Walks the rack's ledgers back from the cheapest end to see which offers were taken; false where
/// the rack cannot meet its demand with these values.
bool CoverProblem::act_in(const RackModel& model, const std::vector<int>& value,
                          CoverResult& out) const {
  const CoverRack& rack = racks_[model.rack];
  std::vector<const Choice*> choices;
  std::vector<int> group;
  for (const OwnEntry& own : model.own) {
    choices.push_back(&own.choice);
    group.push_back(own.group);
  }
  for (const std::vector<Seat>* seats : {&model.seats, &model.loose}) {
    for (const Seat& seat : *seats) {
      choices.push_back(&seat.choice[seat.state[value[seat.variable]]]);
      group.push_back(seat.group);
    }
  }
  std::vector<Ledger> ledgers{Ledger(rack.demand, model.reach)};
  for (const Choice* choice : choices) ledgers.push_back(ledgers.back().after(*choice));

  const int free = std::max(0, rack.free_slots);
  const int least = ledgers.back().cheapest(free, unit_);
  if (least >= kNever) return false;
  int cover = rack.demand, load = -model.reach;
  while (ledgers.back().at(ledgers.back().cell(cover, load)) + unit_ * std::max(0, load - free) !=
         least) {
    ++load;
  }
  out.displaced[model.rack] = std::max(0, load - free);
  out.cost += out.displaced[model.rack];
  int cell = ledgers.back().cell(cover, load);
  for (size_t i = choices.size(); i-- > 0;) {
    const Ledger& before = ledgers[i];
    const auto came_from = [&](const Offer& offer) {
      for (cover = 0; cover <= rack.demand; ++cover) {
        for (load = -model.reach; load <= model.reach; ++load) {
          const int paid = before.at(before.cell(cover, load));
          if (paid < kNever && before.target(cover, load, offer) == cell &&
              paid + offer.cost == ledgers[i + 1].at(cell)) {
            return true;
          }
        }
      }
      return false;
    };
    int taken = 0;
    while (!came_from(choices[i]->offers[taken])) ++taken;
    cell = before.cell(cover, load);
    const Offer& offer = choices[i]->offers[taken];
    if (offer.cost == 0) continue;  // nothing, or decided by the group's value and noted there
    if (offer.load < 0) {
      out.evict.push_back({group[i], model.rack});
      out.cost -= offer.load;
    } else {
      complete(group[i], model.rack, out);
    }
  }
  return true;
}

}  // namespace

CoverResult solve_cover(const std::vector<CoverRack>& racks, const std::vector<CoverGroup>& groups,
                        int64_t work_limit) {
  CoverResult first = CoverProblem(racks, groups, true).solve(work_limit);
  if (first.proved()) return first;
  // Strain sets solutions apart that would else be alike: without it more can be struck out.
  CoverResult plain = CoverProblem(racks, groups, false).solve(work_limit);
  plain.work += first.work;
  plain.lower_bound = std::max(plain.lower_bound, first.lower_bound);
  if (plain.cost <= first.cost) return plain;
  first.work = plain.work;
  first.lower_bound = plain.lower_bound;
  return first;
}

}  // namespace monkeytree
