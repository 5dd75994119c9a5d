# The text cases, run by one program.
get_target_property(sources monkeytree_planning SOURCES)
if(MONKEYTREE_TESTS AND "planner.cc" IN_LIST sources)
  add_executable(case_test ${CMAKE_CURRENT_LIST_DIR}/case_cluster.cc
                           ${CMAKE_CURRENT_LIST_DIR}/case_expect.cc
                           ${CMAKE_CURRENT_LIST_DIR}/case_test.cc)
  target_link_libraries(case_test PRIVATE monkeytree_planning monkeytree_routing fmt::fmt)
  target_compile_definitions(case_test PRIVATE MONKEYTREE_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  add_test(NAME case_test COMMAND case_test)
  set_tests_properties(case_test PROPERTIES TIMEOUT 600)
endif()
