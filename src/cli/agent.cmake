# `monkeytree agent`: apart, since only it needs gRPC's client.
find_package(spdlog REQUIRED)
    monkeytree_library(cli_agent SOURCES agent.cc USES monkeytree_cli monkeytree_agent_session monkeytree_agent_paths
                           spdlog::spdlog nlohmann_json::nlohmann_json)
        target_link_libraries(monkeytree PRIVATE monkeytree_cli_agent)
