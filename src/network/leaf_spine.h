#pragma once

#include <span>
#include <vector>

#include "network/network.h"

namespace monkeytree {

/// Leaf-spine: `racks` racks of `gpus_per_rack` hosts (a host = one GPU with one NIC), one link up
/// and one down between each rack and each spine. Host h stands in rack h ÷ gpus_per_rack and node
/// h ÷ gpus_per_node.
struct FabricShape {
  int gpus = 1024;
  int gpus_per_node = 8;
  int gpus_per_rack = 64;
  int spines = 16;
  double link_bytes_per_us = 50'000;  ///< 400 Gb/s; of every link
  bool nvlink = false;                ///< flows inside a node take no time
  bool spray = false;                 ///< every flow between racks spread evenly over the spines

  int racks() const { return (gpus + gpus_per_rack - 1) / gpus_per_rack; }
  int rack_of(int host) const { return host / gpus_per_rack; }
  int node_of(int host) const { return host / gpus_per_node; }
  friend bool operator==(const FabricShape&, const FabricShape&) = default;
};

/// The one place that knows how many layers of switches there are.
///
/// Links are numbered: host h sends on 2h and receives on 2h + 1; then, for rack r and spine s, up
/// on 2·gpus + 2(r·spines + s) and down on the next. Where flows are sprayed the uplinks of a rack
/// are loaded alike, so they are one link of their whole capacity, that of spine 0.
class LeafSpine {
 public:
  explicit LeafSpine(const FabricShape& shape);

  const FabricShape& shape() const { return shape_; }
  int link_count() const;
  double capacity(LinkId link) const;  ///< bytes/µs
  LinkId host_up(int host) const { return LinkId(2 * host); }
  LinkId host_down(int host) const { return LinkId(2 * host + 1); }
  LinkId rack_up(int rack, int spine) const;
  LinkId rack_down(int rack, int spine) const;

  /// The links of a flow, NICs included: 2 within a rack (`spine` unused), else 4, in order.
  struct Path {
    LinkId links[4];
    int size = 0;
    std::span<const LinkId> span() const& { return {begin(), end()}; }
    Path span() const&& { return *this; }  ///< of a temporary: what keeps the links
    const LinkId* begin() const { return links; }
    const LinkId* end() const { return links + size; }
  };
  Path path(int from_host, int to_host, int spine) const;

 private:
  FabricShape shape_;
};

}  // namespace monkeytree
