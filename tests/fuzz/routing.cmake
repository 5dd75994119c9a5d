monkeytree_fuzzer(routes_fuzz SOURCES ${CMAKE_CURRENT_LIST_DIR}/routes_fuzz.cc
  USES monkeytree_routing)
monkeytree_fuzzer(hash_model_fuzz SOURCES ${CMAKE_CURRENT_LIST_DIR}/hash_model_fuzz.cc
  USES monkeytree_ports)
