# A leaf-spine fabric of network namespaces that tests start for themselves; needs root.
if(MONKEYTREE_TESTS)
  set(fabric_folder ${CMAKE_CURRENT_LIST_DIR}/fabric)
  monkeytree_library(fabric
    SOURCES ${fabric_folder}/fabric.cc ${fabric_folder}/namespaces.cc ${fabric_folder}/utilisation.cc
    USES monkeytree_base monkeytree_command Threads::Threads)
  target_include_directories(monkeytree_fabric PUBLIC ${fabric_folder})

  # For people and scripts.
  add_executable(fabric_program ${fabric_folder}/main.cc)
  target_link_libraries(fabric_program PRIVATE monkeytree_fabric)
  set_target_properties(fabric_program PROPERTIES OUTPUT_NAME monkeytree-fabric
    RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})

  monkeytree_test(fabric_test SOURCES ${fabric_folder}/fabric_test.cc USES monkeytree_fabric)
  target_compile_definitions(fabric_test PRIVATE
    MONKEYTREE_FABRIC_PROGRAM="$<TARGET_FILE:fabric_program>")
  add_dependencies(fabric_test fabric_program)
  monkeytree_test(fabric_paths_test SOURCES ${fabric_folder}/paths_test.cc
    USES monkeytree_fabric monkeytree_agent_paths)
  monkeytree_test(fabric_paths_program_test SOURCES ${fabric_folder}/paths_program_test.cc
    USES monkeytree_fabric nlohmann_json::nlohmann_json)
  add_dependencies(fabric_paths_program_test monkeytree)
  # Measures times: nothing else of the suite runs beside it.
  monkeytree_test(fabric_scenario_test
    SOURCES ${fabric_folder}/ring_job.cc ${fabric_folder}/scenario_test.cc
    USES monkeytree_fabric monkeytree_agent_paths monkeytree_planning monkeytree_routing)
  set_tests_properties(fabric_scenario_test PROPERTIES LABELS fabric RUN_SERIAL TRUE)
  set_tests_properties(fabric_test fabric_paths_test fabric_paths_program_test PROPERTIES LABELS fabric)

  # The whole system. Files of targets that come from others of this folder are looked up late.
  monkeytree_test(fabric_training_test TIMEOUT 1800
    SOURCES ${fabric_folder}/prediction.cc ${fabric_folder}/ring_job.cc ${fabric_folder}/timeline.cc
      ${fabric_folder}/trained_fabric.cc ${fabric_folder}/training_test.cc
    USES monkeytree_fabric monkeytree_live_system monkeytree_agent_paths monkeytree_simulation
      nlohmann_json::nlohmann_json)
  target_compile_definitions(fabric_training_test PRIVATE
    MONKEYTREE_PYTHON="${CMAKE_BINARY_DIR}/python")
  set_tests_properties(fabric_training_test PROPERTIES LABELS "fabric;slurm" RUN_SERIAL TRUE
    RESOURCE_LOCK slurm)
  if(TARGET monkeytree_python_state)
    add_dependencies(fabric_training_test monkeytree_python_state)
  endif()
endif()
