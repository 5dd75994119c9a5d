monkeytree_fuzzer(planner_fuzz SOURCES ${CMAKE_CURRENT_LIST_DIR}/planner_fuzz.cc
  USES monkeytree_planning)
