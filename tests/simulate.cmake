# `monkeytree simulate` as its users meet it.
monkeytree_test(simulate_program_test
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/simulate_program_test.cc ${CMAKE_CURRENT_LIST_DIR}/program.cc
  USES monkeytree_cli nlohmann_json::nlohmann_json)
if(TARGET simulate_program_test)
  add_dependencies(simulate_program_test monkeytree)
endif()
