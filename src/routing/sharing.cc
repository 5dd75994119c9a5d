#include "routing/sharing.h"

#include <algorithm>
#include <cassert>
#include <numeric>

#include "routing/coloring.h"

namespace monkeytree {
namespace {

constexpr size_t kExactFlows = 32;
constexpr int64_t kExactSteps = 400'000;  // in all parts together
constexpr int64_t kExactStepsOfPart = 100'000;
constexpr int64_t kLocalSteps = 20'000;
constexpr size_t kLookedAt = 64;  // conflicting flows looked at in one step of the local search

constexpr size_t kLargestSearch = size_t{1} << 26;  // flows · colours

/// A part of the graph that shares no rack side with the rest.
struct Part {
  std::vector<int32_t> flows;
};

/// Loads of rack sides under a choice of colours. Side 2·r is what rack r sends, 2·r+1 what it
/// receives.
class Loads {
 public:
  Loads(const SharingProblem& problem, std::vector<int>& colors)
      : problem_(problem),
        colors_(colors),
        words_(Coloring::words_for(problem.colors)),
        load_(2 * problem.racks * static_cast<size_t>(problem.colors), 0) {
    for (size_t f = 0; f < colors.size(); ++f) {
      if (colors[f] >= 0) add(f, colors[f], 1);
    }
  }

  static size_t out_side(const SharingProblem::Flow& flow) {
    return static_cast<size_t>(flow.from.value) * 2;
  }
  static size_t in_side(const SharingProblem::Flow& flow) {
    return static_cast<size_t>(flow.to.value) * 2 + 1;
  }
  int load(size_t side, int color) const {
    return load_[side * static_cast<size_t>(problem_.colors) + static_cast<size_t>(color)];
  }
  /// Flows that a flow not counted yet would meet.
  int meets(size_t f, int color) const {
    const SharingProblem::Flow& flow = problem_.flows[f];
    return load(out_side(flow), color) + load(in_side(flow), color);
  }
  bool usable(size_t f, int color) const {
    const SharingProblem::Flow& flow = problem_.flows[f];
    return bit(flow.from, color) && bit(flow.to, color);
  }
  bool bit(RackId rack, int color) const {
    const size_t word = static_cast<size_t>(rack.value) * words_ + static_cast<size_t>(color) / 64;
    return (problem_.usable[word] >> (color % 64)) & 1;
  }
  void set(size_t f, int color) {
    if (colors_[f] >= 0) add(f, colors_[f], -1);
    colors_[f] = color;
    if (color >= 0) add(f, color, 1);
  }
  int color(size_t f) const { return colors_[f]; }
  bool in_conflict(size_t f) const { return colors_[f] >= 0 && meets(f, colors_[f]) > 2; }
  int keeps(size_t f, int color) const { return problem_.flows[f].preferred == color ? 1 : 0; }

  /// The usable colour with the fewest meetings, keeping the preferred one among equals.
  int least_met(size_t f) const {
    int best = -1;
    for (int c = 0; c < problem_.colors; ++c) {
      if (!usable(f, c)) continue;
      if (best < 0 || meets(f, c) < meets(f, best) ||
          (meets(f, c) == meets(f, best) && keeps(f, c) > keeps(f, best))) {
        best = c;
      }
    }
    return best;
  }

 private:
  void add(size_t f, int color, int amount) {
    const SharingProblem::Flow& flow = problem_.flows[f];
    const size_t colors = static_cast<size_t>(problem_.colors), c = static_cast<size_t>(color);
    load_[out_side(flow) * colors + c] += amount;
    load_[in_side(flow) * colors + c] += amount;
  }

