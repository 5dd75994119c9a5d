monkeytree_test(cli_test SOURCES ${CMAKE_CURRENT_LIST_DIR}/cli_test.cc
  ${CMAKE_CURRENT_LIST_DIR}/program.cc USES monkeytree_base nlohmann_json::nlohmann_json)
if(TARGET cli_test)
  add_dependencies(cli_test monkeytree)
endif()
