# A real Slurm cluster that tests start for themselves; needs the Slurm programs and root.
if(MONKEYTREE_TESTS)
  add_executable(slurm_test_cluster ${CMAKE_CURRENT_LIST_DIR}/slurm/keeper.cc
    ${CMAKE_CURRENT_LIST_DIR}/slurm/slurm_files.cc)
  target_link_libraries(slurm_test_cluster PRIVATE monkeytree_command fmt::fmt)
endif()
