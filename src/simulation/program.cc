#include "simulation/program.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

namespace monkeytree {

Program make_program(RankSteps steps, int gpus_per_node) {
  std::map<std::pair<int, int>, int64_t> bytes;
  for (size_t rank = 0; rank < steps.size(); ++rank) {
    for (const Step& step : steps[rank]) {
      if (step.compute_us > 0 || step.send_to < 0 || step.send_bytes == 0) continue;
      bytes[{static_cast<int>(rank), step.send_to}] += step.send_bytes;
    }
  }
  Program program;
  for (const auto& [pair, sum] : bytes) {
    program.pairs.push_back({.from = pair.first, .to = pair.second, .bytes = sum});
  }
  program.gpus = static_cast<int>(steps.size());
  program.gpus_per_node = gpus_per_node;
  program.steps = std::move(steps);
  return program;
}

RankPair* find_pair(Program& program, int from, int to) {
  const auto at = std::lower_bound(program.pairs.begin(), program.pairs.end(), std::pair(from, to),
                                   [](const RankPair& pair, const std::pair<int, int>& key) {
                                     return std::pair(pair.from, pair.to) < key;
                                   });
  if (at == program.pairs.end() || at->from != from || at->to != to) return nullptr;
  return &*at;
}

}  // namespace monkeytree
