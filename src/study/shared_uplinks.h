#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <vector>

#include "cluster/snapshot.h"

namespace monkeytree {

/// The racks that one group's ring visits, in its order, each once; at least two.
struct RackRing {
  std::vector<RackId> racks;
  int rings = 1;  ///< parallel ones
};

/// The rings that leave a rack, of a job on these nodes: one for each of `stages` equal parts of
/// the list. Racks come in the order in which the part first names them, as in routes(). Empty
/// where nothing crosses. O(nodes · racks of a part).
std::vector<RackRing> rings_of(const Snapshot& fabric, std::span<const NodeId> nodes, int stages,
                               int rings);

/// Degrees of racks, and who shares uplinks under perfect routing, while jobs come and go.
class SharedUplinks {
 public:
  /// Bounds of all racks, at least 1.
  explicit SharedUplinks(IdVector<RackId, int> bounds);

  /// `job` is any number of the caller's that is not in use. O(racks of the rings).
  void add(int job, std::vector<RackRing> rings);
  void remove(int job);  ///< one that was never added is passed over

  int degree(RackId rack) const { return degrees_[rack]; }
  int max_degree() const { return max_degree_; }
  const std::set<RackId>& over() const { return over_; }  ///< racks above their bound
  int excess() const { return excess_; }

  struct Sharer {
    int job = 0;
    int flows = 0;  ///< on the fullest link that carries one of the job's flows; at least 2
  };
  /// Jobs that do not have their links for themselves, by number. Flows are coloured (Kőnig) so
  /// that a rack with more flows than uplinks carries ⌊flows ÷ uplinks⌋ or one more on each, and
  /// any other rack shares nothing that it sends or receives. Where racks have different numbers of
  /// uplinks, a flow takes one that both have; one for which no colour is free takes the emptiest.
  /// Coloured afresh when asked after a change while a rack is above its bound:
  /// O(flows · length of a chain).
  const std::vector<Sharer>& sharers();

 private:
  void change_degree(RackId rack, int delta);
  void share_out();
  /// The uplink of each flow in flows_, or -1 where none was found.
  std::vector<int> colors() const;

  struct Flow {
    int job;
    RackId from, to;
  };

  IdVector<RackId, int> bounds_, degrees_;
  std::vector<int> racks_with_;  ///< by degree
  int max_degree_ = 0;
  int excess_ = 0;
  int most_uplinks_ = 1;
  bool same_bounds_ = true;
  std::set<RackId> over_;
  std::map<int, std::vector<RackRing>> jobs_;  ///< that cross racks
  bool changed_ = true;
  std::vector<Flow> flows_;
  std::vector<Sharer> sharers_;
};

}  // namespace monkeytree
