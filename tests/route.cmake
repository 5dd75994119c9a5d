monkeytree_test(route_test
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/route_test.cc ${PROJECT_SOURCE_DIR}/src/routing/random_cluster.cc
  USES monkeytree_cli)
