# What importing a cluster's own files costs.
monkeytree_bench(import_bench SOURCES ${CMAKE_CURRENT_LIST_DIR}/import_bench.cc
                 USES monkeytree_inventory)
