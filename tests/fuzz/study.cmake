monkeytree_fuzzer(study_fuzz SOURCES ${CMAKE_CURRENT_LIST_DIR}/study_fuzz.cc
  USES monkeytree_study)
