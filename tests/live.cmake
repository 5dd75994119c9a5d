# The live system beside a real Slurm. tests/slurm.cmake and tests/agent_worker.cmake come first
# where files are read in the order of their names, so targets are looked up late.
if(MONKEYTREE_TESTS)
  foreach(flavour Companion Merge)
    string(TOLOWER ${flavour} name)
    monkeytree_test(live_${name}_test TIMEOUT 900
      SOURCES ${CMAKE_CURRENT_LIST_DIR}/live/live_test.cc ${CMAKE_CURRENT_LIST_DIR}/live/live_system.cc
      USES monkeytree_scheduler monkeytree_slurm_cluster nlohmann_json::nlohmann_json PkgConfig::HTTPLIB)
    target_include_directories(live_${name}_test PRIVATE ${CMAKE_CURRENT_LIST_DIR}/live)
    target_compile_definitions(live_${name}_test PRIVATE
      MONKEYTREE_SLURM_FLAVOUR=k${flavour} MONKEYTREE_WORKER="${CMAKE_BINARY_DIR}/monkeytree-worker")
    add_dependencies(live_${name}_test monkeytree monkeytree_worker)
    # Sixteen slurmd and as many agents are enough for a small machine.
    set_tests_properties(live_${name}_test PROPERTIES LABELS slurm RESOURCE_LOCK slurm)
  endforeach()
endif()
