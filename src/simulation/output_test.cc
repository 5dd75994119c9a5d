#include "simulation/output.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/json.h"

namespace monkeytree {
namespace {

using ::testing::HasSubstr;

/// Three jobs: one that ended, one that runs, one that waits.
struct Cut {
  Scenario scenario;
  Trace trace = {{0, "a", 16, 10}, {5, "b", 32, 20}, {7, "c", 8, 30}};
  SimulationResult result;
  Cut() {
    result.jobs.resize(3);
    result.jobs[0] = {0, 0, 7'200'000'000, 3'600'000'000, 11, 2};
    result.jobs[1].submit = 5;
    result.jobs[1].start = 6;
    result.jobs[1].ideal = 100;
    result.jobs[2].submit = 7;
    result.jobs[2].ideal = 100;
    result.stopped = true;
    result.simulated = 7'200'000'000;
    result.plans = 3;
    result.moves = 2;
    result.max_fragmentation = 18;
  }
};

TEST(Output, WhatDidNotComeToPassIsEmpty) {
  const Cut cut;
  EXPECT_EQ(jobs_csv(cut.trace, cut.result),
            "job,model,gpus,iterations,submit_us,start_us,end_us,moves,pause_us,ideal_us,slowdown\n"
            "0,a,16,10,0,0,7200000000,2,11,3600000000,2.000000\n"
            "1,b,32,20,5,6,,0,0,100,\n"
            "2,c,8,30,7,,,0,0,100,\n");
}

TEST(Output, TheSummaryCountsWhatEnded) {
  const Cut cut;
  const Summary summary = summarize(cut.scenario, cut.trace, cut.result);
  EXPECT_EQ(summary.ended, 1);
  EXPECT_EQ(summary.jobs_moved, 1);
  EXPECT_DOUBLE_EQ(*summary.slowdown_avg, 2);
  EXPECT_DOUBLE_EQ(summary.gpu_hours, 32);
  EXPECT_DOUBLE_EQ(summary.gpu_hours_lost, 16);
  const std::string json = summary_json(summary);
  for (const char* field :
       {"\"jobs\": 3", "\"jobs_ended\": 1", "\"stopped\": true", "\"simulated_s\": 7200.000000",
        "\"slowdown_p99\": 2.000000", "\"plans\": 3", "\"moves\": 2", "\"max_fragmentation\": 18",
        "\"gpu_hours_lost\": 16.000000", "\"network\": \"never exercised\""}) {
    EXPECT_THAT(json, HasSubstr(field));
  }
  Diagnostics diagnostics;
  EXPECT_TRUE(JsonDocument::parse(json, "summary.json", diagnostics)) << diagnostics.text();
}

TEST(Output, ARunWithoutJobsHasNoSlowdown) {
  const Summary summary = summarize(Scenario(), {}, SimulationResult());
  EXPECT_FALSE(summary.slowdown_avg || summary.wait_avg_s);
  EXPECT_THAT(summary_json(summary), HasSubstr("\"slowdown_avg\": null"));
}

TEST(Output, AJobThatTakesNoTimeIsNotSlow) {
  Trace trace = {{0, "a", 8, 1}};
  SimulationResult result;
  result.jobs.resize(1);
  result.jobs[0].start = result.jobs[0].end = 5;
  EXPECT_DOUBLE_EQ(*summarize(Scenario(), trace, result).slowdown_avg, 1);
  EXPECT_THAT(jobs_csv(trace, result), HasSubstr(",1.000000\n"));
}

TEST(Output, EventsAreALineEach) {
  SimulationEvent event;
  event.time = 12;
  event.job = 3;
  event.nodes = {4, 5};
  EXPECT_EQ(event_line(event), "{\"time_us\":12,\"event\":\"start\",\"job\":3,\"nodes\":[4,5]}\n");
  event.kind = SimulationEvent::kMove;
  EXPECT_EQ(event_line(event),
            "{\"time_us\":12,\"event\":\"move\",\"job\":3,\"from\":4,\"to\":5}\n");
  event.nodes[1] = kStaging.value;
  EXPECT_THAT(event_line(event), HasSubstr("\"to\":\"@staging\""));
  event.nodes = {7};
  event.kind = SimulationEvent::kLeave;
  EXPECT_EQ(event_line(event), "{\"time_us\":12,\"event\":\"leave\",\"job\":3,\"node\":7}\n");
  event.kind = SimulationEvent::kArrive;
  EXPECT_EQ(event_line(event), "{\"time_us\":12,\"event\":\"arrive\",\"job\":3,\"node\":7}\n");
  event.kind = SimulationEvent::kFinish;
  EXPECT_EQ(event_line(event), "{\"time_us\":12,\"event\":\"finish\",\"job\":3}\n");
  event.kind = SimulationEvent::kPlan;
  event.job = -1;
  event.status = PlanStatus::kOptimal;
  event.moves = 2;
  event.jobs = 1;
  event.excess = 3;
  EXPECT_EQ(event_line(event),
            "{\"time_us\":12,\"event\":\"plan\",\"status\":\"optimal\",\"moves\":2,\"jobs\":1,"
            "\"excess_before\":3}\n");
  EXPECT_EQ(sample_line({9, 17, 2, 1, 30}),
            "{\"time_us\":9,\"event\":\"fragmentation\",\"max_degree\":17,\"excess\":2,"
            "\"racks_over\":1,\"busy_nodes\":30}\n");
}

TEST(Output, TheRecordOfARunIsJson) {
  RunRecord run;
  run.version = "0.1.0";
  run.cpu_s = 1.5;
  const std::string json = run_json(run);
  EXPECT_THAT(json, HasSubstr("\"cpu_s\": 1.500000"));
  EXPECT_THAT(json, HasSubstr("\"engine\": \"fast\""));
  Diagnostics diagnostics;
  EXPECT_TRUE(JsonDocument::parse(json, "run.json", diagnostics)) << diagnostics.text();
}

}  // namespace
}  // namespace monkeytree
