monkeytree_bench(kubernetes_bench SOURCES ${CMAKE_CURRENT_LIST_DIR}/kubernetes_bench.cc
  USES monkeytree_kubernetes)
