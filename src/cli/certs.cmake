# `monkeytree certs`.
monkeytree_library(cli_certs SOURCES certificate_folder.cc certs.cc
  USES monkeytree_cli monkeytree_identity monkeytree_wire absl::strings)
target_link_libraries(monkeytree PRIVATE monkeytree_cli_certs)
