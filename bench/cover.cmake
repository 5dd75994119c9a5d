# The lower bound of cold states.
monkeytree_bench(cover_bench SOURCES ${CMAKE_CURRENT_LIST_DIR}/cover_bench.cc
                 USES monkeytree_churn monkeytree_planning fmt::fmt)
