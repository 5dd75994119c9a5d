#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "simulation/time.h"

namespace monkeytree {

/// The next time at which something happens to each of many things, by number; the earliest first,
/// lowest number first among equals. An indexed binary heap: set() is O(log n).
class EventQueue {
 public:
  Time top_time() const { return heap_.empty() ? kNever : heap_.front().time; }
  int top() const { return heap_.front().id; }

  Time time_of(int id) const {
    const auto i = static_cast<size_t>(id);
    return i < places_.size() && places_[i] >= 0 ? heap_[static_cast<size_t>(places_[i])].time
                                                 : kNever;
  }

  /// kNever takes it out.
  void set(int id, Time time) {
    const auto i = static_cast<size_t>(id);
    if (i >= places_.size()) places_.resize(i + 1, -1);
    if (places_[i] < 0) {
      if (time == kNever) return;
      places_[i] = static_cast<int>(heap_.size());
      heap_.push_back({time, id});
      up(heap_.size() - 1);
      return;
    }
    const auto place = static_cast<size_t>(places_[i]);
    if (time == kNever) {
      erase(place);
      return;
    }
    const Time former = heap_[place].time;
    heap_[place].time = time;
    if (time < former) {
      up(place);
    } else if (time > former) {
      down(place);
    }
  }

 private:
  struct Entry {
    Time time;
    int id;
    friend auto operator<=>(const Entry&, const Entry&) = default;
  };

  void erase(size_t place) {
    places_[static_cast<size_t>(heap_[place].id)] = -1;
    const Entry last = heap_.back();
    heap_.pop_back();
    if (place == heap_.size()) return;
    heap_[place] = last;
    places_[static_cast<size_t>(last.id)] = static_cast<int>(place);
    up(place);
    down(static_cast<size_t>(places_[static_cast<size_t>(last.id)]));
  }
  void put(size_t place, const Entry& entry) {
    heap_[place] = entry;
    places_[static_cast<size_t>(entry.id)] = static_cast<int>(place);
  }
  void up(size_t place) {
    const Entry entry = heap_[place];
    while (place > 0 && entry < heap_[(place - 1) / 2]) {
      put(place, heap_[(place - 1) / 2]);
      place = (place - 1) / 2;
    }
    put(place, entry);
  }
  void down(size_t place) {
    const Entry entry = heap_[place];
    for (;;) {
      size_t child = 2 * place + 1;
      if (child >= heap_.size()) break;
      if (child + 1 < heap_.size() && heap_[child + 1] < heap_[child]) ++child;
      if (entry <= heap_[child]) break;
      put(place, heap_[child]);
      place = child;
    }
    put(place, entry);
  }

  std::vector<Entry> heap_;
  std::vector<int> places_;  // by id: index in heap_, or -1
};

}  // namespace monkeytree
