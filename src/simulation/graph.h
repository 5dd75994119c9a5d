#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "network/leaf_spine.h"
#include "simulation/program.h"
#include "simulation/time.h"

namespace monkeytree {

/// One iteration as what waits for what. A vertex is a computation or a flow; it begins when all
/// before it are done. Vertices stand in an order in which predecessors come first.
struct Graph {
  struct Vertex {
    int pair = -1;      ///< of a flow that uses the network, else -1
    int64_t bytes = 0;  ///< of a flow
    Time duration = 0;  ///< of a computation, or of the flow at its full rate
  };
  std::vector<Vertex> vertices;
  std::vector<Time> offsets;  ///< when each is done on an idle fabric, from the iteration's start
  Time period = 0;            ///< length of an iteration on an idle fabric

  std::span<const int> before(int vertex) const { return row(before_start_, before_, vertex); }
  std::span<const int> after(int vertex) const { return row(after_start_, after_, vertex); }

  /// Flows inside a node under nvlink and flows of no bytes become vertices without a pair.
  /// Expects steps that match (workload/model.h makes no others). O(steps).
  Graph(const Program& program, const FabricShape& fabric);

 private:
  static std::span<const int> row(const std::vector<int>& starts, const std::vector<int>& items,
                                  int i) {
    const auto index = static_cast<size_t>(i);
    return std::span(items).subspan(static_cast<size_t>(starts[index]),
                                    static_cast<size_t>(starts[index + 1] - starts[index]));
  }
  void link_successors();
  void compute_offsets();

  std::vector<int> before_start_{0}, before_, after_start_, after_;
  friend class GraphBuilder;
};

}  // namespace monkeytree