  const SharingProblem& problem_;
  std::vector<int>& colors_;
  size_t words_;
  std::vector<int> load_;
};

int64_t pairs_of(int64_t n) { return n * (n - 1) / 2; }

std::vector<Part> parts_of(const SharingProblem& problem) {
  std::vector<int32_t> root(2 * problem.racks);
  std::iota(root.begin(), root.end(), 0);
  const auto find = [&](size_t side) {
    size_t at = side;
    while (root[at] != static_cast<int32_t>(at)) {
      root[at] = root[static_cast<size_t>(root[at])];
      at = static_cast<size_t>(root[at]);
    }
    return at;
  };
  for (const SharingProblem::Flow& flow : problem.flows) {
    root[find(Loads::out_side(flow))] = static_cast<int32_t>(find(Loads::in_side(flow)));
  }
  std::vector<int32_t> number(2 * problem.racks, -1);
  std::vector<Part> parts;
  for (size_t f = 0; f < problem.flows.size(); ++f) {
    int32_t& n = number[find(Loads::out_side(problem.flows[f]))];
    if (n < 0) {
      n = static_cast<int32_t>(parts.size());
      parts.emplace_back();
    }
    parts[static_cast<size_t>(n)].flows.push_back(static_cast<int32_t>(f));
  }
  return parts;
}

int64_t pairs_in(const SharingProblem& problem, const Part& part, const std::vector<int>& colors) {
  std::vector<std::pair<size_t, int>> ends;
  for (int32_t f : part.flows) {
    const SharingProblem::Flow& flow = problem.flows[static_cast<size_t>(f)];
    const int color = colors[static_cast<size_t>(f)];
    ends.emplace_back(Loads::out_side(flow), color);
    ends.emplace_back(Loads::in_side(flow), color);
  }
  std::sort(ends.begin(), ends.end());
  int64_t pairs = 0;
  for (size_t i = 0, j = 0; i < ends.size(); i = j) {
    while (j < ends.size() && ends[j] == ends[i]) ++j;
    pairs += pairs_of(static_cast<int64_t>(j - i));
  }
  return pairs;
}

/// What each side by itself cannot avoid: flows spread evenly over the colours its flows may take.
int64_t even_bound(const SharingProblem& problem, const Part& part, const Loads& loads) {
  std::vector<std::pair<size_t, int32_t>> ends;
  for (int32_t f : part.flows) {
    ends.emplace_back(Loads::out_side(problem.flows[static_cast<size_t>(f)]), f);
    ends.emplace_back(Loads::in_side(problem.flows[static_cast<size_t>(f)]), f);
  }
  std::sort(ends.begin(), ends.end());
  int64_t bound = 0;
  for (size_t i = 0, j = 0; i < ends.size(); i = j) {
    while (j < ends.size() && ends[j].first == ends[i].first) ++j;
    int64_t colors = 0;
    for (int c = 0; c < problem.colors; ++c) {
      bool any = false;
      for (size_t k = i; k < j && !any; ++k) {
        any = loads.usable(static_cast<size_t>(ends[k].second), c);
      }
      colors += any;
    }
    const int64_t flows = static_cast<int64_t>(j - i);
    const int64_t each = flows / colors, more = flows % colors;
    bound += more * pairs_of(each + 1) + (colors - more) * pairs_of(each);
  }
  return bound;
}

/// Tabu search on one part: each step gives a flow in conflict another colour, the step that leaves
/// the fewest meetings, and forbids the way back for a few steps.
void search_locally(const SharingProblem& problem, const Part& part, Loads& loads, int64_t bound,
                    std::vector<int>& colors) {
  const size_t n = part.flows.size();
  if (n * static_cast<size_t>(problem.colors) > kLargestSearch) return;
  int64_t pairs = pairs_in(problem, part, colors), best_pairs = pairs;
  std::vector<int> best;
  best.reserve(n);
  for (int32_t f : part.flows) best.push_back(colors[static_cast<size_t>(f)]);
  std::vector<int64_t> forbidden(n * static_cast<size_t>(problem.colors), -1);
  const int64_t steps = std::min<int64_t>(kLocalSteps, 200 * static_cast<int64_t>(n));
  size_t start = 0;
  for (int64_t step = 0; step < steps && best_pairs > bound; ++step) {
    size_t looked_at = 0, chosen = n;
    int chosen_color = -1;
    std::pair<int, int> chosen_delta;  // meetings, then preferred colours lost
    for (size_t k = 0; k < n && looked_at < kLookedAt; ++k) {
      const size_t i = (start + k) % n;
      const size_t f = static_cast<size_t>(part.flows[i]);
      if (!loads.in_conflict(f)) continue;
      ++looked_at;
      const int now = loads.meets(f, loads.color(f)) - 2;
      for (int c = 0; c < problem.colors; ++c) {
        if (c == loads.color(f) || !loads.usable(f, c)) continue;
        const std::pair<int, int> delta{loads.meets(f, c) - now,
                                        loads.keeps(f, loads.color(f)) - loads.keeps(f, c)};
        const bool allowed =
            forbidden[i * static_cast<size_t>(problem.colors) + static_cast<size_t>(c)] < step ||
            pairs + delta.first < best_pairs;
        if (!allowed || (chosen < n && delta >= chosen_delta)) continue;
        chosen = i;
        chosen_color = c;
        chosen_delta = delta;
      }
    }
    start = n == 0 ? 0 : (start + 7) % n;
    if (chosen == n) {
      if (looked_at == 0) break;
      continue;
    }
    const size_t f = static_cast<size_t>(part.flows[chosen]);
    // An uneven tenure keeps the search from going round in circles.
    forbidden[chosen * static_cast<size_t>(problem.colors) + static_cast<size_t>(loads.color(f))] =
        step + 5 + (step * 7919) % 11;
    loads.set(f, chosen_color);
    pairs += chosen_delta.first;
    if (pairs < best_pairs) {
      best_pairs = pairs;
      for (size_t i = 0; i < n; ++i) best[i] = colors[static_cast<size_t>(part.flows[i])];
    }
  }
  for (size_t i = 0; i < n; ++i) loads.set(static_cast<size_t>(part.flows[i]), best[i]);
}

/// Gives flows their preferred colours back where no more flows meet for it.
void give_back_preferred(const SharingProblem& problem, const Part& part, Loads& loads) {
  for (bool changed = true; changed;) {
    changed = false;
    for (int32_t i : part.flows) {
      const size_t f = static_cast<size_t>(i);
      const int wanted = problem.flows[f].preferred;
      if (wanted < 0 || wanted == loads.color(f) || !loads.usable(f, wanted)) continue;
      if (loads.meets(f, wanted) > loads.meets(f, loads.color(f)) - 2) continue;
      loads.set(f, wanted);
      changed = true;
    }
  }
}

/// Branch and bound over the flows of one small part: the flow with the fewest colours that meet
/// nobody comes first; the bound adds, for each flow left, the fewest flows already placed that it
/// must meet. Cost: meetings first, then flows that lose their preferred colour.
class ExactSearch {
 public:
  ExactSearch(const SharingProblem& problem, const Part& part, Loads& loads, int64_t steps)
      : problem_(problem), part_(part), loads_(loads), steps_(steps) {
    scale_ = static_cast<int64_t>(part.flows.size()) + 1;
    used_.assign(static_cast<size_t>(problem.colors), 0);
    alike_.resize(static_cast<size_t>(problem.colors));
    for (int c = 0; c < problem.colors; ++c) {
      alike_[static_cast<size_t>(c)] = first_alike(c);
    }
  }

