# The built program as its users meet it.
foreach(name cli_test usage_test check_program_test)
  monkeytree_test(${name} SOURCES ${CMAKE_CURRENT_LIST_DIR}/${name}.cc
    ${CMAKE_CURRENT_LIST_DIR}/program.cc USES monkeytree_base nlohmann_json::nlohmann_json)
  if(TARGET ${name})
    add_dependencies(${name} monkeytree)
  endif()
endforeach()
monkeytree_test(plan_command_test SOURCES ${CMAKE_CURRENT_LIST_DIR}/plan_command_test.cc
  USES monkeytree_cli)
