# What is asked of the agents, which needs no gRPC, and the agents over gRPC.
if(NOT TARGET monkeytree_grpc_executor)
  monkeytree_library(agent_executor
    SOURCES
      ${CMAKE_CURRENT_LIST_DIR}/agent_executor.cc
      ${CMAKE_CURRENT_LIST_DIR}/agent_hub.cc
    USES monkeytree_wire monkeytree_control Threads::Threads)
  monkeytree_library(grpc_executor
    SOURCES
      ${CMAKE_CURRENT_LIST_DIR}/grpc_executor.cc
      ${CMAKE_CURRENT_LIST_DIR}/grpc_session.cc
    USES monkeytree_agent_executor monkeytree_identity_grpc monkeytree_wire_proto)
  monkeytree_test(grpc_executor_test SOURCES ${CMAKE_CURRENT_LIST_DIR}/grpc_executor_test.cc
    USES monkeytree_grpc_executor)
endif()
