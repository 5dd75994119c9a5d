monkeytree_fuzzer(routes_fuzz SOURCES ${CMAKE_CURRENT_LIST_DIR}/routes_fuzz.cc
  USES monkeytree_routing)
