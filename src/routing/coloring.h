#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "cluster/snapshot.h"

namespace monkeytree {

/// Names one flow of a Coloring. Numbers of removed flows are given out again.
using EdgeId = Id<struct EdgeTag>;

/// A proper edge colouring of the flow graph, kept up to date while flows come and go.
///
/// The graph is bipartite: each rack stands once on the left (what it sends) and once on the right
/// (what it receives), each flow is an edge, and parallel edges are allowed. Two edges that meet on
/// one side of a rack must differ in colour. Kőnig: as many colours as the largest degree suffice.
/// An edge (u, v) takes a colour that is free on both sides. Where there is none, some colour a is
/// free at u and another, b, at v; the alternating a-b path that starts at v ends somewhere other
/// than u (Kempe chain), and swapping its two colours frees a at v.
///
/// A rack with more flows than colours is split into rows of at most as many flows as it may use
/// colours; each row is coloured properly by itself. So an uplink never carries more than
/// ⌈flows ÷ uplinks⌉, and racks within their bound stay isolated while others share.
///
/// Where racks may use different colours, a chain may be blocked by an edge that cannot take the
/// other colour. An edge for which no chain was found stays unplaced: color() is -1.
///
/// Deterministic. Memory: 8 bytes · colours · (2 · racks + rows added by splitting).
class Coloring {
 public:
  /// Every rack may use colours 0 … colors−1.
  Coloring(size_t racks, int colors);

  /// `usable` holds words_for(colors) words for each rack; bit c says that the rack may use c.
  Coloring(size_t racks, int colors, std::vector<uint64_t> usable);

  static size_t words_for(int colors) { return (static_cast<size_t>(colors) + 63) / 64; }
  int colors() const { return colors_; }
  size_t size() const { return edge_count_; }

  /// Reserves room for that many edges.
  void reserve(size_t edges);

  /// Starts a change: recolored() counts from here, and colours that edges have now are the ones
  /// worth keeping. Edges inserted after it are free to take any colour. O(1).
  void begin_change();

  /// Adds an edge and colours it. The two racks must have a usable colour in common. O(1) where a
  /// common colour is free. Else looks at the chains for every pair of free colours, from both
  /// sides, and at freeing one colour on both sides, and takes what recolours the fewest edges.
  EdgeId insert(RackId from, RackId to);

  /// Adds an edge that had `color` before: gives it that colour if it is usable and free on both
  /// sides, else leaves it unplaced, for place(). It counts as recoloured while it has another.
  EdgeId keep(RackId from, RackId to, int color);

  /// Colours an unplaced edge. False where no chain was found.
  bool place(EdgeId edge);

  /// Looks for a cheaper place for an edge that was recoloured; never raises recolored().
  void restore(EdgeId edge);

  /// Splits a rack for that many flows before they come, so that keep() finds room for each.
  void reserve_rows(RackId rack, int sent, int received);

  /// O(1), unless a rack that had more flows than colours needs one row less now.
  void remove(EdgeId edge);

  int color(EdgeId edge) const { return edges_[index(edge.value)].color; }

  /// Edges that were there at begin_change(), or came by keep(), and have another colour now.
  int recolored() const { return recolored_; }

 private:
  struct Cell {
    int32_t edge = -1;
    int32_t other = -1;  // the row at the far end of the edge
  };
  struct Edge {
    int32_t out_row = -1;
    int32_t in_row = -1;
    int32_t color = -1;
    int32_t original = -1;  // colour at begin_change(), valid where epoch is the current one
    uint32_t epoch = 0;
  };
  struct Chain {
    int32_t row = -1;
    int first = -1;   // the colour to be freed at row
    int second = -1;  // a colour free at row
    int cost = 0;     // how many more edges are recoloured after the swap
  };

  static size_t index(int32_t i) { return static_cast<size_t>(i); }
  Cell& cell(int32_t row, int color) { return cells_[index(row) * index(colors_) + index(color)]; }
  uint64_t* free(int32_t row) { return &free_[index(row) * words_]; }
  bool is_free(int32_t row, int color) const {
    return (free_[index(row) * words_ + index(color) / 64] >> (color % 64)) & 1;
  }
  void flip_free(int32_t row, int color) {
    free_[index(row) * words_ + index(color) / 64] ^= uint64_t{1} << (color % 64);
  }
  int32_t first_row(RackId rack, bool out) const { return rack.value * 2 + (out ? 0 : 1); }

  int32_t row_with_room(int32_t first, int wanted_color);
  int32_t add_row(int32_t first);
  void dissolve_spare_row(int32_t first);
  void move_to_row(int32_t edge, int32_t row, bool out);
  int32_t new_edge(RackId from, RackId to, int wanted_color);

  void put(int32_t edge, int color);
  void take(int32_t edge);
  void set_color(Edge& edge, int color);
  int change_cost(const Edge& edge, int from, int to) const;
  int lowest_common(int32_t u, int32_t v) const;
  bool usable(int32_t row, int color) const {
    return (usable_[index(row_rack_[index(row)]) * words_ + index(color) / 64] >> (color % 64)) & 1;
  }

  bool place_by_cheapest_chain(int32_t edge);
  bool walk(Chain& chain, int max_cost);
  void swap_chain(int32_t row, int first, int second);
  bool cheapest_to_free(int32_t row, int color, int max_cost, Chain& best);
  bool place_by_two_chains(int32_t edge, int max_cost);

  int colors_;
  size_t words_;
  size_t racks_;
  std::vector<uint64_t> usable_;   // per rack
  std::vector<uint64_t> free_;     // per row
  std::vector<Cell> cells_;        // per row and colour
  std::vector<int32_t> degree_;    // per row, unplaced edges included
  std::vector<int32_t> capacity_;  // per row: usable colours of its rack
  std::vector<int32_t> next_row_;  // per row: the next row of the same rack and side, or -1
  std::vector<int32_t> row_rack_;  // per row
  std::vector<int32_t> spare_rows_;
  std::vector<Edge> edges_;
  std::vector<int32_t> spare_edges_;
  std::vector<int32_t> unplaced_;  // few
  size_t edge_count_ = 0;
  uint32_t epoch_ = 1;
  int recolored_ = 0;
};

}  // namespace monkeytree
