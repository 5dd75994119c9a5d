#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace monkeytree {

/// How global load balancing counts.
struct SglbRule {
  int64_t tick_us = 10'000;
  bool count_self =
      false;  ///< a flow's own presence counts against its spine (the authors' choice)
};

/// Global load balancing: a spine's score for a flow is the number of active flows on the uplink
/// and the downlink that it would use; spines that score no worse than the median spine are good; a
/// flow takes one of the good ones by its hash. At each tick (a multiple of tick_us) a flow whose
/// spine is no longer good picks again.
///
/// Calls come in a fixed order within one time: ended flows by (job, pair), then starts by
/// (job, pair), then, at a tick, every active flow by (job, pair); transfers after all jobs, by
/// number.
class Sglb {
 public:
  Sglb(int racks, int spines, SglbRule rule);

  /// Counts the flow on the spine that it returns.
  int start(int from_rack, int to_rack, uint64_t hash);
  void end(int from_rack, int to_rack, int spine);
  /// The spine the flow should have from this tick on; counted there.
  int tick(int from_rack, int to_rack, int spine, uint64_t hash);

  /// Changes whenever counts do that a flow between these racks looks at. While it stays what it
  /// was when a flow was last told its spine, tick() would leave the flow where it is.
  uint64_t version(int from_rack, int to_rack) const {
    return up_version_[static_cast<size_t>(from_rack)] +
           down_version_[static_cast<size_t>(to_rack)];
  }

  const SglbRule& rule() const { return rule_; }

 private:
  int& up(int rack, int spine) { return up_[index(rack, spine)]; }
  int& down(int rack, int spine) { return down_[index(rack, spine)]; }
  size_t index(int rack, int spine) const {
    return static_cast<size_t>(rack) * static_cast<size_t>(spines_) + static_cast<size_t>(spine);
  }
  /// Finds scores_ and worst_good_, the worst score of a good spine.
  void score(int from_rack, int to_rack);

  int spines_;
  SglbRule rule_;
  void add(int from_rack, int to_rack, int spine, int flows);

  std::vector<int> up_, down_;
  std::vector<uint64_t> up_version_, down_version_;  ///< by rack
  int choose(uint64_t hash) const;

  std::vector<int> scores_, sorted_;
  int worst_good_ = 0;
};

/// The hash of a flow: source host, destination host and job, mixed.
uint64_t flow_hash(uint64_t from_host, uint64_t to_host, uint64_t job);

}  // namespace monkeytree
