# What a server that is asked as etcd may answer: anything.
monkeytree_fuzzer(etcd_json_fuzz SOURCES ${CMAKE_CURRENT_LIST_DIR}/etcd_json_fuzz.cc
  USES monkeytree_election)
