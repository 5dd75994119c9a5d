#include "hopcroft_karp.h"

#include <algorithm>

namespace monkeytree {
namespace {

/// A bipartite graph from which matchings are taken out; adjacency in one array.
class Matcher {
 public:
  Matcher(int vertices, int degree, const std::vector<std::pair<int32_t, int32_t>>& edges)
      : n_(vertices), stride_(degree), edges_(edges) {
    adjacent_.resize(static_cast<size_t>(n_) * static_cast<size_t>(stride_));
    left_degree_.assign(static_cast<size_t>(n_), 0);
    for (size_t e = 0; e < edges.size(); ++e) {
      const size_t u = static_cast<size_t>(edges[e].first);
      adjacent_[u * static_cast<size_t>(stride_) + static_cast<size_t>(left_degree_[u]++)] =
          static_cast<int32_t>(e);
    }
  }

  /// A perfect matching, as the edge of each left vertex; its edges leave the graph.
  const std::vector<int32_t>& take_matching() {
    match_left_.assign(static_cast<size_t>(n_), -1);
    match_right_.assign(static_cast<size_t>(n_), -1);
    start_greedily();
    while (layer()) {
      cursor_.assign(static_cast<size_t>(n_), 0);
      for (int32_t u = 0; u < n_; ++u) {
        if (match_left_[static_cast<size_t>(u)] < 0) augment(u);
      }
    }
    for (size_t u = 0; u < static_cast<size_t>(n_); ++u) {
      int32_t* begin = &adjacent_[u * static_cast<size_t>(stride_)];
      int32_t* end = begin + left_degree_[u];
      *std::find(begin, end, match_left_[u]) = *(end - 1);
      --left_degree_[u];
    }
    return match_left_;
  }

 private:
  void start_greedily() {
    for (size_t u = 0; u < static_cast<size_t>(n_); ++u) {
      for (int32_t k = 0; k < left_degree_[u]; ++k) {
        const int32_t e = adjacent_[u * static_cast<size_t>(stride_) + static_cast<size_t>(k)];
        const size_t v = static_cast<size_t>(edges_[static_cast<size_t>(e)].second);
        if (match_right_[v] >= 0) continue;
        match_right_[v] = e;
        match_left_[u] = e;
        break;
      }
    }
  }

  /// Distances from the unmatched left vertices; false where no unmatched right one is reached.
  bool layer() {
    distance_.assign(static_cast<size_t>(n_), -1);
    queue_.clear();
    for (int32_t u = 0; u < n_; ++u) {
      if (match_left_[static_cast<size_t>(u)] >= 0) continue;
      distance_[static_cast<size_t>(u)] = 0;
      queue_.push_back(u);
    }
    bool reached = false;
    for (size_t head = 0; head < queue_.size(); ++head) {
      const size_t u = static_cast<size_t>(queue_[head]);
      for (int32_t k = 0; k < left_degree_[u]; ++k) {
        const int32_t e = adjacent_[u * static_cast<size_t>(stride_) + static_cast<size_t>(k)];
        const int32_t back =
            match_right_[static_cast<size_t>(edges_[static_cast<size_t>(e)].second)];
        if (back < 0) {
          reached = true;
          continue;
        }
        const size_t w = static_cast<size_t>(edges_[static_cast<size_t>(back)].first);
        if (distance_[w] >= 0) continue;
        distance_[w] = distance_[u] + 1;
        queue_.push_back(static_cast<int32_t>(w));
      }
    }
    return reached;
  }

  bool augment(int32_t left) {
    const size_t u = static_cast<size_t>(left);
    for (int32_t& k = cursor_[u]; k < left_degree_[u]; ++k) {
      const int32_t e = adjacent_[u * static_cast<size_t>(stride_) + static_cast<size_t>(k)];
      const size_t v = static_cast<size_t>(edges_[static_cast<size_t>(e)].second);
      const int32_t back = match_right_[v];
      if (back >= 0) {
        const int32_t w = edges_[static_cast<size_t>(back)].first;
        if (distance_[static_cast<size_t>(w)] != distance_[u] + 1 || !augment(w)) continue;
      }
      match_right_[v] = e;
      match_left_[u] = e;
      return true;
    }
    return false;
  }

  int32_t n_;
  int32_t stride_;
  const std::vector<std::pair<int32_t, int32_t>>& edges_;
  std::vector<int32_t> adjacent_, left_degree_, match_left_, match_right_;
  std::vector<int32_t> distance_, cursor_, queue_;
};

}  // namespace

std::vector<int> color_by_matchings(int vertices,
                                    const std::vector<std::pair<int32_t, int32_t>>& edges) {
  std::vector<int32_t> left(static_cast<size_t>(vertices)), right(left);
  int32_t degree = 0;
  for (const auto& [u, v] : edges) {
    degree = std::max({degree, ++left[static_cast<size_t>(u)], ++right[static_cast<size_t>(v)]});
  }
  std::vector<std::pair<int32_t, int32_t>> regular = edges;
  for (int32_t u = 0, v = 0; u < vertices; ++u) {
    for (; left[static_cast<size_t>(u)] < degree; ++left[static_cast<size_t>(u)]) {
      while (right[static_cast<size_t>(v)] == degree) ++v;
      ++right[static_cast<size_t>(v)];
      regular.emplace_back(u, v);
    }
  }
  std::vector<int> colors(edges.size(), -1);
  Matcher matcher(vertices, degree, regular);
  for (int32_t c = 0; c < degree; ++c) {
    for (int32_t e : matcher.take_matching()) {
      if (static_cast<size_t>(e) < edges.size()) colors[static_cast<size_t>(e)] = c;
    }
  }
  return colors;
}

}  // namespace monkeytree
