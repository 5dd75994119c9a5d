monkeytree_fuzzer(plan_fuzz SOURCES ${CMAKE_CURRENT_LIST_DIR}/plan_fuzz.cc
  USES monkeytree_planning)