  /// Betters the colours of the part; true where the search came to its end.
  bool run(std::vector<int>& colors) {
    best_.clear();
    for (int32_t f : part_.flows) best_.push_back(colors[static_cast<size_t>(f)]);
    best_cost_ = pairs_in(problem_, part_, colors) * scale_;
    for (size_t i = 0; i < best_.size(); ++i) best_cost_ += lost(flow(i), best_[i]);
    for (size_t i = 0; i < best_.size(); ++i) loads_.set(flow(i), -1);
    open_ = part_.flows.size();
    branch(0);
    for (size_t i = 0; i < best_.size(); ++i) loads_.set(flow(i), best_[i]);
    return steps_ > 0;
  }

  int64_t steps_left() const { return std::max<int64_t>(steps_, 0); }

 private:
  size_t flow(size_t i) const { return static_cast<size_t>(part_.flows[i]); }
  int64_t lost(size_t f, int color) const {
    return problem_.flows[f].preferred >= 0 && problem_.flows[f].preferred != color ? 1 : 0;
  }

  /// The lowest colour that the flows of the part may use, and prefer, just as they do `color`.
  int first_alike(int color) const {
    for (int c = 0; c < color; ++c) {
      const bool alike = std::all_of(part_.flows.begin(), part_.flows.end(), [&](int32_t i) {
        const size_t f = static_cast<size_t>(i);
        return loads_.usable(f, c) == loads_.usable(f, color) && problem_.flows[f].preferred != c &&
               problem_.flows[f].preferred != color;
      });
      if (alike) return c;
    }
    return color;
  }

