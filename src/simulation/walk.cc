#include "simulation/walk.h"

#include <algorithm>

namespace monkeytree {

Walk::Walk(const Graph& graph)
    : graph_(&graph),
      done_(graph.vertices.size()),
      places_(graph.vertices.size()),
      depends_(graph.vertices.size()) {
  for (size_t v = 0; v < places_.size(); ++v) places_[v].duration = graph.vertices[v].duration;
}

void Walk::choose(const std::vector<char>& open) {
  dependents_.clear();
  end_of_others_ = 0;
  for (size_t v = 0; v < depends_.size(); ++v) {
    const Graph::Vertex& vertex = graph_->vertices[v];
    places_[v].open = vertex.pair >= 0 && open[static_cast<size_t>(vertex.pair)] != 0;
    Dependent dependent{static_cast<int>(v), 0, 0};
    for (const int p : graph_->before(static_cast<int>(v))) {
      if (depends_[static_cast<size_t>(p)] != 0) {
        ++dependent.waiting;
      } else {
        dependent.ready = std::max(dependent.ready, graph_->offsets[static_cast<size_t>(p)]);
      }
    }
    depends_[v] = places_[v].open || dependent.waiting > 0;
    if (depends_[v] != 0) {
      dependents_.push_back(dependent);
    } else {
      end_of_others_ = std::max(end_of_others_, graph_->offsets[v]);
    }
  }
}

void Walk::begin(Time start) {
  start_ = start;
  whole_ = false;
  starts_.clear();
  end_ = start + end_of_others_;
  unsettled_ = static_cast<int>(dependents_.size());
  for (const Dependent& it : dependents_) {
    const auto v = static_cast<size_t>(it.vertex);
    done_[v] = kNever;
    places_[v].ready = start + it.ready;
    places_[v].waiting = it.waiting;
  }
  for (const Dependent& it : dependents_) {
    if (it.waiting == 0) release(it.vertex);
  }
}

void Walk::enter(Time start) {
  start_ = start;
  whole_ = true;
  starts_.clear();
  unsettled_ = 0;
  end_ = start + graph_->period;
  for (size_t v = 0; v < done_.size(); ++v) done_[v] = start + graph_->offsets[v];
}

void Walk::schedule(Time time, int vertex) {
  starts_.push_back({time, vertex});
  std::push_heap(starts_.begin(), starts_.end());
}

int Walk::pop_start() {
  std::pop_heap(starts_.begin(), starts_.end());
  const int vertex = starts_.back().vertex;
  starts_.pop_back();
  return vertex;
}

void Walk::release(int vertex) {
  const Place& place = places_[static_cast<size_t>(vertex)];
  if (place.open) {
    schedule(place.ready, vertex);
  } else {
    settle(vertex, place.ready + place.duration);
  }
}

void Walk::settle(int vertex, Time time) {
  done_[static_cast<size_t>(vertex)] = time;
  end_ = std::max(end_, time);
  --unsettled_;
  for (const int next : graph_->after(vertex)) {
    Place& place = places_[static_cast<size_t>(next)];
    place.ready = std::max(place.ready, time);
    if (--place.waiting == 0) release(next);
  }
}

}  // namespace monkeytree
