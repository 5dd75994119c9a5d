// Edge colouring of the flows between racks, against the rival that the paper names, and the cost
// of a change. 2,048 racks with 16 uplinks, as a planner leaves them: every rack within its bound.
//
//     coloring_bench                      all, a minute
//     coloring_bench --benchmark_filter=Afresh

#include <benchmark/benchmark.h>
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "hopcroft_karp.h"
#include "routing/color_all.h"
#include "routing/coloring.h"

namespace monkeytree {
namespace {

/// CPU time of this thread: other work on the machine does not count.
double cpu_seconds() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

/// Rings over random racks, `rings` parallel ones each, that fill the racks' bounds.
struct Cluster {
  int racks;
  int bound;
  std::vector<std::vector<int32_t>> rings;  // the racks that each visits, in order

  std::vector<std::pair<int32_t, int32_t>> flows() const {
    std::vector<std::pair<int32_t, int32_t>> out;
    for (const std::vector<int32_t>& ring : rings) {
      for (size_t i = 0; i < ring.size(); ++i) {
        out.emplace_back(ring[i], ring[(i + 1) % ring.size()]);
      }
    }
    return out;
  }
};

Cluster make_cluster(int racks, int bound, double fill, uint32_t seed) {
  Cluster cluster{racks, bound, {}};
  std::mt19937 random(seed);
  std::vector<int> room(static_cast<size_t>(racks), bound);
  const int wanted = static_cast<int>(fill * racks * bound);
  int flows = 0;
  for (int failures = 0; flows < wanted && failures < 10 * racks;) {
    std::vector<int32_t> open;
    // The racks with most room first keeps the last rings from failing; ties are random.
    const size_t size = std::min<size_t>(2 + random() % 6, static_cast<size_t>(wanted - flows));
    std::vector<int32_t> ring;
    for (int tries = 0; ring.size() < std::max<size_t>(size, 2) && tries < 4000; ++tries) {
      const int32_t rack = static_cast<int32_t>(random() % static_cast<uint32_t>(racks));
      if (room[static_cast<size_t>(rack)] == 0) continue;
      if (std::find(ring.begin(), ring.end(), rack) == ring.end()) ring.push_back(rack);
    }
    if (ring.size() < 2) {
      ++failures;
      continue;
    }
    for (int32_t rack : ring) --room[static_cast<size_t>(rack)];
    flows += static_cast<int>(ring.size());
    cluster.rings.push_back(std::move(ring));
  }
  return cluster;
}

void check_proper(const Cluster& cluster, const std::vector<int>& colors) {
  const auto flows = cluster.flows();
  std::vector<char> used(static_cast<size_t>(2 * cluster.racks * cluster.bound), 0);
  for (size_t i = 0; i < flows.size(); ++i) {
    const auto [from, to] = flows[i];
    bool bad = colors[i] < 0 || colors[i] >= cluster.bound;
    if (!bad) {
      bad |= used[static_cast<size_t>(2 * from * cluster.bound + colors[i])]++ != 0;
      bad |= used[static_cast<size_t>((2 * to + 1) * cluster.bound + colors[i])]++ != 0;
    }
    if (bad) {
      std::fprintf(stderr, "coloring_bench: flow %zu is not coloured properly\n", i);
      std::exit(1);
    }
  }
}

/// Both colourings of the same flows in turn; the time of the benchmark is ours.
void Afresh(benchmark::State& state) {
  const Cluster cluster = make_cluster(2048, static_cast<int>(state.range(0)),
                                       static_cast<double>(state.range(1)) / 1000, 1);
  const auto flows = cluster.flows();
  std::vector<RackPair> pairs;
  for (const auto& [from, to] : flows) pairs.push_back({RackId(from), RackId(to)});
  const std::vector<int> bounds(static_cast<size_t>(cluster.racks), cluster.bound);
  check_proper(cluster, color_all(pairs, bounds));
  check_proper(cluster, color_by_matchings(cluster.racks, flows));
  std::vector<double> ours, rival;
  for (auto _ : state) {
    const double start = cpu_seconds();
    benchmark::DoNotOptimize(color_all(pairs, bounds));
    ours.push_back(cpu_seconds() - start);
    state.SetIterationTime(ours.back());
    const double second = cpu_seconds();
    benchmark::DoNotOptimize(color_by_matchings(cluster.racks, flows));
    rival.push_back(cpu_seconds() - second);
  }
  std::sort(ours.begin(), ours.end());
  std::sort(rival.begin(), rival.end());
  state.counters["flows"] = static_cast<double>(flows.size());
  state.counters["ours_ms"] = ours[ours.size() / 2] * 1e3;
  state.counters["matchings_ms"] = rival[rival.size() / 2] * 1e3;
  state.counters["times_faster"] = rival[rival.size() / 2] / ours[ours.size() / 2];
}
BENCHMARK(Afresh)
    ->ArgNames({"bound", "fill"})
    ->Args({16, 977})
    ->Args({16, 1000})
    ->Args({64, 970})
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

/// Two rings swap a rack: the flows at both places go, and come again elsewhere.
class SwappingCluster {
 public:
  explicit SwappingCluster(Cluster cluster)
      : cluster_(std::move(cluster)),
        coloring_(static_cast<size_t>(cluster_.racks), cluster_.bound),
        random_(7) {
    for (const std::vector<int32_t>& ring : cluster_.rings) {
      edges_.emplace_back();
      for (size_t i = 0; i < ring.size(); ++i) edges_.back().push_back(add(ring, i));
    }
  }

