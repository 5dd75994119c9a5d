# One folder of src/ is one library; a file's test stands beside it.

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
endif()

add_library(monkeytree_flags INTERFACE)
target_compile_options(monkeytree_flags INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion
                                                  -Wno-sign-conversion
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)  # false reports on std::string in GCC 12
target_include_directories(monkeytree_flags INTERFACE ${PROJECT_SOURCE_DIR}/src)
if(MONKEYTREE_SANITIZE)
  target_compile_options(monkeytree_flags INTERFACE -fsanitize=${MONKEYTREE_SANITIZE}
                                                    -fno-omit-frame-pointer)
  target_link_options(monkeytree_flags INTERFACE -fsanitize=${MONKEYTREE_SANITIZE})
  if(MONKEYTREE_SANITIZE MATCHES "undefined")
    target_compile_options(monkeytree_flags INTERFACE -fno-sanitize-recover=undefined)
  endif()
endif()
if(MONKEYTREE_FUZZ)
  target_compile_options(monkeytree_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()

# monkeytree_library(NAME SOURCES a.cc b.cc USES other_library third::party)
function(monkeytree_library name)
  cmake_parse_arguments(arg "" "" "SOURCES;USES" ${ARGN})
  add_library(monkeytree_${name} STATIC ${arg_SOURCES})
  target_link_libraries(monkeytree_${name} PUBLIC monkeytree_flags ${arg_USES})
endfunction()

# monkeytree_test(NAME SOURCES a_test.cc USES monkeytree_base [TIMEOUT seconds] [SHARDS n])
# One test program; ctest runs it as one test, or as n that share its cases. Tests find the source tree in MONKEYTREE_SOURCE_DIR
# and the program in MONKEYTREE_PROGRAM.
function(monkeytree_test name)
  if(NOT MONKEYTREE_TESTS)
    return()
  endif()
  cmake_parse_arguments(arg "" "TIMEOUT;SHARDS" "SOURCES;USES" ${ARGN})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 600)
  endif()
  if(NOT arg_SHARDS)
    set(arg_SHARDS 1)
  endif()
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE ${arg_USES} GTest::gtest GTest::gmock GTest::gtest_main)
  target_compile_definitions(${name} PRIVATE MONKEYTREE_SOURCE_DIR="${PROJECT_SOURCE_DIR}"
                                             MONKEYTREE_PROGRAM="${CMAKE_BINARY_DIR}/monkeytree")
  if(arg_SHARDS EQUAL 1)
    add_test(NAME ${name} COMMAND ${name})
    set_tests_properties(${name} PROPERTIES TIMEOUT ${arg_TIMEOUT})
    return()
  endif()
  foreach(shard RANGE 1 ${arg_SHARDS})
    math(EXPR index "${shard} - 1")
    add_test(NAME ${name}_${shard} COMMAND ${name})
    set_tests_properties(${name}_${shard} PROPERTIES TIMEOUT ${arg_TIMEOUT}
      ENVIRONMENT "GTEST_TOTAL_SHARDS=${arg_SHARDS};GTEST_SHARD_INDEX=${index}")
  endforeach()
endfunction()

# monkeytree_bench(NAME SOURCES x_bench.cc USES ...): a Google Benchmark program.
function(monkeytree_bench name)
  if(NOT MONKEYTREE_BENCH)
    return()
  endif()
  cmake_parse_arguments(arg "" "" "SOURCES;USES" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE ${arg_USES} benchmark::benchmark)
endfunction()

# monkeytree_fuzzer(NAME SOURCES x_fuzz.cc USES ...): libFuzzer, corpus in tests/fuzz/corpus/NAME.
function(monkeytree_fuzzer name)
  if(NOT MONKEYTREE_FUZZ)
    return()
  endif()
  cmake_parse_arguments(arg "" "" "SOURCES;USES" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE ${arg_USES})
  target_link_options(${name} PRIVATE -fsanitize=fuzzer)
endfunction()
