# `monkeytree study` as its users meet it.
monkeytree_test(study_program_test
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/study_program_test.cc ${CMAKE_CURRENT_LIST_DIR}/program.cc
  USES monkeytree_base nlohmann_json::nlohmann_json)
if(TARGET study_program_test)
  add_dependencies(study_program_test monkeytree)
endif()
