# The web pages: types, that web/dist is up to date, and tests in Node and Chromium beside programs
# of this build. Skipped where scripts/web's tools or Chromium are not there.
if(MONKEYTREE_TESTS)
  add_executable(panel_plans ${CMAKE_CURRENT_LIST_DIR}/web/panel_plans.cc
                             ${CMAKE_CURRENT_LIST_DIR}/case_cluster.cc
                             ${CMAKE_CURRENT_LIST_DIR}/case_expect.cc)
  target_include_directories(panel_plans PRIVATE ${CMAKE_CURRENT_LIST_DIR})
  target_link_libraries(panel_plans PRIVATE monkeytree_planning monkeytree_routing fmt::fmt)
endif()
# Sanitizers have nothing to find in the pages.
if(MONKEYTREE_TESTS AND NOT MONKEYTREE_SANITIZE)
  set(scripts_web ${PROJECT_SOURCE_DIR}/scripts/web)
  add_test(NAME web_dist_test COMMAND ${scripts_web} --check)
  set(tests web_dist_test)
  file(GLOB files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/web/test/*.test.ts)
  foreach(file IN LISTS files)
    string(REGEX REPLACE ".*/(.*).test.ts" "\\1" name ${file})
    add_test(NAME web_${name}_test COMMAND ${scripts_web} --test ${CMAKE_BINARY_DIR} ${name})
    list(APPEND tests web_${name}_test)
  endforeach()
  set_tests_properties(${tests} PROPERTIES LABELS web TIMEOUT 1200 SKIP_RETURN_CODE 77)
endif()
