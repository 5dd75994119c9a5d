# A real control plane of Kubernetes, where scripts/kubernetes has built one; skipped elsewhere.
if(MONKEYTREE_TESTS)
  find_package(OpenSSL REQUIRED)
  set(kubernetes_folder ${CMAKE_CURRENT_LIST_DIR}/kubernetes)
  monkeytree_test(kubernetes_observe_test TIMEOUT 1800
    SOURCES ${kubernetes_folder}/observe_test.cc ${kubernetes_folder}/control_plane.cc
            ${CMAKE_CURRENT_LIST_DIR}/service/running_controller.cc
            ${CMAKE_CURRENT_LIST_DIR}/program.cc
    USES monkeytree_kubernetes_live nlohmann_json::nlohmann_json PkgConfig::HTTPLIB OpenSSL::SSL
      OpenSSL::Crypto Threads::Threads)
  target_include_directories(kubernetes_observe_test PRIVATE ${CMAKE_CURRENT_LIST_DIR}
    ${kubernetes_folder})
  add_dependencies(kubernetes_observe_test monkeytree)
  set_tests_properties(kubernetes_observe_test PROPERTIES LABELS kubernetes
    RESOURCE_LOCK kubernetes)
endif()
