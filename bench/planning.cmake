# Clusters under churn, and what planning, analysing and repairing them costs.
add_library(monkeytree_churn STATIC ${CMAKE_CURRENT_LIST_DIR}/churn.cc
                                    ${CMAKE_CURRENT_LIST_DIR}/snapshots.cc)
target_link_libraries(monkeytree_churn PUBLIC monkeytree_cluster fmt::fmt)
target_include_directories(monkeytree_churn PUBLIC ${PROJECT_SOURCE_DIR})

# The program appears once there is a planner to measure.
get_target_property(sources monkeytree_planning SOURCES)
if("planner.cc" IN_LIST sources)
  monkeytree_bench(planning_bench SOURCES ${CMAKE_CURRENT_LIST_DIR}/planning_bench.cc
                   USES monkeytree_churn monkeytree_planning)
endif()

if(TARGET monkeytree AND EXISTS ${PROJECT_SOURCE_DIR}/src/cluster/snapshot_write.cc)
  monkeytree_bench(analyze_bench SOURCES ${CMAKE_CURRENT_LIST_DIR}/analyze_bench.cc
                   USES monkeytree_churn)
  target_compile_definitions(analyze_bench PRIVATE
                             MONKEYTREE_PROGRAM="${CMAKE_BINARY_DIR}/monkeytree")
endif()

if("planner.cc" IN_LIST sources AND TARGET monkeytree_planning_milp)
  monkeytree_bench(milp_bench SOURCES ${CMAKE_CURRENT_LIST_DIR}/milp_bench.cc
                   USES monkeytree_churn monkeytree_planning monkeytree_planning_milp)
endif()
