#include "cluster/picture.h"

#include <string_view>

namespace monkeytree {
namespace {

constexpr std::string_view kLetters =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

/// Makes the workers of one node, the cells from `start` on, a single cell.
void fold(std::vector<Cell>& cells, size_t start, const Cell& empty, bool some_free) {
  Cell whole = cells.size() > start ? cells[start] : empty;
  for (size_t i = start; i < cells.size(); ++i) whole.mixed |= cells[i].job != whole.job;
  whole.mixed |= whole.job.valid() && some_free;
  cells.resize(start);
  cells.push_back(whole);
}

}  // namespace

Picture::Picture(const Snapshot& snapshot)
    : snapshot_(snapshot), first_(snapshot.nodes.size() + 1, 0) {
  for (const Group& group : snapshot.groups) {
    for (NodeId node : group.workers) ++first_[NodeId(node.value + 1)];
  }
  for (NodeId node : snapshot.nodes.keys()) first_[NodeId(node.value + 1)] += first_[node];
  holders_.resize(static_cast<size_t>(first_.back()));
  IdVector<NodeId, int> next = first_;
  for (GroupId group : snapshot.groups.keys()) {
    int worker = 0;
    for (NodeId node : snapshot.groups[group].workers) {
      holders_[static_cast<size_t>(next[node]++)] = {group, worker++};
    }
  }
}

std::vector<Picture::Holder> Picture::holders_of(NodeId node) const {
  return {holders_.begin() + first_[node], holders_.begin() + first_[NodeId(node.value + 1)]};
}

size_t Picture::cell_count(RackId rack, CellOf what) const {
  const std::vector<NodeId>& nodes = snapshot_.racks[rack].nodes;
  if (what == CellOf::kNode) return nodes.size();
  size_t count = 0;
  for (NodeId node : nodes) count += static_cast<size_t>(snapshot_.nodes[node].slots);
  return count;
}

std::vector<Cell> Picture::cells(RackId rack, CellOf what) const {
  std::vector<Cell> cells;
  for (NodeId node : snapshot_.racks[rack].nodes) {
    const size_t start = cells.size();
    int free = snapshot_.nodes[node].slots;
    for (const Holder& holder : holders_of(node)) {
      const Group& group = snapshot_.groups[holder.group];
      const int slots = what == CellOf::kSlot ? group.slots : 1;
      cells.insert(cells.end(), static_cast<size_t>(slots),
                   Cell{group.job, holder.group, holder.worker, node});
      free -= group.slots;
    }
    const Cell empty{JobId(), GroupId(), 0, node};
    if (what == CellOf::kSlot) {
      cells.insert(cells.end(), static_cast<size_t>(free), empty);
    } else {
      fold(cells, start, empty, free > 0);
    }
  }
  return cells;
}

IdVector<JobId, char> letters_for(const Snapshot& snapshot, const std::vector<JobId>& jobs) {
  IdVector<JobId, char> letters(snapshot.jobs.size(), kNoLetter);
  std::string left(kLetters);
  for (JobId job : jobs) {
    const std::string& id = snapshot.jobs[job].id;
    const size_t at = id.size() == 1 ? left.find(id[0]) : std::string::npos;
    if (at == std::string::npos) continue;
    letters[job] = id[0];
    left.erase(at, 1);
  }
  for (JobId job : jobs) {
    if (left.empty()) break;
    if (letters[job] != kNoLetter) continue;
    letters[job] = left[0];
    left.erase(0, 1);
  }
  return letters;
}

IdVector<JobId, char> letters_of(const Snapshot& snapshot, const Analysis& analysis,
                                 const std::vector<RackId>& racks) {
  IdVector<JobId, char> fragmented(snapshot.jobs.size(), false), seen = fragmented;
  for (const FragmentedJob& job : analysis.fragmented) fragmented[job.job] = true;
  std::vector<JobId> first, second;
  const Picture picture(snapshot);
  for (RackId rack : racks) {
    for (const Cell& cell : picture.cells(rack, CellOf::kNode)) {
      if (!cell.job.valid() || seen[cell.job]) continue;
      seen[cell.job] = true;
      (fragmented[cell.job] ? first : second).push_back(cell.job);
    }
  }
  first.insert(first.end(), second.begin(), second.end());
  return letters_for(snapshot, first);
}

char free_cell(NodeState state) {
  switch (state) {
    case NodeState::kUp:
      return '.';
    case NodeState::kDrain:
      return '-';
    case NodeState::kDown:
      return '!';
    case NodeState::kReserved:
      return '=';
  }
  return '.';
}

}  // namespace monkeytree
