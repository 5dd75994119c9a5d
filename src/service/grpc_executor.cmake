# The agents over gRPC, and what the executor knows of them, which needs no gRPC.
if(NOT TARGET monkeytree_grpc_executor)
  monkeytree_library(agent_hub
    SOURCES
      ${CMAKE_CURRENT_LIST_DIR}/grpc_hub.cc
    USES monkeytree_wire monkeytree_control Threads::Threads)
  monkeytree_library(grpc_executor
    SOURCES
      ${CMAKE_CURRENT_LIST_DIR}/grpc_executor.cc
      ${CMAKE_CURRENT_LIST_DIR}/grpc_session.cc
    USES monkeytree_agent_hub monkeytree_wire_proto)
endif()
