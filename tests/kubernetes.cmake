# A real control plane of Kubernetes, where scripts/kubernetes has built one; skipped elsewhere.
if(MONKEYTREE_TESTS)
  find_package(OpenSSL REQUIRED)
  set(kubernetes_folder ${CMAKE_CURRENT_LIST_DIR}/kubernetes)
  monkeytree_test(kubernetes_observe_test TIMEOUT 1800
    SOURCES ${kubernetes_folder}/observe_test.cc ${kubernetes_folder}/control_plane.cc
            ${CMAKE_CURRENT_LIST_DIR}/service/running_controller.cc
            ${CMAKE_CURRENT_LIST_DIR}/program.cc
    USES monkeytree_kubernetes_live monkeytree_processes nlohmann_json::nlohmann_json PkgConfig::HTTPLIB OpenSSL::SSL
      OpenSSL::Crypto Threads::Threads)
  target_include_directories(kubernetes_observe_test PRIVATE ${CMAKE_CURRENT_LIST_DIR}
    ${kubernetes_folder})
  add_dependencies(kubernetes_observe_test monkeytree)
  set_tests_properties(kubernetes_observe_test PROPERTIES LABELS kubernetes
    RESOURCE_LOCK kubernetes)
  # Moves, with one control plane each.
  monkeytree_library(kube_lab SOURCES ${kubernetes_folder}/lab.cc ${kubernetes_folder}/control_plane.cc
    USES monkeytree_kubernetes_live monkeytree_processes nlohmann_json::nlohmann_json PkgConfig::HTTPLIB OpenSSL::SSL
      OpenSSL::Crypto Threads::Threads GTest::gtest)
  target_include_directories(monkeytree_kube_lab PUBLIC ${kubernetes_folder})
  target_compile_definitions(monkeytree_kube_lab PRIVATE MONKEYTREE_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  monkeytree_test(kubernetes_moves_test TIMEOUT 1800 SOURCES ${kubernetes_folder}/moves_test.cc
    USES monkeytree_kube_lab)
  set_tests_properties(kubernetes_moves_test PROPERTIES LABELS kubernetes
    RESOURCE_LOCK kubernetes)
  monkeytree_test(kubernetes_enforce_test TIMEOUT 1800 SOURCES ${kubernetes_folder}/enforce_test.cc
    USES monkeytree_kube_lab monkeytree_service)
  target_compile_definitions(kubernetes_enforce_test PRIVATE
    MONKEYTREE_WORKER_PROGRAM="${CMAKE_BINARY_DIR}/monkeytree-worker")
  add_dependencies(kubernetes_enforce_test monkeytree monkeytree_worker)
  set_tests_properties(kubernetes_enforce_test PROPERTIES LABELS kubernetes
    RESOURCE_LOCK kubernetes)
endif()
