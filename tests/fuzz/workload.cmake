monkeytree_fuzzer(workload_fuzz SOURCES ${CMAKE_CURRENT_LIST_DIR}/workload_fuzz.cc
  USES monkeytree_workload)
