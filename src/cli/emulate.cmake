# `monkeytree emulate`.
monkeytree_library(cli_emulate SOURCES emulate.cc USES monkeytree_cli monkeytree_scheduler)
target_link_libraries(monkeytree PRIVATE monkeytree_cli_emulate)
