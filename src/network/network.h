#pragma once

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
  double coefficient = 1;
};

/// Rates are multiples of 2^-12 bytes/µs: the exact max-min rates, rounded to the nearest. So they
/// do not depend on the order in which a sum was taken.
double quantized_rate(double rate);

/// Flows over links at their max-min fair rates, kept while flows come and go.
class Network {
 public:
  /// Capacity in bytes/µs, > 0.
  LinkId add_link(double capacity);
  size_t link_count() const;

  /// A flow that never exceeds `max_rate` bytes/µs. Numbers of removed flows are given out again.
  /// Its rate is 0 until settle().
  StreamId add(std::span<const LinkUse> uses, double max_rate);
  void remove(StreamId flow);
  void reroute(StreamId flow, std::span<const LinkUse> uses, double max_rate);

  /// Gives the flows that the changes since the last call can touch their max-min rates, and
  /// returns those whose rate changed, ascending. O(of the connected parts that changed), not of
  /// the network.
  std::span<const StreamId> settle();

  double rate(StreamId flow) const;
  /// Flows on a link now.
  int load(LinkId link) const;
};

}  // namespace monkeytree
