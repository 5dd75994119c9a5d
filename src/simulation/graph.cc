#include "simulation/graph.h"

#include <algorithm>
#include <cassert>

#include "simulation/moving.h"

namespace monkeytree {

/// Walks the ranks through their steps, as far as each can go, and notes what each step waited for.
class GraphBuilder {
 public:
  GraphBuilder(Graph& graph, const Program& program, const FabricShape& fabric)
      : graph_(graph), program_(program), fabric_(fabric), ranks_(program.steps.size()) {}

  void run() {
    std::vector<int> ready;
    for (int rank = static_cast<int>(ranks_.size()) - 1; rank >= 0; --rank) ready.push_back(rank);
    while (!ready.empty()) {
      const int rank = ready.back();
      ready.pop_back();
      while (advance(rank, ready)) {
      }
    }
    for ([[maybe_unused]] size_t r = 0; r < ranks_.size(); ++r) {
      assert(ranks_[r].step == program_.steps[r].size());
    }
  }

 private:
  struct Rank {
    size_t step = 0;
    std::vector<int> done;         ///< vertices of the step before
    int sent = -1, received = -1;  ///< vertices of the present step's flows, once they exist
  };

  const Step* step_of(int rank) const {
    const auto r = static_cast<size_t>(rank);
    const size_t step = ranks_[r].step;
    return step < program_.steps[r].size() ? &program_.steps[r][step] : nullptr;
  }

  /// True where the rank went on to its next step. Partners that may go on join `ready`.
  bool advance(int rank, std::vector<int>& ready) {
    const Step* step = step_of(rank);
    if (step == nullptr) return false;
    Rank& self = ranks_[static_cast<size_t>(rank)];
    if (step->compute_us > 0) {
      self.done = {add(-1, 0, step->compute_us, self.done, {})};
      ++self.step;
      return true;
    }
    if (step->send_to >= 0 && self.sent < 0 && meet(rank, step->send_to)) {
      ready.push_back(step->send_to);
    }
    if (step->receive_from >= 0 && self.received < 0 && meet(step->receive_from, rank)) {
      ready.push_back(step->receive_from);
    }
    if ((step->send_to >= 0 && self.sent < 0) || (step->receive_from >= 0 && self.received < 0)) {
      return false;
    }
    std::vector<int> done;
    if (self.sent >= 0) done.push_back(self.sent);
    if (self.received >= 0 && self.received != self.sent) done.push_back(self.received);
    if (!done.empty()) self.done = std::move(done);  // else an empty step: what was before stands
    self.sent = self.received = -1;
    ++self.step;
    return true;
  }

  /// Makes the flow where both ends have reached it.
  bool meet(int from, int to) {
    const Step* sending = step_of(from);
    const Step* receiving = step_of(to);
    if (sending == nullptr || receiving == nullptr || sending->send_to != to ||
        receiving->receive_from != from) {
      return false;
    }
    Rank& sender = ranks_[static_cast<size_t>(from)];
    Rank& receiver = ranks_[static_cast<size_t>(to)];
    if (sender.sent >= 0 || receiver.received >= 0) return false;
    const bool inside =
        fabric_.nvlink && from / program_.gpus_per_node == to / program_.gpus_per_node;
    const bool moves = sending->send_bytes > 0 && !inside;
    const Time duration =
        moves ? time_to_move(sending->send_bytes, quantized_rate(fabric_.link_bytes_per_us))
              : Time{0};
    const int vertex = add(moves ? pair_of(from, to) : -1, sending->send_bytes, duration,
                           sender.done, receiver.done);
    sender.sent = receiver.received = vertex;
    return true;
  }

  int pair_of(int from, int to) const {
    const auto at = std::lower_bound(program_.pairs.begin(), program_.pairs.end(),
                                     RankPair{from, to}, [](const RankPair& a, const RankPair& b) {
                                       return std::pair(a.from, a.to) < std::pair(b.from, b.to);
                                     });
    return static_cast<int>(at - program_.pairs.begin());
  }

  int add(int pair, int64_t bytes, Time duration, const std::vector<int>& first,
          const std::vector<int>& second) {
    graph_.vertices.push_back({pair, bytes, duration});
    std::vector<int>& before = graph_.before_;
    const auto start = static_cast<std::ptrdiff_t>(before.size());
    before.insert(before.end(), first.begin(), first.end());
    before.insert(before.end(), second.begin(), second.end());
    std::sort(before.begin() + start, before.end());
    before.erase(std::unique(before.begin() + start, before.end()), before.end());
    graph_.before_start_.push_back(static_cast<int>(before.size()));
    return static_cast<int>(graph_.vertices.size()) - 1;
  }

  Graph& graph_;
  const Program& program_;
  const FabricShape& fabric_;
  std::vector<Rank> ranks_;
};

Graph::Graph(const Program& program, const FabricShape& fabric) {
  GraphBuilder(*this, program, fabric).run();
  link_successors();
  compute_offsets();
}

void Graph::link_successors() {
  after_start_.assign(vertices.size() + 1, 0);
  for (const int v : before_) ++after_start_[static_cast<size_t>(v) + 1];
  for (size_t i = 1; i < after_start_.size(); ++i) after_start_[i] += after_start_[i - 1];
  after_.resize(before_.size());
  std::vector<int> next(after_start_.begin(), after_start_.end() - 1);
  for (int v = 0; v < static_cast<int>(vertices.size()); ++v) {
    for (const int p : before(v)) {
      after_[static_cast<size_t>(next[static_cast<size_t>(p)]++)] = v;
    }
  }
}

void Graph::compute_offsets() {
  offsets.resize(vertices.size());
  for (size_t v = 0; v < vertices.size(); ++v) {
    Time begin = 0;
    for (const int p : before(static_cast<int>(v))) {
      begin = std::max(begin, offsets[static_cast<size_t>(p)]);
    }
    offsets[v] = begin + vertices[v].duration;
    period = std::max(period, offsets[v]);
  }
}

}  // namespace monkeytree
