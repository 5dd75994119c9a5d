#include "routing/sglb.h"

#include <algorithm>

namespace monkeytree {

uint64_t flow_hash(uint64_t from_host, uint64_t to_host, uint64_t job) {
  uint64_t hash = 0x9e3779b97f4a7c15ULL;
  for (const uint64_t word : {from_host, to_host, job}) {  // splitmix64 over the three
    hash += word + 0x9e3779b97f4a7c15ULL;
    hash = (hash ^ (hash >> 30)) * 0xbf58476d1ce4e5b9ULL;
    hash = (hash ^ (hash >> 27)) * 0x94d049bb133111ebULL;
    hash ^= hash >> 31;
  }
  return hash;
}

Sglb::Sglb(int racks, int spines, SglbRule rule)
    : spines_(spines),
      rule_(rule),
      up_(static_cast<size_t>(racks) * static_cast<size_t>(spines)),
      down_(up_.size()),
      up_version_(static_cast<size_t>(racks), 1),
      down_version_(static_cast<size_t>(racks), 1),
      scores_(static_cast<size_t>(spines)) {}

void Sglb::score(int from_rack, int to_rack) {
  for (int s = 0; s < spines_; ++s) {
    scores_[static_cast<size_t>(s)] = up(from_rack, s) + down(to_rack, s);
  }
  sorted_ = scores_;
  const auto median = sorted_.begin() + (spines_ - 1) / 2;
  std::nth_element(sorted_.begin(), median, sorted_.end());
  good_.clear();
  for (int s = 0; s < spines_; ++s) {
    if (scores_[static_cast<size_t>(s)] <= *median) good_.push_back(s);
  }
}

int Sglb::start(int from_rack, int to_rack, uint64_t hash) {
  score(from_rack, to_rack);
  const int spine = good_[hash % good_.size()];
  add(from_rack, to_rack, spine, 1);
  return spine;
}

void Sglb::end(int from_rack, int to_rack, int spine) { add(from_rack, to_rack, spine, -1); }

void Sglb::add(int from_rack, int to_rack, int spine, int flows) {
  up(from_rack, spine) += flows;
  down(to_rack, spine) += flows;
  ++up_version_[static_cast<size_t>(from_rack)];
  ++down_version_[static_cast<size_t>(to_rack)];
}

int Sglb::tick(int from_rack, int to_rack, int spine, uint64_t hash) {
  const int self = rule_.count_self ? 0 : 1;
  up(from_rack, spine) -= self;
  down(to_rack, spine) -= self;
  score(from_rack, to_rack);
  up(from_rack, spine) += self;
  down(to_rack, spine) += self;
  if (std::find(good_.begin(), good_.end(), spine) != good_.end()) return spine;
  const int chosen = good_[hash % good_.size()];
  add(from_rack, to_rack, spine, -1);
  add(from_rack, to_rack, chosen, 1);
  return chosen;
}

}  // namespace monkeytree
