# An operator's own history replayed.
monkeytree_library(history
  SOURCES
    history_jobs.cc
    history_moment.cc
    history_page.cc
    history_replay.cc
    kept_placement.cc
    shared_uplinks.cc
  USES monkeytree_cluster monkeytree_inventory monkeytree_planning monkeytree_report
       monkeytree_routing monkeytree_workload)
monkeytree_test(history_replay_test SOURCES history_replay_test.cc
  USES monkeytree_history monkeytree_planning_testing)
