# `monkeytree view` as its users meet it.
monkeytree_test(view_program_test
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/view_program_test.cc ${CMAKE_CURRENT_LIST_DIR}/program.cc
  USES monkeytree_base)
if(TARGET view_program_test)
  target_include_directories(view_program_test PRIVATE ${CMAKE_CURRENT_LIST_DIR})
  add_dependencies(view_program_test monkeytree)
endif()
