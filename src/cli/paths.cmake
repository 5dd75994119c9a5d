# `monkeytree paths`.
monkeytree_library(cli_paths SOURCES paths.cc USES monkeytree_cli monkeytree_agent_paths)
    target_link_libraries(monkeytree PRIVATE monkeytree_cli_paths)
