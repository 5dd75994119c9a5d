monkeytree_fuzzer(snapshot_fuzz SOURCES ${CMAKE_CURRENT_LIST_DIR}/snapshot_fuzz.cc
  USES monkeytree_cluster)
