# What comes over HTTP, and the controller's configuration.
monkeytree_fuzzer(http_fuzz SOURCES ${CMAKE_CURRENT_LIST_DIR}/http_fuzz.cc USES monkeytree_service)
monkeytree_fuzzer(controller_config_fuzz SOURCES ${CMAKE_CURRENT_LIST_DIR}/controller_config_fuzz.cc
  USES monkeytree_service)
monkeytree_fuzzer(what_if_fuzz SOURCES ${CMAKE_CURRENT_LIST_DIR}/what_if_fuzz.cc
  USES monkeytree_service)
