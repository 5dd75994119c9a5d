#include "routing/sglb.h"

#include <algorithm>
#include <array>

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

/// Counts how many spines have each score, up to the median's: scores are small.
void Sglb::score(int from_rack, int to_rack) {
  std::array<int, 64> spines_with{};
  const int* const ups = &up(from_rack, 0);
  const int* const downs = &down(to_rack, 0);
  int most = 0;
  for (int s = 0; s < spines_; ++s) {
    const int score = ups[s] + downs[s];
    scores_[static_cast<size_t>(s)] = score;
    most = std::max(most, score);
    ++spines_with[static_cast<size_t>(score) % spines_with.size()];
  }
  const int half = (spines_ + 1) / 2;
  if (most < static_cast<int>(spines_with.size())) {
    worst_good_ = 0;
    for (int sum = spines_with[0]; sum < half;) {
      sum += spines_with[static_cast<size_t>(++worst_good_)];
    }
  } else {
    sorted_ = scores_;
    std::nth_element(sorted_.begin(), sorted_.begin() + half - 1, sorted_.end());
    worst_good_ = sorted_[static_cast<size_t>(half - 1)];
  }
}

/// The good spine of the hash.
int Sglb::choose(uint64_t hash) const {
  uint64_t good = 0;
  for (const int score : scores_) good += score <= worst_good_;
  uint64_t left = hash % std::max<uint64_t>(good, 1);  // never 0: the best is good
  for (int s = 0;; ++s) {
    if (scores_[static_cast<size_t>(s)] <= worst_good_ && left-- == 0) return s;
  }
}

int Sglb::start(int from_rack, int to_rack, uint64_t hash) {
  score(from_rack, to_rack);
  const int spine = choose(hash);
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
  if (scores_[static_cast<size_t>(spine)] <= worst_good_) return spine;
  const int chosen = choose(hash);
  add(from_rack, to_rack, spine, -1);
  add(from_rack, to_rack, chosen, 1);
  return chosen;
}

}  // namespace monkeytree
