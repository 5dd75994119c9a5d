# A stand-in for a training process, for tests and demonstrations.
add_executable(monkeytree_worker worker/hook.cc worker/main.cc worker/ring.cc worker/worker_state.cc)
target_link_libraries(monkeytree_worker PRIVATE monkeytree_agent CLI11::CLI11)
set_target_properties(monkeytree_worker PROPERTIES OUTPUT_NAME monkeytree-worker
  RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
include(${PROJECT_SOURCE_DIR}/src/service/grpc_executor.cmake)
