# The web pages in Node and Chromium. Skipped where scripts/web's tools or Chromium are not there.
if(MONKEYTREE_TESTS)
  add_test(NAME web_test COMMAND ${PROJECT_SOURCE_DIR}/scripts/web --test ${CMAKE_BINARY_DIR})
  set_tests_properties(web_test PROPERTIES LABELS web TIMEOUT 1200 SKIP_RETURN_CODE 77)
endif()
