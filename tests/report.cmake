# `monkeytree report` as its users meet it.
if(MONKEYTREE_TESTS)
  find_package(EXPAT REQUIRED)
endif()
monkeytree_test(report_program_test
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/report_program_test.cc ${CMAKE_CURRENT_LIST_DIR}/program.cc
  USES monkeytree_base EXPAT::EXPAT)
if(TARGET report_program_test)
  add_dependencies(report_program_test monkeytree)
endif()
