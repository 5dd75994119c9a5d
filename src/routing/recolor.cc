#include "routing/recolor.h"

#include <algorithm>
#include <utility>

namespace monkeytree {
namespace {

constexpr size_t kMostOrders = 24;
constexpr size_t kMostInsertions = 200'000;  // flows · orders tried

struct Attempt {
  int unplaced = 0;
  int recolored = 0;
  std::vector<int> colors;
  std::vector<size_t> loose;  // flows that could not simply keep their colour
};

/// Puts the flows into `coloring` that can keep their colour, then the others, rotated by `turn`
/// and in reverse if `back`.
Attempt attempt(Coloring coloring, const std::vector<FormerColor>& flows, size_t turn, bool back) {
  Attempt result;
  std::vector<EdgeId> edges(flows.size());
  for (size_t k = 0; k < flows.size(); ++k) {
    // Where two flows had the same colour, which of them keeps it is part of the order, too.
    const size_t i = back ? flows.size() - 1 - k : k;
    if (flows[i].color < 0) {
      result.loose.push_back(i);
      continue;
    }
    edges[i] = coloring.keep(flows[i].from, flows[i].to, flows[i].color);
    if (coloring.color(edges[i]) < 0) result.loose.push_back(i);
  }
  if (!result.loose.empty()) {
    std::rotate(result.loose.begin(),
                result.loose.begin() + static_cast<long>(turn % result.loose.size()),
                result.loose.end());
  }
  for (size_t i : result.loose) {
    if (edges[i].valid()) {
      coloring.place(edges[i]);
    } else {
      edges[i] = coloring.insert(flows[i].from, flows[i].to);
    }
  }
  for (int before = coloring.recolored(), round = 0; before > 0 && round < 4; ++round) {
    for (size_t i = 0; i < flows.size(); ++i) {
      if (flows[i].color >= 0 && coloring.color(edges[i]) != flows[i].color) {
        coloring.restore(edges[i]);
      }
    }
    if (coloring.recolored() == before) break;
    before = coloring.recolored();
  }
  result.recolored = coloring.recolored();
  for (EdgeId edge : edges) {
    result.colors.push_back(coloring.color(edge));
    result.unplaced += result.colors.back() < 0;
  }
  return result;
}

}  // namespace

std::vector<int> recolor(size_t racks, int colors, const std::vector<uint64_t>& usable,
                         const std::vector<FormerColor>& flows) {
  Coloring empty(racks, colors, usable);
  empty.reserve(flows.size());
  std::vector<int> out(racks, 0), in(racks, 0);
  for (const FormerColor& flow : flows) {
    ++out[static_cast<size_t>(flow.from.value)];
    ++in[static_cast<size_t>(flow.to.value)];
  }
  for (size_t r = 0; r < racks; ++r) empty.reserve_rows(RackId(r), out[r], in[r]);

  Attempt best = attempt(empty, flows, 0, false);
  const size_t orders =
      std::min({kMostOrders, 2 * best.loose.size(), kMostInsertions / (flows.size() + 1)});
  for (size_t k = 1; k < orders && best.unplaced + best.recolored > 0; ++k) {
    Attempt next = attempt(empty, flows, k / 2, k % 2 == 1);
    if (std::pair(next.unplaced, next.recolored) < std::pair(best.unplaced, best.recolored)) {
      best = std::move(next);
    }
  }
  return best.colors;
}

}  // namespace monkeytree
