monkeytree_bench(coloring_bench SOURCES coloring_bench.cc hopcroft_karp.cc
  USES monkeytree_routing)
