# What a cluster's server, or somebody's file, may hold: anything.
monkeytree_fuzzer(kubernetes_objects_fuzz
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/kubernetes_objects_fuzz.cc USES monkeytree_kubernetes)
monkeytree_fuzzer(kubernetes_watch_fuzz
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/kubernetes_watch_fuzz.cc USES monkeytree_kubernetes)
monkeytree_fuzzer(kubernetes_admission_fuzz
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/kubernetes_admission_fuzz.cc USES monkeytree_kubernetes)
