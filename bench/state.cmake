monkeytree_bench(state_bench SOURCES ${CMAKE_CURRENT_LIST_DIR}/state_bench.cc
  USES monkeytree_state)
