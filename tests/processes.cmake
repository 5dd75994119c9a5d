# Programs that run beside a test, and what stand-in workers write.
if(MONKEYTREE_TESTS)
  monkeytree_library(processes
    SOURCES ${CMAKE_CURRENT_LIST_DIR}/process.cc ${CMAKE_CURRENT_LIST_DIR}/worker_log.cc
    USES monkeytree_base fmt::fmt GTest::gtest Threads::Threads)
  target_include_directories(monkeytree_processes PUBLIC ${CMAKE_CURRENT_LIST_DIR})
endif()
