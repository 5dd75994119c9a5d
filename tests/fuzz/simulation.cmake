monkeytree_fuzzer(scenario_fuzz SOURCES ${CMAKE_CURRENT_LIST_DIR}/scenario_fuzz.cc
  USES monkeytree_simulation)
