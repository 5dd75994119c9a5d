# `monkeytree study` as its users meet it.
monkeytree_test(study_program_test
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/study_program_test.cc ${CMAKE_CURRENT_LIST_DIR}/program.cc
  USES monkeytree_base nlohmann_json::nlohmann_json)
if(TARGET study_program_test)
  add_dependencies(study_program_test monkeytree)
endif()

# The same over a real Slurm cluster.
if(TARGET monkeytree_slurm_cluster)
  monkeytree_test(study_slurm_test
    SOURCES ${CMAKE_CURRENT_LIST_DIR}/study_slurm_test.cc ${CMAKE_CURRENT_LIST_DIR}/program.cc
    USES monkeytree_slurm_cluster)
  add_dependencies(study_slurm_test monkeytree)
endif()
