monkeytree_bench(service_bench SOURCES ${CMAKE_CURRENT_LIST_DIR}/service_bench.cc
  USES monkeytree_service)
if(TARGET service_bench)
  target_compile_definitions(service_bench PRIVATE MONKEYTREE_BUILD="${CMAKE_BINARY_DIR}")
  add_dependencies(service_bench monkeytree)
endif()
