monkeytree_bench(network_bench SOURCES ${CMAKE_CURRENT_LIST_DIR}/network_bench.cc
  USES monkeytree_network)
