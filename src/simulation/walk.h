#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "simulation/graph.h"

namespace monkeytree {

/// How far one job is in an iteration some of whose flows have no known end.
///
/// A vertex is settled when the time at which it is done is known, be it in the future: all before
/// it are settled and it is not an open flow. An open flow is one whose rate may change; only its
/// end settles it. So an iteration costs what depends on its open flows, and no event for the rest.
class Walk {
 public:
  struct Start {
    Time time;
    int vertex;
    /// Makes the standard heap give the earliest, then lowest, first.
    friend bool operator<(const Start& a, const Start& b) {
      return a.time != b.time ? a.time > b.time : a.vertex > b.vertex;
    }
  };

  explicit Walk(const Graph& graph);

  /// Which flows are open from the next begin() on; `open` by pair. O(vertices).
  void choose(const std::vector<char>& open);

  /// An iteration starts. O(vertices after open flows).
  void begin(Time start);
  /// An iteration that started at `start` has come this far without any open flow.
  void enter(Time start);

  Time start() const { return start_; }
  /// When a vertex is done; kNever while unsettled.
  Time done(int vertex) const {
    const auto v = static_cast<size_t>(vertex);
    return whole_ || depends_[v] != 0 ? done_[v] : start_ + graph_->offsets[v];
  }
  /// When the last vertex is done; kNever while one is unsettled.
  Time end() const { return unsettled_ == 0 ? end_ : kNever; }

  bool has_start() const { return !starts_.empty(); }
  Time next_start() const { return starts_.front().time; }
  int pop_start();

  /// An open flow has ended.
  void finish(int vertex, Time time) { settle(vertex, time); }

  /// Goes through the iteration again with other open flows, at `now`, when everything before is
  /// fact. `under_way(vertex, begun)` is called for each flow of a pair that has begun and is not
  /// done; it returns the flow's end, or kNever where the flow is open.
  template <class UnderWay>
  void revise(Time now, const std::vector<char>& open, UnderWay under_way);

 private:
  void settle(int vertex, Time time);
  void release(int vertex);
  void schedule(Time time, int vertex);

  /// What settling looks at, of one vertex, side by side in memory.
  struct Place {
    Time ready = 0;     // by what is settled before it
    Time duration = 0;  // of the graph
    int waiting = 0;    // unsettled vertices before it
    bool open = false;  // an open flow
  };

  const Graph* graph_;
  Time start_ = 0, end_ = 0;
  int unsettled_ = 0;
  bool whole_ = false;         // done_ holds every vertex, not only those after open flows
  std::vector<Time> done_;     // by vertex
  std::vector<Place> places_;  // by vertex
  std::vector<Start> starts_;  // heap

  // What choose() found.
  struct Dependent {
    int vertex;
    int waiting;
    Time ready;  // from the start, by what does not depend on open flows
  };
  std::vector<char> depends_;  // by vertex
  std::vector<Dependent> dependents_;
  Time end_of_others_ = 0;
};

template <class UnderWay>
void Walk::revise(Time now, const std::vector<char>& open, UnderWay under_way) {
  for (size_t v = 0; v < done_.size(); ++v) done_[v] = done(static_cast<int>(v));
  whole_ = true;
  starts_.clear();
  unsettled_ = 0;
  end_ = start_;
  for (size_t v = 0; v < done_.size(); ++v) {
    const Graph::Vertex& vertex = graph_->vertices[v];
    Place& place = places_[v];
    place.open = vertex.pair >= 0 && open[static_cast<size_t>(vertex.pair)] != 0;
    if (done_[v] > now) {
      int waiting = 0;
      Time ready = start_;
      for (const int p : graph_->before(static_cast<int>(v))) {
        const Time time = done_[static_cast<size_t>(p)];
        if (time == kNever) {
          ++waiting;
        } else {
          ready = std::max(ready, time);
        }
      }
      place.ready = ready;
      place.waiting = waiting;
      if (waiting > 0) {
        done_[v] = kNever;
      } else if (ready > now || vertex.pair < 0) {
        done_[v] = kNever;
        if (place.open) {
          schedule(ready, static_cast<int>(v));
        } else {
          done_[v] = ready + vertex.duration;
        }
      } else {
        done_[v] = under_way(static_cast<int>(v), ready);
      }
    }
    if (done_[v] == kNever) {
      ++unsettled_;
    } else {
      end_ = std::max(end_, done_[v]);
    }
  }
}

}  // namespace monkeytree
