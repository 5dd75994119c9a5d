// What the search does to the counts, and how it is undone.

#include <algorithm>

#include "planning/search.h"

namespace monkeytree {

void Search::take(GroupId g, int index, int count) {
  Counts::GroupCounts& group = counts_.group(g);
  Counts::Entry& entry = group.entries[static_cast<size_t>(index)];
  const RackId rack = entry.rack;
  const int before = counts_.total(g, rack);
  const int up = std::min(count, entry.up);
  entry.up -= up;
  entry.stay -= count - up;
  entry.taken += count;
  const int freed = up * counts_.need(g, entry.node_class);
  counts_.free(rack, entry.node_class) += freed;
  const size_t domain =
      static_cast<size_t>(counts_.rack(rack).island.value) * counts_.class_count();
  domain_free_[domain + static_cast<size_t>(entry.node_class.value)] += freed;
  ++counts_.rack(rack).touched;
  touched_.push_back(rack);
  const IslandId island = counts_.rack(rack).island;
  auto part = std::find_if(pending_.begin(), pending_.end(), [&](const Pending& p) {
    return p.group == g && p.node_class == entry.node_class && p.island == island;
  });
  if (part == pending_.end()) part = pending_.insert(part, {g, entry.node_class, island, 0});
  part->count += count;
  const int was = before < group.size ? 1 : 0;
  const int is = before - count > 0 ? 1 : 0;
  if (was != is) counts_.add_degree(rack, (is - was) * group.weight);
  undo_.push_back({Undo::kTake, 0, g, index, up, count - up, rack});
}

void Search::evict(GroupId g, RackId rack) {
  const int first = counts_.find(g, rack);
  const auto& entries = counts_.group(g).entries;
  for (size_t i = static_cast<size_t>(first); i < entries.size() && entries[i].rack == rack; ++i) {
    if (entries[i].movable() > 0) take(g, static_cast<int>(i), entries[i].movable());
  }
  mark(g, first, kClosed);
}

void Search::complete(GroupId g, RackId rack) {
  Counts::GroupCounts& group = counts_.group(g);
  for (size_t i = 0; i < group.entries.size(); ++i) {
    if (group.entries[i].rack != rack && group.entries[i].movable() > 0) {
      take(g, static_cast<int>(i), group.entries[i].movable());
    }
  }
  committed_.push_back({g, rack});
  const int here = counts_.total(g, rack);
  if (here > 0 && here < group.size) counts_.add_degree(rack, -group.weight);
  const size_t domain =
      static_cast<size_t>(counts_.rack(rack).island.value) * counts_.class_count();
  for (const Pending& part : pending_) {
    if (part.group != g) continue;
    const int units = part.count * counts_.need(g, part.node_class);
    counts_.free(rack, part.node_class) -= units;
    domain_free_[domain + static_cast<size_t>(part.node_class.value)] -= units;
  }
  ++counts_.rack(rack).touched;
  touched_.push_back(rack);
  undo_.push_back({Undo::kCommit, 0, g, 0, 0, 0, rack});
}

void Search::mark(GroupId g, int index, uint8_t marks) {
  Counts::Entry& entry = counts_.group(g).entries[static_cast<size_t>(index)];
  undo_.push_back({Undo::kMark, entry.marks, g, index, 0, 0, entry.rack});
  entry.marks |= marks;
}

void Search::rewind(size_t to) {
  while (undo_.size() > to) {
    const Undo undo = undo_.back();
    undo_.pop_back();
    Counts::GroupCounts& group = counts_.group(undo.group);
    const size_t domain =
        static_cast<size_t>(counts_.rack(undo.rack).island.value) * counts_.class_count();
    if (undo.what == Undo::kMark) {
      group.entries[static_cast<size_t>(undo.entry)].marks = undo.old_marks;
      continue;
    }
    --counts_.rack(undo.rack).touched;
    touched_.pop_back();
    if (undo.what == Undo::kCommit) {
      for (const Pending& part : pending_) {
        if (part.group != undo.group) continue;
        const int units = part.count * counts_.need(undo.group, part.node_class);
        counts_.free(undo.rack, part.node_class) += units;
        domain_free_[domain + static_cast<size_t>(part.node_class.value)] += units;
      }
      committed_.pop_back();
      const int here = counts_.total(undo.group, undo.rack);
      if (here > 0 && here < group.size) counts_.add_degree(undo.rack, group.weight);
      continue;
    }
    Counts::Entry& entry = group.entries[static_cast<size_t>(undo.entry)];
    const int count = undo.up + undo.stay;
    const int now = counts_.total(undo.group, undo.rack);
    entry.up += undo.up;
    entry.stay += undo.stay;
    entry.taken -= count;
    const int freed = undo.up * counts_.need(undo.group, entry.node_class);
    counts_.free(undo.rack, entry.node_class) -= freed;
    domain_free_[domain + static_cast<size_t>(entry.node_class.value)] -= freed;
    const IslandId island = counts_.rack(undo.rack).island;
    const auto part = std::find_if(pending_.begin(), pending_.end(), [&](const Pending& p) {
      return p.group == undo.group && p.node_class == entry.node_class && p.island == island;
    });
    part->count -= count;
    if (part->count == 0 && part + 1 == pending_.end()) pending_.pop_back();
    const int is = now > 0 ? 1 : 0;
    const int was = now + count < group.size ? 1 : 0;
    if (was != is) counts_.add_degree(undo.rack, (was - is) * group.weight);
  }
}

}  // namespace monkeytree
