#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/id.h"

namespace monkeytree {

using LinkId = Id<struct LinkTag>;
using StreamId = Id<struct StreamTag>;  ///< a flow under way in a Network

/// A flow takes `coefficient` × its rate of a link's capacity.
struct LinkUse {
  LinkId link;
  double coefficient = 1;  ///< > 0
  friend bool operator==(const LinkUse&, const LinkUse&) = default;
};

/// Rates are multiples of 2^-12 bytes/µs: the exact max-min rates, rounded to the nearest. So they
/// do not depend on the order in which a sum was taken.
inline constexpr double kRateQuanta = 4096;  ///< in 1 byte/µs

/// The bounds between two results lie a little beside the middle, where no ratio of capacities and
/// small counts comes to stand; on the middle itself the last bit of a sum would decide.
inline double quantized_rate(double rate) {
  return std::floor(rate * kRateQuanta + 0.5137) / kRateQuanta;
}

/// Flows over links at their max-min fair rates (max_min.h), kept while flows come and go.
///
/// A link on which the largest possible rates of all flows together fit is never a bottleneck, so
/// it ties no flows together: a change touches only flows that are connected by other links.
class Network {
 public:
  static constexpr int kMostLinks = 4;  ///< that one flow uses

  /// Capacity in bytes/µs, > 0, at most 2^40.
  LinkId add_link(double capacity);
  /// Room for so many links, without what growing would waste.
  void reserve_links(size_t links) { links_.reserve(links); }
  size_t link_count() const { return links_.size(); }

  /// A flow that never exceeds `max_rate` bytes/µs, over at most kMostLinks links. Numbers of
  /// removed flows are given out again. Its rate is 0 until settle(). O(1).
  StreamId add(std::span<const LinkUse> uses, double max_rate);
  void remove(StreamId flow);
  /// Keeps its rate until settle().
  void reroute(StreamId flow, std::span<const LinkUse> uses, double max_rate);

  /// Gives the flows that the changes since the last call can touch their max-min rates, and
  /// returns those whose rate changed, ascending; valid until the next call. O(of the connected
  /// parts that changed), not of the network; no allocation once its buffers have grown.
  std::span<const StreamId> settle();

  double rate(StreamId flow) const { return flows_[flow].rate; }
  /// Flows on a link now.
  int load(LinkId link) const { return static_cast<int>(links_[link].load); }

 private:
  /// A flow on a link, and its neighbours in the link's list. A place is 4 · flow + which.
  struct Use {
    double coefficient;
    LinkId link;
    int32_t next, previous;  ///< places, -1 at an end
  };
  struct Flow {
    Use uses[kMostLinks];
    double cap = 0;  ///< the most that max_rate and each link alone allow
    double rate = 0;
    uint32_t visited = 0, fixed = 0;  ///< epochs
    int8_t links = 0;
    bool alive = false;
    bool fresh = false;  ///< in fresh_
  };
  struct Link {
    double capacity;
    int64_t spare;  ///< capacity less all caps of flows, in quanta, rounded down
    int32_t first = -1;
    uint32_t load : 31 = 0;
    uint32_t dirty : 1 = 0;  ///< in dirty_
    uint32_t visited = 0;    ///< epoch
    int32_t local = 0;       ///< its index in part_links_

    bool can_fill() const { return spare < 0; }
  };
  /// A link that can fill, in the part that is being solved.
  struct PartLink {
    LinkId link;
    int32_t unfixed;  ///< flows
    double room;      ///< capacity less the fixed flows
    double weight;    ///< sum of the unfixed flows' coefficients
  };
  struct Level {
    double level;
    int32_t local;
  };

  static size_t which(int32_t place) { return static_cast<size_t>(place) % kMostLinks; }
  static StreamId flow_of(int32_t place) { return StreamId(place / kMostLinks); }
  Use& use(int32_t place) { return flows_[flow_of(place)].uses[which(place)]; }

  static int64_t quanta_of(const Use& use, double cap, const Link& link);
  void attach(StreamId flow, std::span<const LinkUse> uses, double max_rate);
  void detach(StreamId flow);
  void mark_fresh(StreamId flow);
  void begin_epoch();
  void visit(StreamId flow);
  void settle_part(StreamId seed);
  void fill();
  bool fix_capped(const PartLink& part_link, double level);
  void fix_all(const PartLink& part_link, double level);
  void fix(Flow& flow, StreamId id, double rate);
  void set_rate(Flow& flow, StreamId id, double rate);
  void push_level(double level, int32_t local);

  IdVector<LinkId, Link> links_;
  IdVector<StreamId, Flow> flows_;
  std::vector<StreamId> free_;
  std::vector<LinkId> dirty_;    ///< could fill before a flow left them
  std::vector<StreamId> fresh_;  ///< added or rerouted
  std::vector<StreamId> changed_;
  uint32_t epoch_ = 0;
  // The part that is being solved.
  std::vector<StreamId> part_;
  std::vector<PartLink> part_links_;
  std::vector<Level> levels_;  ///< a heap, lowest first; may lag behind
};

}  // namespace monkeytree
