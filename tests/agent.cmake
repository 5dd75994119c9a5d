# A stand-in for a training process, for tests and demonstrations.
add_executable(monkeytree_worker worker/hook.cc worker/main.cc worker/ring.cc worker/worker_state.cc)
target_link_libraries(monkeytree_worker PRIVATE monkeytree_agent CLI11::CLI11)
set_target_properties(monkeytree_worker PROPERTIES OUTPUT_NAME monkeytree-worker
  RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
include(${PROJECT_SOURCE_DIR}/src/service/grpc_executor.cmake)
# Moves of a running job's workers: with all agents in one process, which the thread sanitizer can
# watch, and with the built program's agents over gRPC.
foreach(world local grpc)
  monkeytree_test(agent_${world}_test
    SOURCES agent/scenario.cc agent/scenarios_test.cc agent/world.cc agent/${world}_world.cc
            worker/worker_state.cc
    USES monkeytree_agent monkeytree_agent_executor monkeytree_processes TIMEOUT 1200)
  if(TARGET agent_${world}_test)
    target_compile_definitions(agent_${world}_test PRIVATE
      MONKEYTREE_WORKER_PROGRAM="${CMAKE_BINARY_DIR}/monkeytree-worker")
    add_dependencies(agent_${world}_test monkeytree_worker)
  endif()
endforeach()
if(TARGET agent_local_test)
  set_tests_properties(agent_local_test PROPERTIES LABELS threads)
  target_link_libraries(agent_grpc_test PRIVATE monkeytree_grpc_executor)
  add_dependencies(agent_grpc_test monkeytree)
endif()

monkeytree_test(agent_command_test
  SOURCES agent_command_test.cc agent/world.cc program.cc
  USES monkeytree_agent_executor monkeytree_processes)
if(TARGET agent_command_test)
  target_include_directories(agent_command_test PRIVATE ${CMAKE_CURRENT_LIST_DIR})
  add_dependencies(agent_command_test monkeytree)
endif()
