# What is installed beside the program.
if(MONKEYTREE_TESTS)
  add_test(NAME units_test COMMAND ${CMAKE_CURRENT_LIST_DIR}/packaging/units_test.sh
    ${PROJECT_SOURCE_DIR}/packaging $<TARGET_FILE:monkeytree>)
  set_tests_properties(units_test PROPERTIES SKIP_RETURN_CODE 77)
  if(NOT MONKEYTREE_SANITIZE AND NOT MONKEYTREE_FUZZ)
    add_test(NAME deb_test COMMAND ${CMAKE_CURRENT_LIST_DIR}/packaging/deb_test.sh
      ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR})
    set_tests_properties(deb_test PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 1200)
  endif()
endif()
