monkeytree_test(import_program_test SOURCES ${CMAKE_CURRENT_LIST_DIR}/import_program_test.cc
  ${CMAKE_CURRENT_LIST_DIR}/program.cc USES monkeytree_base)
if(TARGET import_program_test AND TARGET monkeytree)
  add_dependencies(import_program_test monkeytree)
endif()
