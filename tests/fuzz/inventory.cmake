# What an operator's files may hold: anything.
foreach(name hostlist topology squeue)
  monkeytree_fuzzer(${name}_fuzz SOURCES ${CMAKE_CURRENT_LIST_DIR}/${name}_fuzz.cc
    USES monkeytree_inventory)
endforeach()
