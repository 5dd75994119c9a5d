# A real Slurm cluster that tests start for themselves; needs the Slurm programs and root.
if(MONKEYTREE_TESTS)
  set(slurm_folder ${CMAKE_CURRENT_LIST_DIR}/slurm)
  add_executable(slurm_test_cluster ${slurm_folder}/keeper.cc ${slurm_folder}/slurm_files.cc)
  target_link_libraries(slurm_test_cluster PRIVATE monkeytree_command fmt::fmt)

  # Tests link this to start a cluster.
  monkeytree_library(slurm_cluster
    SOURCES ${slurm_folder}/slurm_cluster.cc ${slurm_folder}/slurm_files.cc
    USES monkeytree_command fmt::fmt GTest::gtest)
  target_include_directories(monkeytree_slurm_cluster PUBLIC ${slurm_folder})
  target_compile_definitions(monkeytree_slurm_cluster PRIVATE
    MONKEYTREE_SLURM_CLUSTER="$<TARGET_FILE:slurm_test_cluster>")
  add_dependencies(monkeytree_slurm_cluster slurm_test_cluster)

  foreach(flavour Companion Merge MergeExclusive)
    string(REGEX REPLACE "(.)([A-Z])" "\\1_\\2" name ${flavour})
    string(TOLOWER ${name} name)
    monkeytree_test(slurm_${name}_test SOURCES ${slurm_folder}/slurm_scheduler_test.cc
      USES monkeytree_scheduler monkeytree_slurm_cluster)
    target_compile_definitions(slurm_${name}_test PRIVATE MONKEYTREE_SLURM_FLAVOUR=k${flavour})
    set_tests_properties(slurm_${name}_test PROPERTIES LABELS slurm RESOURCE_LOCK slurm)
  endforeach()
  monkeytree_test(slurm_cluster_test SOURCES ${slurm_folder}/slurm_cluster_test.cc
    USES monkeytree_slurm_cluster)
  monkeytree_test(slurm_refusals_test SOURCES ${slurm_folder}/slurm_refusals_test.cc
    USES monkeytree_scheduler monkeytree_slurm_cluster)
endif()
