#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "planning/counts.h"
#include "planning/order.h"

namespace monkeytree {

/// Exact search for a placement that needs at most a given number of moves.
///
/// A state is the counts with some workers taken out and not yet placed. Only three actions exist
/// and none is ever undone on the same entry (group, rack, class): take a worker out, *evict* a
/// group from a rack (all its workers there), *complete* a group in a rack (its workers elsewhere
/// all go there). At a state, in this order:
///   1. some degree is above its bound: one of the groups partly there must be evicted or
///   completed;
///   2. a completed group does not fit: one of the workers there must leave;
///   3. the workers taken out can all be placed at no further cost: a solution;
///   4. otherwise some rack that receives one of them must also lose a worker or have a group
///   evicted
///      or completed. (If no such rack existed, placing the workers as the solution does, without
///      its further removals, would already be possible, and step 3 would have found it.)
/// Each branch forbids what its earlier siblings have tried, so no set of removals is met twice.
/// When every branch fails and none was cut for want of budget, no placement exists at all.
class Search {
 public:
  enum class Answer {
    kFound,  ///< changes() holds a placement
    kNone,   ///< none with so few moves
    kNever,  ///< none at all
    kLimit,  ///< the work was used up, or stop() said so
  };

  /// `counts` is changed during run() and restored before it returns.
  explicit Search(Counts& counts) : counts_(counts) {}

  /// Search nodes that all runs together may use, and what is asked now and then.
  void set_limit(int64_t work, std::function<bool()> stop);
  /// Called with each solution while a class is mixed (Counts::mixed); false goes on searching.
  /// After a refusal kNone and kNever are no proofs: see refused().
  void set_accept(std::function<bool(std::span<const CountChange>)> accept) {
    accept_ = std::move(accept);
  }

  /// False: step 4 is left out, so only workers of groups in racks above their bounds are taken out
  /// and kNone and kNever are no proofs. Far cheaper where failing costs a look at every rack.
  void set_thorough(bool thorough) { thorough_ = thorough; }

  /// From now on options of equal cost are tried in an order drawn from the seed, and the first
  /// solution is taken whatever it costs besides moves: for callers that want others than before.
  void set_seed(uint64_t seed) {
    seed_ = seed;
    shuffled_ = true;
  }

  /// Is there a placement at most `budget` moves away whose excess is at most `allowed_excess`?
  Answer run(int budget, int allowed_excess = 0);

  const std::vector<CountChange>& changes() const { return best_; }
  int64_t work() const { return work_; }
  bool refused() const { return refused_; }

  /// A lower bound on the moves from the counts as they stand (no search).
  int root_bound();

 private:
  static constexpr int kImpossible = 1 << 28;  ///< more than any cost

  enum Mark : uint8_t { kNoEvict = 1, kNoComplete = 2, kNoLoss = 4, kClosed = 8 };
  struct Undo {
    enum What : uint8_t { kTake, kMark, kCommit } what;
    uint8_t old_marks = 0;
    GroupId group;
    int entry = 0;
    int up = 0, stay = 0;
    RackId rack;
  };
  struct Pending {
    GroupId group;
    ClassId node_class;
    IslandId island;
    int count = 0;
  };
  struct Whole {  // a group that its pending workers would make whole in the rack
    GroupId group;
    RackId rack;
    friend bool operator==(const Whole&, const Whole&) = default;
  };
  struct Landing {
    GroupId group;
    ClassId node_class;
    RackId rack;
    int count = 0;
    int degree_delta = 0;
  };
  struct Option {
    enum What : uint8_t { kEvict, kComplete, kTake } what;
    GroupId group;
    RackId rack;
    int entry = 0;
    int cost = 0;
  };

  void node(int budget);
  void branch_degree(int budget);
  void branch_overfull(int budget, RackId rack, ClassId c);
  void branch_landing(int budget);
  void try_options(std::vector<Option>& options, int budget);
  void try_option(const Option& option, int budget);
  void shuffle(std::vector<Option>& options);
  bool possible(const Option& option) const;
  void perform(const Option& option);
  void forbid(const Option& option);
  bool done();

  bool tight_options(const std::vector<Pending>& open, int budget,
                     std::vector<Option>& options) const;
  struct Relief {  // who may come in where room is left; see tight_options()
    bool any = true;
    int slack = 0;
    std::vector<GroupId> groups;
  };
  struct Outlook {  // of a state, for options that are judged one by one
    int budget = 0;
    Relief relief;  // of the last move
    std::vector<Whole> whole;
    uint64_t epoch = UINT64_MAX;  // of the reach; not measured
    std::vector<RackId> racks;    // all
  };
  Relief measure_relief() const;
  bool relieves(const Relief& relief, const Option& option) const;
  Outlook look_out(int budget);
  bool promises(Outlook& outlook, const Option& option);
  static void drop_repeated(std::vector<Option>& options);
  bool list_roomy(std::vector<RackId>& roomy) const;
  void add_newcomers(const std::vector<RackId>& roomy, int budget,
                     std::vector<Option>& options) const;
  bool receives(const std::vector<Pending>& parts, RackId rack) const;
  void add_repair_options(RackId rack, std::vector<Option>& options) const;
  void add_loss_options(RackId rack, ClassId c, std::vector<Option>& options) const;
  void add_opening_options(const Pending& part, RackId rack, bool joint,
                           std::vector<Option>& options) const;

