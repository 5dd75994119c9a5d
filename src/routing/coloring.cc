#include "routing/coloring.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <limits>

namespace monkeytree {
namespace {

std::vector<uint64_t> all_usable(size_t racks, int colors) {
  const size_t words = Coloring::words_for(colors);
  std::vector<uint64_t> usable(racks * words, 0);
  for (size_t rack = 0; rack < racks; ++rack) {
    for (int c = 0; c < colors; ++c) {
      usable[rack * words + static_cast<size_t>(c) / 64] |= uint64_t{1} << (c % 64);
    }
  }
  return usable;
}

constexpr int kNoLimit = std::numeric_limits<int>::max();

}  // namespace

Coloring::Coloring(size_t racks, int colors) : Coloring(racks, colors, all_usable(racks, colors)) {}

Coloring::Coloring(size_t racks, int colors, std::vector<uint64_t> usable)
    : colors_(colors), words_(words_for(colors)), racks_(racks), usable_(std::move(usable)) {
  assert(usable_.size() == racks * words_);
  const size_t rows = 2 * racks;
  cells_.resize(rows * index(colors_));
  free_.resize(rows * words_);
  degree_.assign(rows, 0);
  capacity_.resize(rows);
  next_row_.assign(rows, -1);
  row_rack_.resize(rows);
  for (size_t row = 0; row < rows; ++row) {
    int32_t capacity = 0;
    for (size_t w = 0; w < words_; ++w) {
      free_[row * words_ + w] = usable_[row / 2 * words_ + w];
      capacity += std::popcount(free_[row * words_ + w]);
    }
    capacity_[row] = capacity;
    row_rack_[row] = static_cast<int32_t>(row / 2);
  }
}

void Coloring::reserve(size_t edges) { edges_.reserve(edges); }

void Coloring::begin_change() {
  ++epoch_;
  recolored_ = 0;
}

// --- rows -----------------------------------------------------------------------------------

int32_t Coloring::add_row(int32_t first) {
  int32_t row;
  const size_t rack = index(row_rack_[index(first)]);
  if (spare_rows_.empty()) {
    row = static_cast<int32_t>(degree_.size());
    cells_.resize(cells_.size() + index(colors_));
    free_.resize(free_.size() + words_);
    degree_.push_back(0);
    capacity_.push_back(0);
    next_row_.push_back(-1);
    row_rack_.push_back(0);
  } else {
    row = spare_rows_.back();
    spare_rows_.pop_back();
  }
  std::copy_n(&usable_[rack * words_], words_, free(row));
  degree_[index(row)] = 0;
  capacity_[index(row)] = capacity_[index(first)];
  row_rack_[index(row)] = static_cast<int32_t>(rack);
  next_row_[index(row)] = next_row_[index(first)];
  next_row_[index(first)] = row;
  return row;
}

/// A row of the same rack and side that has room, if possible one where `wanted_color` is free.
int32_t Coloring::row_with_room(int32_t first, int wanted_color) {
  int32_t found = -1;
  for (int32_t row = first; row >= 0; row = next_row_[index(row)]) {
    if (degree_[index(row)] >= capacity_[index(row)]) continue;
    if (wanted_color < 0 || is_free(row, wanted_color)) return row;
    if (found < 0) found = row;
  }
  return found >= 0 ? found : add_row(first);
}

/// Keeps the number of rows at ⌈degree ÷ capacity⌉: where one is too many, moves the edges of the
/// emptiest into the others.
void Coloring::dissolve_spare_row(int32_t first) {
  int32_t rows = 0, degree = 0, emptiest = -1;
  for (int32_t row = first; row >= 0; row = next_row_[index(row)]) {
    ++rows;
    degree += degree_[index(row)];
    if (row != first && (emptiest < 0 || degree_[index(row)] < degree_[index(emptiest)])) {
      emptiest = row;
    }
  }
  if (rows < 2 || degree > (rows - 1) * capacity_[index(first)]) return;
  for (int32_t row = first; row >= 0; row = next_row_[index(row)]) {
    if (next_row_[index(row)] == emptiest) next_row_[index(row)] = next_row_[index(emptiest)];
  }
  const bool out = first % 2 == 0;
  // Listed first: moving one edge may recolour another.
  std::vector<int32_t> leaving;
  for (int c = 0; c < colors_; ++c) {
    if (cell(emptiest, c).edge >= 0) leaving.push_back(cell(emptiest, c).edge);
  }
  for (int32_t edge : unplaced_) {
    const Edge& e = edges_[index(edge)];
    if ((out ? e.out_row : e.in_row) == emptiest) leaving.push_back(edge);
  }
  for (int32_t edge : leaving) {
    move_to_row(edge, row_with_room(first, edges_[index(edge)].color), out);
  }
  spare_rows_.push_back(emptiest);
}

void Coloring::move_to_row(int32_t edge, int32_t row, bool out) {
  Edge& e = edges_[index(edge)];
  const int color = e.color;
  if (color >= 0) take(edge);
  int32_t& end = out ? e.out_row : e.in_row;
  --degree_[index(end)];
  end = row;
  ++degree_[index(row)];
  if (color < 0) return;
  if (is_free(e.out_row, color) && is_free(e.in_row, color)) {
    put(edge, color);
    std::erase(unplaced_, edge);
  } else {
    place(EdgeId(edge));
  }
}

// --- edges ----------------------------------------------------------------------------------

int32_t Coloring::new_edge(RackId from, RackId to, int wanted_color) {
  const int32_t out_first = first_row(from, true);
  const int32_t in_first = first_row(to, false);
  const auto pick = [&](int32_t first) {
    const bool simple =
        next_row_[index(first)] < 0 && degree_[index(first)] < capacity_[index(first)];
    return simple ? first : row_with_room(first, wanted_color);
  };
  Edge e;
  e.out_row = pick(out_first);
  e.in_row = pick(in_first);
  e.epoch = epoch_;
  ++degree_[index(e.out_row)];
  ++degree_[index(e.in_row)];
  ++edge_count_;
  int32_t edge;
  if (spare_edges_.empty()) {
    edge = static_cast<int32_t>(edges_.size());
    edges_.push_back(e);
  } else {
    edge = spare_edges_.back();
    spare_edges_.pop_back();
    edges_[index(edge)] = e;
  }
  return edge;
}

EdgeId Coloring::insert(RackId from, RackId to) {
  const int32_t edge = new_edge(from, to, -1);
  const int color = lowest_common(edges_[index(edge)].out_row, edges_[index(edge)].in_row);
  if (color >= 0) {
    put(edge, color);
  } else {
    unplaced_.push_back(edge);
    place(EdgeId(edge));
  }
  return EdgeId(edge);
}

EdgeId Coloring::keep(RackId from, RackId to, int color) {
  const bool known = color >= 0 && color < colors_;
  const int32_t edge = new_edge(from, to, known ? color : -1);
  Edge& e = edges_[index(edge)];
  // A colour that no longer exists still counts as changed, whatever the edge gets.
  e.original = known ? color : colors_;
  ++recolored_;
  if (known && is_free(e.out_row, color) && is_free(e.in_row, color)) {
    put(edge, color);
  } else {
    unplaced_.push_back(edge);
  }
  return EdgeId(edge);
}

void Coloring::restore(EdgeId edge) {
  if (edges_[index(edge.value)].color >= 0) take(edge.value);
  place(edge);
}

void Coloring::reserve_rows(RackId rack, int sent, int received) {
  for (const bool out : {true, false}) {
    const int32_t first = first_row(rack, out);
    const int32_t capacity = capacity_[index(first)];
    if (capacity == 0) continue;
    int32_t room = 0;
    for (int32_t row = first; row >= 0; row = next_row_[index(row)]) room += capacity;
    for (; room < (out ? sent : received); room += capacity) add_row(first);
  }
}

void Coloring::remove(EdgeId id) {
  const int32_t edge = id.value;
  Edge& e = edges_[index(edge)];
  if (e.color >= 0) {
    if (e.epoch == epoch_ && e.original >= 0 && e.color != e.original) --recolored_;
    e.epoch = epoch_;
    e.original = -1;
    take(edge);
  } else if (e.epoch == epoch_ && e.original >= 0) {
    --recolored_;
  }
  std::erase(unplaced_, edge);
  --degree_[index(e.out_row)];
  --degree_[index(e.in_row)];
  --edge_count_;
  const int32_t out_first = row_rack_[index(e.out_row)] * 2;
  const int32_t in_first = row_rack_[index(e.in_row)] * 2 + 1;
  e = Edge();
  spare_edges_.push_back(edge);
  if (next_row_[index(out_first)] >= 0) dissolve_spare_row(out_first);
  if (next_row_[index(in_first)] >= 0) dissolve_spare_row(in_first);
}

void Coloring::set_color(Edge& edge, int color) {
  if (edge.epoch != epoch_) {
    edge.epoch = epoch_;
    edge.original = edge.color;
  }
  if (edge.original >= 0) {
    recolored_ +=
        static_cast<int>(color != edge.original) - static_cast<int>(edge.color != edge.original);
  }
  edge.color = color;
}

int Coloring::change_cost(const Edge& edge, int from, int to) const {
  if (edge.epoch != epoch_) return 1;
  if (edge.original < 0) return 0;
  return static_cast<int>(to != edge.original) - static_cast<int>(from != edge.original);
}

void Coloring::put(int32_t edge, int color) {
  Edge& e = edges_[index(edge)];
  cell(e.out_row, color) = {edge, e.in_row};
  cell(e.in_row, color) = {edge, e.out_row};
  flip_free(e.out_row, color);
  flip_free(e.in_row, color);
  set_color(e, color);
}

/// Takes the colour away; the edge stays in its rows and joins the unplaced.
void Coloring::take(int32_t edge) {
  Edge& e = edges_[index(edge)];
  cell(e.out_row, e.color) = {};
  cell(e.in_row, e.color) = {};
  flip_free(e.out_row, e.color);
  flip_free(e.in_row, e.color);
  set_color(e, -1);
  unplaced_.push_back(edge);
}

int Coloring::lowest_common(int32_t u, int32_t v) const {
  for (size_t w = 0; w < words_; ++w) {
    const uint64_t common = free_[index(u) * words_ + w] & free_[index(v) * words_ + w];
    if (common != 0) return static_cast<int>(w * 64) + std::countr_zero(common);
  }
  return -1;
}

// --- chains ---------------------------------------------------------------------------------

bool Coloring::place(EdgeId edge) {
  assert(color(edge) < 0);
  if (!place_by_cheapest_chain(edge.value)) return false;
  std::erase(unplaced_, edge.value);
  return true;
}

/// Adds up the cost of a chain; false where it is blocked or costs max_cost or more.
bool Coloring::walk(Chain& chain, int max_cost) {
  int color = chain.first, other = chain.second;
  Cell step = cell(chain.row, color);
  int cost = 0;
  while (true) {
    cost += change_cost(edges_[index(step.edge)], color, other);
    if (cost >= max_cost) return false;
    if (is_free(step.other, other)) break;
    step = cell(step.other, other);
    if (step.edge < 0) return false;  // the rack cannot use that colour
    std::swap(color, other);
  }
  chain.cost = cost;
  return true;
}

/// Swaps the two colours along the path that starts at `row` with an edge of colour `first`.
void Coloring::swap_chain(int32_t row, int first, int second) {
  flip_free(row, first);
  flip_free(row, second);
  int color = first;
  while (true) {
    const Cell step = cell(row, color);
    std::swap(cell(row, first), cell(row, second));
    const int other = first + second - color;
    set_color(edges_[index(step.edge)], other);
    row = step.other;
    color = other;
    if (is_free(row, color)) break;
  }
  std::swap(cell(row, first), cell(row, second));
  flip_free(row, first);
  flip_free(row, second);
}

/// The cheapest chain that frees `color` at `row`; `best` is changed where it costs under max_cost.
bool Coloring::cheapest_to_free(int32_t row, int color, int max_cost, Chain& best) {
  bool found = false;
  for (size_t w = 0; w < words_; ++w) {
    for (uint64_t rest = free(row)[w]; rest != 0; rest &= rest - 1) {
      Chain chain{row, color, static_cast<int>(w * 64) + std::countr_zero(rest), 0};
      if (!walk(chain, max_cost)) continue;
      max_cost = chain.cost;
      best = chain;
      found = true;
    }
  }
  return found;
}

bool Coloring::place_by_cheapest_chain(int32_t edge) {
  const Edge& e = edges_[index(edge)];
  const int32_t u = e.out_row, v = e.in_row;
  Chain best;
  const bool at_home =
      e.original >= 0 && e.original < colors_ && is_free(u, e.original) && is_free(v, e.original);
  int best_color = at_home ? e.original : lowest_common(u, v);
  int best_cost = best_color >= 0 ? change_cost(e, -1, best_color) : kNoLimit;
  if (best_color >= 0 && (at_home || e.original < 0)) {
    put(edge, best_color);
    return true;
  }
  for (int c = 0; c < colors_; ++c) {
    if (!usable(u, c) || !usable(v, c)) continue;
    const bool free_u = is_free(u, c), free_v = is_free(v, c);
    if (free_u == free_v) continue;
    const int own = change_cost(e, -1, c);
    const int limit = best_cost == kNoLimit ? kNoLimit : best_cost - own;
    Chain chain;
    if (!cheapest_to_free(free_u ? v : u, c, limit, chain)) continue;
    best = chain;
    best_color = c;
    best_cost = chain.cost + own;
  }
  if (place_by_two_chains(edge, best_cost)) return true;
  if (best_color < 0) return false;
  if (best.row >= 0) swap_chain(best.row, best.first, best.second);
  put(edge, best_color);
  return true;
}

/// Frees one colour on both sides, where that costs less than max_cost.
bool Coloring::place_by_two_chains(int32_t edge, int max_cost) {
  if (max_cost <= 2) return false;
  const Edge& e = edges_[index(edge)];
  const int32_t u = e.out_row, v = e.in_row;
  Chain first;
  int color = -1, estimate = max_cost;
  for (int c = 0; c < colors_; ++c) {
    if (!usable(u, c) || !usable(v, c) || is_free(u, c) || is_free(v, c)) continue;
    const int own = change_cost(e, -1, c);
    Chain at_u, at_v;
    const int limit = estimate == kNoLimit ? kNoLimit : estimate - own;
    if (!cheapest_to_free(u, c, limit, at_u)) continue;
    const int rest = limit == kNoLimit ? kNoLimit : limit - at_u.cost;
    if (!cheapest_to_free(v, c, rest, at_v)) continue;
    first = at_u;
    color = c;
    estimate = at_u.cost + at_v.cost + own;
  }
  if (color < 0) return false;
  // The two chains may meet, so the second is looked for once the first has been swapped.
  swap_chain(first.row, first.first, first.second);
  Chain second;
  const int spent = first.cost + change_cost(e, -1, color);
  const int rest = max_cost == kNoLimit ? kNoLimit : max_cost - spent;
  const bool freed = is_free(v, color);
  if (freed || cheapest_to_free(v, color, rest, second)) {
    if (!freed) swap_chain(second.row, second.first, second.second);
    if (is_free(u, color)) {
      put(edge, color);
      return true;
    }
    if (!freed) swap_chain(second.row, second.second, second.first);
  }
  swap_chain(first.row, first.second, first.first);
  return false;
}

}  // namespace monkeytree
