#include "routing/color_all.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstdint>

namespace monkeytree {
namespace {

/// Rows are rack sides, or parts of one with at most `bound` flows each. What a chain needs is, for
/// a row and a colour, the row at the other end. Which of several flows between the same two rows
/// has which of their colours does not matter until the end.
class Table {
 public:
  Table(std::span<const RackPair> flows, const std::vector<int>& bounds) : flows_(flows) {
    number_rows(bounds);
    colors_ =
        std::max(1, std::min(largest_degree_, *std::max_element(bounds.begin(), bounds.end())));
    // A power of two: finding a row's cells is a shift.
    shift_ = std::bit_width(static_cast<uint32_t>(colors_ - 1));
    words_ = (static_cast<size_t>(colors_) + 63) / 64;
    other_.assign(row_count_ << shift_, -1);
    fill_free();
  }

  std::vector<int> run() {
    for (const Ends& flow : ends_) insert(flow.out, flow.in);
    std::vector<int> colors;
    colors.reserve(ends_.size());
    for (const Ends& flow : ends_) colors.push_back(claim(flow.out, flow.in));
    return colors;
  }

 private:
  struct Ends {
    int32_t out, in;
  };

  /// Numbers the rows and deals the flows of each rack side to its rows, `bound` to each.
  void number_rows(const std::vector<int>& bounds) {
    const size_t sides = 2 * bounds.size();
    std::vector<int32_t> degree(sides, 0), first(sides, 0);
    for (const RackPair& flow : flows_) {
      ++degree[out_side(flow)];
      ++degree[in_side(flow)];
    }
    for (size_t side = 0; side < sides; ++side) {
      first[side] = static_cast<int32_t>(row_count_);
      if (degree[side] == 0) continue;
      assert(bounds[side / 2] > 0);
      largest_degree_ = std::max(largest_degree_, degree[side]);
      row_count_ += static_cast<size_t>((degree[side] - 1) / bounds[side / 2] + 1);
    }
    row_bound_.resize(row_count_);
    for (size_t side = 0; side < sides; ++side) {
      const size_t end = side + 1 < sides ? static_cast<size_t>(first[side + 1]) : row_count_;
      for (size_t row = static_cast<size_t>(first[side]); row < end; ++row) {
        row_bound_[row] = bounds[side / 2];
      }
    }
    ends_.reserve(flows_.size());
    const bool split = largest_degree_ > *std::min_element(bounds.begin(), bounds.end());
    if (!split) {
      for (const RackPair& flow : flows_) {
        ends_.push_back({first[out_side(flow)], first[in_side(flow)]});
      }
      return;
    }
    std::fill(degree.begin(), degree.end(), 0);
    const auto deal = [&](size_t side) { return first[side] + degree[side]++ / bounds[side / 2]; };
    for (const RackPair& flow : flows_) {
      const int32_t out = deal(out_side(flow));
      ends_.push_back({out, deal(in_side(flow))});
    }
  }

  void fill_free() {
    free_.assign(row_count_ * words_, 0);
    for (size_t row = 0; row < row_count_; ++row) {
      const int usable = std::min(row_bound_[row], colors_);
      for (size_t w = 0; w < words_; ++w) {
        const int rest = usable - static_cast<int>(w * 64);
        if (rest > 0)
          free_[row * words_ + w] = rest >= 64 ? ~uint64_t{0} : (uint64_t{1} << rest) - 1;
      }
    }
  }

  static size_t out_side(const RackPair& flow) { return static_cast<size_t>(flow.from.value) * 2; }
  static size_t in_side(const RackPair& flow) { return static_cast<size_t>(flow.to.value) * 2 + 1; }
  int32_t& other(int32_t row, int color) {
    return other_[(static_cast<size_t>(row) << shift_) + static_cast<size_t>(color)];
  }
  bool is_free(int32_t row, int color) const {
    return (free_[static_cast<size_t>(row) * words_ + static_cast<size_t>(color) / 64] >>
            (static_cast<uint32_t>(color) % 64)) &
           1;
  }
  void flip_free(int32_t row, int color) {
    free_[static_cast<size_t>(row) * words_ + static_cast<size_t>(color) / 64] ^=
        uint64_t{1} << (static_cast<uint32_t>(color) % 64);
  }
  /// The lowest colour free in both rows (in one, if u = v), or -1.
  int lowest_free(int32_t u, int32_t v) const {
    for (size_t w = 0; w < words_; ++w) {
      const uint64_t common =
          free_[static_cast<size_t>(u) * words_ + w] & free_[static_cast<size_t>(v) * words_ + w];
      if (common != 0) return static_cast<int>(w * 64) + std::countr_zero(common);
    }
    return -1;
  }

  void insert(int32_t u, int32_t v) {
    int color = lowest_free(u, v);
    if (color < 0) color = free_by_chain(u, v);
    other(u, color) = v;
    other(v, color) = u;
    flip_free(u, color);
    flip_free(v, color);
  }

  /// Colour a is free at u and b at v. Follows the chain from either end, a step at a time, swaps
  /// the one that ends first, and gives the colour that is free at both ends then.
  int free_by_chain(int32_t u, int32_t v) {
    const int a = lowest_free(u, u), b = lowest_free(v, v);
    int32_t at_u = u, at_v = v;
    int next_u = b, next_v = a;  // the colour of the edge by which each chain goes on
    while (true) {
      at_v = other(at_v, next_v);
      next_v = a + b - next_v;
      if (other(at_v, next_v) < 0) {
        swap_chain(v, a, b);
        return a;
      }
      at_u = other(at_u, next_u);
      next_u = a + b - next_u;
      if (other(at_u, next_u) < 0) {
        swap_chain(u, b, a);
        return b;
      }
    }
  }

  /// Swaps the two colours along the path that starts at `row` with an edge of colour `first`.
  void swap_chain(int32_t row, int first, int second) {
    flip_free(row, first);
    flip_free(row, second);
    int color = first;
    int32_t next = other(row, color);
    while (next >= 0) {
      std::swap(other(row, first), other(row, second));
      row = next;
      color = first + second - color;
      next = other(row, color);
    }
    std::swap(other(row, first), other(row, second));
    flip_free(row, first);
    flip_free(row, second);
  }

  /// A colour of the edges between two rows that no flow has yet.
  int claim(int32_t u, int32_t v) {
    int32_t* cells = &other(u, 0);
    int color = 0;
    while (cells[color] != v) ++color;
    cells[color] = -1;
    return color;
  }

  std::span<const RackPair> flows_;
  std::vector<Ends> ends_;  // per flow: its rows
  size_t row_count_ = 0;
  std::vector<int> row_bound_;
  int largest_degree_ = 0;
  int colors_ = 1;
  int shift_ = 0;
  size_t words_ = 1;
  std::vector<int32_t> other_;  // per row and colour: the row at the other end, or -1
  std::vector<uint64_t> free_;  // per row: bit c says that c is free
};

}  // namespace

std::vector<int> color_all(std::span<const RackPair> flows, const std::vector<int>& bounds) {
  if (flows.empty()) return {};
  return Table(flows, bounds).run();
}

}  // namespace monkeytree
