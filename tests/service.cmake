# The controller as a process, and the commands that talk to it.
monkeytree_test(controller_program_test
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/service/controller_program_test.cc
          ${CMAKE_CURRENT_LIST_DIR}/service/running_controller.cc
          ${CMAKE_CURRENT_LIST_DIR}/program.cc
  USES monkeytree_base monkeytree_processes nlohmann_json::nlohmann_json)
if(TARGET controller_program_test)
  target_include_directories(controller_program_test PRIVATE ${CMAKE_CURRENT_LIST_DIR})
  add_dependencies(controller_program_test monkeytree)
endif()

# Controller and agents in one process, over TLS.
monkeytree_test(mutual_tls_test
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/service/mutual_tls_test.cc ${CMAKE_CURRENT_LIST_DIR}/program.cc
  USES monkeytree_agent_session monkeytree_grpc_executor monkeytree_identity_grpc)
if(TARGET mutual_tls_test)
  target_include_directories(mutual_tls_test PRIVATE ${CMAKE_CURRENT_LIST_DIR})
endif()
monkeytree_test(https_test
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/service/https_test.cc ${CMAKE_CURRENT_LIST_DIR}/program.cc
  USES monkeytree_api_client monkeytree_service)
if(TARGET https_test)
  target_include_directories(https_test PRIVATE ${CMAKE_CURRENT_LIST_DIR})
endif()
monkeytree_test(tls_program_test
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/service/tls_program_test.cc
          ${CMAKE_CURRENT_LIST_DIR}/service/running_controller.cc ${CMAKE_CURRENT_LIST_DIR}/program.cc
  USES monkeytree_identity monkeytree_processes nlohmann_json::nlohmann_json)
if(TARGET tls_program_test)
  target_include_directories(tls_program_test PRIVATE ${CMAKE_CURRENT_LIST_DIR})
  add_dependencies(tls_program_test monkeytree)
endif()
