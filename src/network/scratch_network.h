#pragma once

#include <array>
#include <span>
#include <vector>

#include "network/max_min.h"
#include "network/network.h"

namespace monkeytree {

/// A Network that finds all rates anew, by max_min(), whenever something has changed: its referee.
class ScratchNetwork {
 public:
  LinkId add_link(double capacity) { return capacities_.push_back(capacity); }
  StreamId add(std::span<const LinkUse> uses, double max_rate);
  void remove(StreamId flow);
  void reroute(StreamId flow, std::span<const LinkUse> uses, double max_rate);
  std::span<const StreamId> settle();
  double rate(StreamId flow) const { return flows_[flow].rate; }
  int load(LinkId link) const;

 private:
  struct Flow {
    std::vector<LinkUse> uses;
    double max_rate = 0;
    double rate = 0;
    bool alive = false;
  };

  IdVector<LinkId, double> capacities_;
  IdVector<StreamId, Flow> flows_;
  std::vector<StreamId> free_;
  std::vector<StreamId> changed_;
  bool dirty_ = false;
};

}  // namespace monkeytree