  void branch(int64_t cost) {
    if (--steps_ <= 0) return;
    if (open_ == 0) {
      if (cost >= best_cost_) return;
      best_cost_ = cost;
      for (size_t i = 0; i < best_.size(); ++i) best_[i] = loads_.color(flow(i));
      return;
    }
    int64_t bound = cost;
    size_t chosen = 0;
    int fewest_at_peace = problem_.colors + 1;
    for (size_t i = 0; i < best_.size(); ++i) {
      const size_t f = flow(i);
      if (loads_.color(f) >= 0) continue;
      int64_t least = INT64_MAX;
      int at_peace = 0;
      for (int c = 0; c < problem_.colors; ++c) {
        if (!loads_.usable(f, c)) continue;
        least = std::min(least, loads_.meets(f, c) * scale_ + lost(f, c));
        at_peace += loads_.meets(f, c) == 0;
      }
      bound += least;
      if (at_peace < fewest_at_peace) {
        fewest_at_peace = at_peace;
        chosen = i;
      }
    }
    if (bound >= best_cost_) return;
    try_colors(flow(chosen), cost);
  }

  void try_colors(size_t f, int64_t cost) {
    std::vector<std::pair<int64_t, int>> choices;
    std::vector<int> fresh;  // kinds of colours of which an unused one is among the choices
    for (int c = 0; c < problem_.colors; ++c) {
      if (!loads_.usable(f, c)) continue;
      if (used_[static_cast<size_t>(c)] == 0) {
        const int kind = alike_[static_cast<size_t>(c)];
        if (std::find(fresh.begin(), fresh.end(), kind) != fresh.end()) continue;
        fresh.push_back(kind);
      }
      choices.emplace_back(loads_.meets(f, c) * scale_ + lost(f, c), c);
    }
    std::sort(choices.begin(), choices.end());
    --open_;
    for (const auto& [more, color] : choices) {
      if (cost + more >= best_cost_ || steps_ <= 0) break;
      loads_.set(f, color);
      ++used_[static_cast<size_t>(color)];
      branch(cost + more);
      --used_[static_cast<size_t>(color)];
      loads_.set(f, -1);
    }
    ++open_;
  }

  const SharingProblem& problem_;
  const Part& part_;
  Loads& loads_;
  int64_t steps_;
  int64_t scale_ = 1;
  size_t open_ = 0;
  int64_t best_cost_ = 0;
  std::vector<int> best_;
  std::vector<int> used_;
  std::vector<int> alike_;
};

}  // namespace

int64_t meeting_pairs(const SharingProblem& problem, const std::vector<int>& colors) {
  Part all;
  all.flows.resize(problem.flows.size());
  std::iota(all.flows.begin(), all.flows.end(), 0);
  return pairs_in(problem, all, colors);
}

bool share_least(const SharingProblem& problem, std::vector<int>& colors) {
  assert(colors.size() == problem.flows.size());
  Loads loads(problem, colors);
  for (size_t f = 0; f < colors.size(); ++f) {
    if (colors[f] < 0) loads.set(f, loads.least_met(f));
  }
  if (meeting_pairs(problem, colors) == 0) return true;
  bool proved = true;
  int64_t exact_steps = kExactSteps;
  for (const Part& part : parts_of(problem)) {
    if (pairs_in(problem, part, colors) == 0) continue;
    const int64_t bound = even_bound(problem, part, loads);
    search_locally(problem, part, loads, bound, colors);
    give_back_preferred(problem, part, loads);
    if (pairs_in(problem, part, colors) == bound) continue;
    if (part.flows.size() > kExactFlows || exact_steps <= 0) {
      proved = false;
      continue;
    }
    const int64_t allowed = std::min(exact_steps, kExactStepsOfPart);
    ExactSearch exact(problem, part, loads, allowed);
    proved &= exact.run(colors);
    exact_steps -= allowed - exact.steps_left();
  }
  return proved;
}

}  // namespace monkeytree
