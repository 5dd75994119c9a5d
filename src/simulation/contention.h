#pragma once

#include <cstdint>
#include <vector>

#include "network/leaf_spine.h"

namespace monkeytree {

/// How many flows could ever meet on each link between racks and spines, given where jobs stand and
/// how they are routed. A link that all of them could use at full rate is free: what is on it needs
/// no simulation.
class Contention {
 public:
  /// Flows of one job that a link may carry at one time, at most.
  struct Load {
    LinkId link;
    int flows = 0;
  };

  explicit Contention(const LeafSpine& fabric);

  void add(int job, const std::vector<Load>& loads);
  void remove(int job, const std::vector<Load>& loads);
  /// Traffic of no job.
  void add(LinkId link, int flows);

  bool contended(LinkId link) const {
    const Link& it = links_[static_cast<size_t>(link.value - first_)];
    return it.flows > it.limit;
  }

  /// Jobs on a link that became contended or free since the last call, ascending, each once.
  std::vector<int> take_changed();

 private:
  struct Link {
    int flows = 0;
    int limit = 1;  // flows of full rate that fit
    std::vector<int> jobs;
  };
  Link& at(LinkId link) { return links_[static_cast<size_t>(link.value - first_)]; }
  void change(Link& link, int flows);

  int first_ = 0;  // the first link between a rack and a spine
  std::vector<Link> links_;
  std::vector<int> changed_;
};

}  // namespace monkeytree