  struct Swap {
    size_t ring_a, at_a, ring_b, at_b;
  };

  Swap choose() {
    while (true) {
      Swap swap;
      swap.ring_a = random_() % cluster_.rings.size();
      swap.ring_b = random_() % cluster_.rings.size();
      const auto& a = cluster_.rings[swap.ring_a];
      const auto& b = cluster_.rings[swap.ring_b];
      swap.at_a = random_() % a.size();
      swap.at_b = random_() % b.size();
      if (swap.ring_a == swap.ring_b) continue;
      if (std::find(b.begin(), b.end(), a[swap.at_a]) != b.end()) continue;
      if (std::find(a.begin(), a.end(), b[swap.at_b]) != a.end()) continue;
      return swap;
    }
  }

  /// Flows recoloured besides the new ones.
  int apply(const Swap& swap) {
    coloring_.begin_change();
    auto& a = cluster_.rings[swap.ring_a];
    auto& b = cluster_.rings[swap.ring_b];
    take_out(swap.ring_a, swap.at_a);
    take_out(swap.ring_b, swap.at_b);
    std::swap(a[swap.at_a], b[swap.at_b]);
    put_in(swap.ring_a, swap.at_a);
    put_in(swap.ring_b, swap.at_b);
    return coloring_.recolored();
  }

  void check() const {
    std::vector<int> colors;
    for (const auto& ring : edges_) {
      for (EdgeId edge : ring) colors.push_back(coloring_.color(edge));
    }
    check_proper(cluster_, colors);
  }

 private:
  EdgeId add(const std::vector<int32_t>& ring, size_t i) {
    return coloring_.insert(RackId(ring[i]), RackId(ring[(i + 1) % ring.size()]));
  }
  static size_t before(const std::vector<int32_t>& ring, size_t at) {
    return (at == 0 ? ring.size() : at) - 1;
  }
  void take_out(size_t ring, size_t at) {
    coloring_.remove(edges_[ring][before(cluster_.rings[ring], at)]);
    coloring_.remove(edges_[ring][at]);
  }
  void put_in(size_t ring, size_t at) {
    const size_t hop = before(cluster_.rings[ring], at);
    edges_[ring][hop] = add(cluster_.rings[ring], hop);
    edges_[ring][at] = add(cluster_.rings[ring], at);
  }

  Cluster cluster_;
  Coloring coloring_;
  std::vector<std::vector<EdgeId>> edges_;
  std::mt19937 random_;
};

template <class T>
double quantile(std::vector<T>& values, double q) {
  std::sort(values.begin(), values.end());
  return static_cast<double>(
      values[static_cast<size_t>(q * static_cast<double>(values.size() - 1))]);
}

void AfterASwap(benchmark::State& state) {
  SwappingCluster cluster(make_cluster(2048, static_cast<int>(state.range(0)),
                                       static_cast<double>(state.range(1)) / 1000, 2));
  std::vector<double> us;
  std::vector<int> recolored;
  for (auto _ : state) {
    const SwappingCluster::Swap swap = cluster.choose();
    const double start = cpu_seconds();
    recolored.push_back(cluster.apply(swap));
    const double s = cpu_seconds() - start;
    state.SetIterationTime(s);
    us.push_back(s * 1e6);
  }
  cluster.check();
  state.counters["us_p50"] = quantile(us, 0.5);
  state.counters["us_p99"] = quantile(us, 0.99);
  state.counters["recolored_p50"] = quantile(recolored, 0.5);
  state.counters["recolored_p99"] = quantile(recolored, 0.99);
}
BENCHMARK(AfterASwap)
    ->ArgNames({"bound", "fill"})
    ->Args({16, 700})
    ->Args({16, 900})
    ->Args({16, 970})
    ->Args({16, 1000})
    ->UseManualTime()
    ->Iterations(4000)
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace monkeytree

BENCHMARK_MAIN();
