monkeytree_bench(simulation_bench SOURCES ${CMAKE_CURRENT_LIST_DIR}/simulation_bench.cc
  USES monkeytree_churn monkeytree_simulation)
