# A real etcd, and several controllers that share it.
if(MONKEYTREE_TESTS)
  monkeytree_library(etcd_server
    SOURCES ${CMAKE_CURRENT_LIST_DIR}/etcd/etcd_server.cc ${CMAKE_CURRENT_LIST_DIR}/etcd/shared_keys.cc
    USES monkeytree_control monkeytree_election monkeytree_processes GTest::gtest Threads::Threads)
  target_include_directories(monkeytree_etcd_server PUBLIC ${CMAKE_CURRENT_LIST_DIR}/etcd)
  monkeytree_test(election_test SOURCES ${CMAKE_CURRENT_LIST_DIR}/etcd/election_test.cc
    USES monkeytree_election monkeytree_etcd_server)
  monkeytree_test(two_controllers_test
    SOURCES ${CMAKE_CURRENT_LIST_DIR}/etcd/two_controllers_test.cc
            ${CMAKE_CURRENT_LIST_DIR}/etcd/two_controllers.cc
            ${CMAKE_CURRENT_LIST_DIR}/agent/world.cc
    USES monkeytree_election monkeytree_etcd_server monkeytree_scheduler monkeytree_service
         nlohmann_json::nlohmann_json PkgConfig::HTTPLIB)
  target_include_directories(two_controllers_test PRIVATE ${CMAKE_CURRENT_LIST_DIR}
    ${CMAKE_CURRENT_LIST_DIR}/etcd)
  target_compile_definitions(two_controllers_test PRIVATE
    MONKEYTREE_WORKER="${CMAKE_BINARY_DIR}/monkeytree-worker")
  add_dependencies(two_controllers_test monkeytree)
  if(TARGET monkeytree_worker)
    add_dependencies(two_controllers_test monkeytree_worker)
  endif()
  set_tests_properties(election_test two_controllers_test PROPERTIES LABELS etcd)
endif()
