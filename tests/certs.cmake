# `monkeytree certs`.
monkeytree_test(certs_program_test
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/certs_program_test.cc ${CMAKE_CURRENT_LIST_DIR}/program.cc
  USES monkeytree_identity)
if(TARGET certs_program_test)
  add_dependencies(certs_program_test monkeytree)
endif()
