# The controller and the commands that talk to it.
find_package(spdlog REQUIRED)
monkeytree_library(notify_fast SOURCES notify_fast.cc USES monkeytree_address)
find_package(OpenSSL REQUIRED)
monkeytree_library(api_client SOURCES api_client.cc tls_stream.cc
  USES monkeytree_address monkeytree_identity OpenSSL::SSL)
monkeytree_library(cli_live
  SOURCES
    controller.cc
    live.cc
    notify.cc
    token.cc
    view.cc
  USES monkeytree_agent monkeytree_api_client monkeytree_cli monkeytree_kubernetes_live monkeytree_notify_fast monkeytree_grpc_executor
       monkeytree_etcd_leadership monkeytree_service spdlog::spdlog nlohmann_json::nlohmann_json)
target_link_libraries(monkeytree PRIVATE monkeytree_cli_live)

# The same as `monkeytree notify`, without the libraries that the rest needs.
add_executable(monkeytree-notify notify_main.cc)
target_link_libraries(monkeytree-notify PRIVATE monkeytree_notify_fast)
set_target_properties(monkeytree-notify PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
add_dependencies(monkeytree monkeytree-notify)
