#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

/// Which moves may run together, as a game of tokens.
///
/// A *pool* is the set of places of one rack and node class; places of a pool are interchangeable.
/// A move is an arc between pools and needs a free place at its head when it starts. Call each free
/// place a token: a move a → b takes a token from b and puts it on a, so a token walks *backwards*
/// along the arcs, one a round. Every schedule is therefore a set of trails that together use each
/// arc once, each trail starting at a free place of its own, and the number of rounds is the length
/// of the longest trail.
///
/// A weakly connected component that has a token never needs more than it has: where trails have
/// got stuck, what is left over is a set of closed tours (in = out everywhere), each of which meets
/// a trail and can be spliced into it there: the cycle runs before the chain that would have used
/// up the free place. A component without any token has in = out everywhere; one worker put aside
/// in staging makes a token, which then walks the Euler circuit, and k moves take k + 1 rounds
/// whichever worker it is.
namespace monkeytree {

struct Arc {
  int from = -1;     ///< pool; -1 where leaving frees no place
  int to = 0;        ///< pool
  int64_t cost = 0;  ///< of staging the worker; the cheapest is chosen, then the lowest index
};

/// When an arc runs, from round 0.
struct ArcTime {
  int round = 0;    ///< the round in which the worker arrives
  int staged = -1;  ///< the earlier round in which it goes to staging, or -1
};

/// Components of the graph that no free place can start. `free` is the number of free places of
/// each pool (more than arrive there count as many). `component[i]` names the component of arc i by
/// its lowest pool.
struct Components {
  std::vector<int> component;  ///< of each arc
  std::vector<bool> stuck;     ///< by lowest pool
};
Components components_of(std::span<const Arc> arcs, std::span<const int> free);

/// Rounds for all arcs, staging one worker of each stuck component and no other. Fewest rounds
/// where a component has at most kExactArcs arcs, tokens along the longest chain first above.
/// nullopt where some pool would be overfull in the end. Near-linear in the arcs.
inline constexpr int kExactArcs = 8;
std::optional<std::vector<ArcTime>> schedule_rounds(std::span<const Arc> arcs,
                                                    std::span<const int> free);

}  // namespace monkeytree
