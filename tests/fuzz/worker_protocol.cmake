# What a worker process may say: anything.
monkeytree_fuzzer(worker_protocol_fuzz SOURCES ${CMAKE_CURRENT_LIST_DIR}/worker_protocol_fuzz.cc
  USES monkeytree_wire)
