monkeytree_fuzzer(state_frames_fuzz SOURCES ${CMAKE_CURRENT_LIST_DIR}/state_frames_fuzz.cc
  USES monkeytree_state)
monkeytree_fuzzer(state_arena_fuzz SOURCES ${CMAKE_CURRENT_LIST_DIR}/state_arena_fuzz.cc
  USES monkeytree_state)
