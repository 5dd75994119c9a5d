# The live system beside a real Slurm. tests/slurm.cmake and tests/agent_worker.cmake come first
# where files are read in the order of their names, so targets are looked up late.
if(MONKEYTREE_TESTS)
  monkeytree_library(live_system
    SOURCES ${CMAKE_CURRENT_LIST_DIR}/live/live_system.cc
    USES monkeytree_processes monkeytree_scheduler monkeytree_service monkeytree_slurm_cluster nlohmann_json::nlohmann_json PkgConfig::HTTPLIB)
  target_include_directories(monkeytree_live_system PUBLIC ${CMAKE_CURRENT_LIST_DIR}/live)
  target_compile_definitions(monkeytree_live_system PRIVATE
    MONKEYTREE_PROGRAM="$<TARGET_FILE:monkeytree>"
    MONKEYTREE_WORKER="$<TARGET_FILE:monkeytree_worker>")
  add_dependencies(monkeytree_live_system monkeytree monkeytree_worker)
  # Sixteen slurmd and as many agents are enough for a small machine: one such test at a time.
  function(monkeytree_live_test name source)
    monkeytree_test(${name} TIMEOUT 1800 SOURCES ${CMAKE_CURRENT_LIST_DIR}/live/${source}
      USES monkeytree_live_system)
    set_tests_properties(${name} PROPERTIES LABELS slurm RESOURCE_LOCK slurm)
  endfunction()
  foreach(flavour Companion Merge)
    string(TOLOWER ${flavour} name)
    monkeytree_live_test(live_${name}_test live_test.cc)
    target_compile_definitions(live_${name}_test PRIVATE MONKEYTREE_SLURM_FLAVOUR=k${flavour})
  endforeach()
  monkeytree_live_test(live_churn_test churn_test.cc)
  monkeytree_live_test(live_leader_test leader_test.cc)
  target_link_libraries(live_leader_test PRIVATE monkeytree_etcd_server)
  set_tests_properties(live_leader_test PROPERTIES LABELS "etcd;slurm")
  monkeytree_live_test(live_training_test training_test.cc)
  target_compile_definitions(live_training_test PRIVATE
    MONKEYTREE_PYTHON="${CMAKE_BINARY_DIR}/python")
  if(TARGET monkeytree_python_state)
    add_dependencies(live_training_test monkeytree_python_state)
  endif()
endif()
