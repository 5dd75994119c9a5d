// The cost of a change in the network: a flow that comes or goes, and the rates settled after it.
// NICs stand as caps, as the fast engine has them, so a flow uses one uplink and one downlink.
//
//     network_bench                       all, some seconds

#include <benchmark/benchmark.h>
#include <malloc.h>

#include <array>
#include <cstdlib>
#include <random>
#include <vector>

#include "network/leaf_spine.h"
#include "network/network.h"

namespace monkeytree {
namespace {

constexpr double kFull = 50'000;
using Uses = std::array<LinkUse, 2>;

FabricShape shape_of(int gpus) {
  FabricShape shape;
  shape.gpus = gpus;
  return shape;
}

void add_links(Network& network, const LeafSpine& fabric) {
  network.reserve_links(static_cast<size_t>(fabric.link_count()));
  for (int l = 0; l < fabric.link_count(); ++l) network.add_link(fabric.capacity(LinkId(l)));
}

Uses uses_of(const LeafSpine& fabric, int from_rack, int to_rack, int spine) {
  return {LinkUse{fabric.rack_up(from_rack, spine)}, LinkUse{fabric.rack_down(to_rack, spine)}};
}

/// Flows alone on their links come and go.
void Alone(benchmark::State& state) {
  const LeafSpine fabric(shape_of(1024));
  Network network;
  add_links(network, fabric);
  int spine = 0;
  for (auto _ : state) {
    const StreamId flow = network.add(uses_of(fabric, 0, 1, spine), kFull);
    benchmark::DoNotOptimize(network.settle());
    network.remove(flow);
    benchmark::DoNotOptimize(network.settle());
    spine = (spine + 1) % 16;
  }
  state.SetItemsProcessed(2 * state.iterations());
}
BENCHMARK(Alone);

/// Chains of n flows: each shares its downlink with the next and its uplink with the one before, or
/// the other way round. Flows in the middle of a chain, of hundreds of chains, go and come back.
void Piece(benchmark::State& state) {
  const int length = static_cast<int>(state.range(0));
  const LeafSpine fabric(shape_of(64 * 256));
  Network network;
  add_links(network, fabric);
  struct Member {
    StreamId flow;
    Uses uses;
  };
  std::vector<Member> middles;
  const int pieces_on_a_spine = 256 / (length + 1);
  for (int piece = 0; piece < 16 * pieces_on_a_spine; ++piece) {
    const int spine = piece % 16, first = piece / 16 * (length + 1);
    for (int i = 0; i < length; ++i) {
      // 0→1, 2→1, 2→3, 4→3, …
      const int low = first + i, high = first + i + 1;
      const Uses uses =
          i % 2 == 0 ? uses_of(fabric, low, high, spine) : uses_of(fabric, high, low, spine);
      const StreamId flow = network.add(uses, kFull);
      if (i == length / 2) middles.push_back({flow, uses});
    }
  }
  network.settle();
  std::mt19937 random(1);
  for (auto _ : state) {
    Member& member = middles[random() % middles.size()];
    network.remove(member.flow);
    benchmark::DoNotOptimize(network.settle());
    member.flow = network.add(member.uses, kFull);
    benchmark::DoNotOptimize(network.settle());
  }
  state.SetItemsProcessed(2 * state.iterations());
}
BENCHMARK(Piece)->Arg(2)->Arg(3)->Arg(4)->Arg(8)->Arg(100);

/// Flows between random racks on random spines, so most of them hang together, come and go.
void Ecmp(benchmark::State& state) {
  const int flows = static_cast<int>(state.range(0));
  const LeafSpine fabric(shape_of(1024));
  Network network;
  add_links(network, fabric);
  std::mt19937 random(1);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<uint32_t>(n)); };
  const auto random_uses = [&] {
    const int from = below(16);
    return uses_of(fabric, from, (from + 1 + below(15)) % 16, below(16));
  };
  std::vector<StreamId> active;
  for (int i = 0; i < flows; ++i) active.push_back(network.add(random_uses(), kFull));
  network.settle();
  int64_t changed = 0;
  for (auto _ : state) {
    StreamId& flow = active[static_cast<size_t>(below(flows))];
    network.remove(flow);
    changed += static_cast<int64_t>(network.settle().size());
    flow = network.add(random_uses(), kFull);
    changed += static_cast<int64_t>(network.settle().size());
  }
  state.SetItemsProcessed(2 * state.iterations());
  state.counters["changed"] = benchmark::Counter(static_cast<double>(changed) /
                                                 (2 * static_cast<double>(state.iterations())));
}
BENCHMARK(Ecmp)->Arg(100)->Arg(200)->Arg(300)->Arg(600);

/// The links of 131,072 GPUs, and what each takes of memory.
void Build(benchmark::State& state) {
  const LeafSpine fabric(shape_of(131'072));
  double bytes = 0;
  for (auto _ : state) {
    const struct mallinfo2 before = mallinfo2();
    Network network;
    add_links(network, fabric);
    const struct mallinfo2 after = mallinfo2();
    bytes = static_cast<double>(after.uordblks + after.hblkhd) -
            static_cast<double>(before.uordblks + before.hblkhd);
  }
  state.counters["bytes_per_link"] = bytes / fabric.link_count();
}
BENCHMARK(Build)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace monkeytree

BENCHMARK_MAIN();