  // -- Actions and their undoing.
  void take(GroupId group, int entry, int count);
  void evict(GroupId group, RackId rack);
  void complete(GroupId group, RackId rack);
  void mark(GroupId group, int entry, uint8_t marks);
  void rewind(size_t to);

  // -- What is possible and what it costs.
  bool partial(GroupId group, RackId rack) const;
  int evict_cost(GroupId group, RackId rack) const;     ///< -1: impossible
  int complete_cost(GroupId group, RackId rack) const;  ///< -1: impossible
  bool may_lose(GroupId group, int entry) const;
  bool closed(GroupId group, RackId rack, ClassId c) const;
  int pending(GroupId group) const;
  RackId completable(GroupId group) const;
  void note_whole();
  bool find_overfull(RackId* rack, ClassId* c) const;
  int bound_below() const;
  class Knapsack;
  int cover2(RackId rack) const;
  int cover2_all() const;
  void add_to_knapsack(RackId rack, Knapsack& knapsack) const;
  int half_cost(GroupId group, RackId rack, int evict, int complete) const;
  bool admits(GroupId group, RackId rack) const;
  int landable(const Pending& part, int enough) const;

  // -- Step 3.
  struct Part {  // what land() places: a pending part and the racks that are not like any other
    Pending pending;
    bool first_of_group = false;
    bool placed = false;  // with its group, whole
    std::vector<RackId> racks;
  };
  struct Reach {  // of measure_reach()
    uint64_t epoch = 0;
    std::vector<int> open_slack;  // by level: weight that may come in somewhere
    std::vector<RackId> racks_here;
    std::vector<GroupId> frontier;
  };
  int reach_level(GroupId group, RackId from) const;
  void improve_reach(GroupId group, RackId rack, int level);
  void measure_reach(int levels);
  void widen_reach(int level);
  void add_to_reach(RackId rack);
  int slack_within(RackId rack, int level) const;
  int places_to_fill(RackId rack) const;
  bool may_be_whole(GroupId group, int moves) const;
  bool leaves_within(GroupId group, RackId from, int level) const;

  struct Place {  // a rack, or the racks of one kind together, for workers of one class
    RackId rack;
    ClassId node_class;
    int room = 0;
    bool single = true;
  };
  bool land();
  std::vector<Pending> short_parts();
  void list_places();
  std::vector<Pending> match_parts();
  std::vector<RackId> relieving_racks() const;
  bool augment(size_t part);
  bool land_groups(size_t index);
  bool land_from(size_t index);
  bool land_whole(size_t index);
  bool land_whole_in(size_t index, size_t end, RackId rack);
  bool land_rest(size_t index, int count, size_t next, int at_most);
  bool land_in_kinds(size_t index, int count, size_t next, int at_most);
  bool land_here(size_t index, int count, RackId rack, size_t next, int most, bool of_kind);
  void list_racks(Part& part) const;
  RackId representative(const std::vector<RackId>& racks, GroupId group) const;
  int landed(GroupId group, RackId rack) const;
  bool put(GroupId group, ClassId c, RackId rack, int count, int degree_delta);
  void unput();
  void accept();

  Counts& counts_;
  std::vector<Undo> undo_;
  std::vector<Pending> pending_;
  std::vector<Landing> landing_;
  std::vector<std::pair<GroupId, RackId>> committed_;
  std::vector<RackId> touched_;  // racks with a take or a completion, with repeats
  std::vector<Whole> whole_;     // of the state that land() was last asked about
  std::vector<Part> parts_;
  std::vector<Pending> short_;  // after land(): parts that lack room together
  int deficit_ = 0;             // and how many workers stay without, whoever they are
  std::vector<Place> places_;
  std::vector<char> open_;  // by place and part
  std::vector<int> from_;   // workers matched, by place and part
  Reach reach_;
  std::vector<RackId> single_;
  std::vector<char> reached_;
  int64_t landing_steps_ = 0;
  int64_t racks_seen_ = 0;
  std::vector<int> domain_free_;  // by island and class: Σ free
  std::vector<CountChange> best_;
  std::function<bool()> stop_;
  std::function<bool(std::span<const CountChange>)> accept_;
  int64_t work_ = 0;
  int64_t limit_ = INT64_MAX;
  int allowed_ = 0;
  bool thorough_ = true;
  bool shuffled_ = false;
  uint64_t seed_ = 0;
  int64_t best_bytes_ = 0;
  int best_jobs_ = 0;
  bool found_ = false;
  int64_t grace_ = INT64_MAX;         // when to stop looking for a cheaper optimum
  int64_t patience_ = 0;              // work for each choice of how degrees are lowered
  int64_t patience_end_ = INT64_MAX;  // of the choice being looked at
  bool impatient_ = false;            // some choice would have taken more
  bool cut_ = false;                  // a branch was cut for want of budget
  bool limited_ = false;              // the work was used up
  bool refused_ = false;

  RackId committed(GroupId group) const {
    for (const auto& [g, rack] : committed_) {
      if (g == group) return rack;
    }
    return RackId();
  }
};

}  // namespace monkeytree
