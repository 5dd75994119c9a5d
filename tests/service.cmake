# The controller as a process, and the commands that talk to it.
monkeytree_test(controller_program_test
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/service/controller_program_test.cc
          ${CMAKE_CURRENT_LIST_DIR}/service/running_controller.cc
          ${CMAKE_CURRENT_LIST_DIR}/program.cc
  USES monkeytree_base nlohmann_json::nlohmann_json)
if(TARGET controller_program_test)
  target_include_directories(controller_program_test PRIVATE ${CMAKE_CURRENT_LIST_DIR})
  add_dependencies(controller_program_test monkeytree)
endif()
