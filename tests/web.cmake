# The web pages in Node and Chromium, beside programs of this build. Skipped where scripts/web's
# tools or Chromium are not there.
if(MONKEYTREE_TESTS)
  add_executable(panel_plans ${CMAKE_CURRENT_LIST_DIR}/web/panel_plans.cc
                             ${CMAKE_CURRENT_LIST_DIR}/case_cluster.cc
                             ${CMAKE_CURRENT_LIST_DIR}/case_expect.cc)
  target_include_directories(panel_plans PRIVATE ${CMAKE_CURRENT_LIST_DIR})
  target_link_libraries(panel_plans PRIVATE monkeytree_planning monkeytree_routing fmt::fmt)
  add_test(NAME web_test COMMAND ${PROJECT_SOURCE_DIR}/scripts/web --test ${CMAKE_BINARY_DIR})
  set_tests_properties(web_test PROPERTIES LABELS web TIMEOUT 1200 SKIP_RETURN_CODE 77)
endif()
