monkeytree_bench(control_bench SOURCES ${CMAKE_CURRENT_LIST_DIR}/control_bench.cc
  USES monkeytree_control monkeytree_scheduler)
