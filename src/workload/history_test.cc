#include "workload/history.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "base/file.h"
#include "workload/public_traces.h"
#include "workload/sacct.h"
#include "workload/swf.h"

namespace monkeytree {
namespace {

/// Every iteration takes a second, so that iterations are seconds of run time.
ImportOptions options() {
  ImportOptions out;
  out.iteration_us = [](const Model&, int) { return int64_t{1'000'000}; };
  return out;
}

std::string sample(const std::string& name) {
  const auto text = read_file(std::string(MONKEYTREE_SOURCE_DIR) + "/tests/data/traces/" + name);
  EXPECT_TRUE(text.ok()) << text.status();
  return text.value_or("");
}

/// "submit GPUs iterations", times in seconds, a job a line; checks that each model fits.
std::string jobs_of(const Trace& trace) {
  std::string out;
  for (const TraceJob& job : trace) {
    const Model* model = Catalogue::standard().find(job.model);
    EXPECT_NE(model, nullptr);
    EXPECT_EQ(misfit(*model, job.gpus), "");
    out += std::to_string(job.submit_us / 1'000'000) + " " + std::to_string(job.gpus) + " " +
           std::to_string(job.iterations) + "\n";
  }
  return out;
}

TEST(Swf, ReadsTheSample) {
  Diagnostics diagnostics;
  const auto got = import_swf(sample("small.swf"), "s", options(), diagnostics);
  ASSERT_TRUE(got) << diagnostics.text();
  EXPECT_EQ(jobs_of(got->trace), "0 16 600\n3 16 30\n5 32 90\n7 24 120\n15 16 60\n");
  EXPECT_EQ(got->counts.text(),
            "13 rows, 5 jobs\n"
            "skipped 1: a partial run, whose job has a line of its own (first at line 11)\n"
            "skipped 1: a time that is no number (first at line 17)\n"
            "skipped 1: larger than the cluster of 1024 GPUs (first at line 14)\n"
            "skipped 1: no GPUs (first at line 15)\n"
            "skipped 1: not the 18 fields of the format (first at line 16)\n"
            "skipped 1: ran for an unknown time (first at line 9)\n"
            "skipped 1: ran for no time (first at line 10)\n"
            "skipped 1: smaller than a node of 8 GPUs (first at line 13)\n"
            "mended 1: allocated processors unknown: the requested ones taken (first at line 8)\n"
            "mended 1: rounded up to whole nodes (first at line 12)\n");
  EXPECT_EQ(got->counts.skipped_count() + got->counts.jobs, got->counts.rows);
}

TEST(Swf, RefusesOtherText) {
  Diagnostics diagnostics;
  EXPECT_FALSE(import_swf("; only\nnot a log\n", "x.swf", options(), diagnostics));
  EXPECT_EQ(diagnostics.text(),
            "x.swf: no line of the Standard Workload Format, expected 18 numbers a line\n");
}

TEST(Sacct, ReadsTheSample) {
  Diagnostics diagnostics;
  ImportCounts counts;
  const auto log = read_sacct(sample("sacct.txt"), "s", counts, diagnostics);
  ASSERT_TRUE(log) << diagnostics.text();
  ASSERT_EQ(log->jobs.size(), 8u);
  const auto names = [&](const SacctJob& job) {
    std::string out;
    for (int32_t node : job.nodes) out += log->node_names[static_cast<size_t>(node)] + " ";
    return out;
  };
  EXPECT_EQ(log->jobs[0].id, "4711");
  EXPECT_EQ(log->jobs[0].gpus, 16);
  EXPECT_EQ(names(log->jobs[0]), "n01 n02 ");
  EXPECT_EQ(log->jobs[1].id, "4712_3");
  EXPECT_EQ(log->jobs[1].gpus, 32);  // of two types
  EXPECT_EQ(log->jobs[2].name, "big \"quoted\"");
  EXPECT_EQ(log->jobs[2].state, "CANCELLED");
  EXPECT_EQ(names(log->jobs[2]), "n07 n9 n10 ");
  EXPECT_EQ(log->jobs[3].state, "RUNNING");
  EXPECT_FALSE(log->jobs[3].end_us);
  EXPECT_EQ(log->jobs[3].run_us, int64_t{3} * 86'400 * 1'000'000);
  EXPECT_EQ(log->jobs[5].id, "4716+1");
  EXPECT_EQ(log->jobs[5].gpus, 0);
  EXPECT_EQ(names(log->jobs[6]), "");

  const ImportedTrace got = trace_of_sacct(*log, counts, options());
  EXPECT_EQ(jobs_of(got.trace),
            "0 32 1800\n3600 16 7200\n7200 24 90000\n7800 16 259200\n9000 16 600\n10800 16 60\n"
            "12600 16 60\n");
  EXPECT_EQ(got.counts.text(),
            "16 rows, 7 jobs\n"
            "skipped 1: a start that is no time (first at line 17)\n"
            "skipped 3: a step of a job (first at line 3)\n"
            "skipped 1: ended before it started (first at line 14)\n"
            "skipped 2: has not started (first at line 7)\n"
            "skipped 1: no GPUs (first at line 12)\n"
            "skipped 1: not as many cells as the header (first at line 13)\n"
            "mended 1: a node list that is none: its nodes unknown (first at line 15)\n"
            "mended 1: started before it was submitted: submitted when it started (first at line "
            "16)\n"
            "mended 1: still running: its time so far taken (first at line 10)\n");
}

TEST(Sacct, MakesDoWithFewColumns) {
  Diagnostics diagnostics;
  // With --parsable every row ends in a separator; times as SLURM_TIME_FORMAT=%s prints them.
  const auto got =
      import_sacct("Start|JobIDRaw|ElapsedRaw|NNodes|\n1700000100|1|90|2|\n1700000000|2|30|4|\n",
                   "s", options(), diagnostics);
  ASSERT_TRUE(got) << diagnostics.text();
  EXPECT_EQ(jobs_of(got->trace), "0 32 30\n100 16 90\n");
  EXPECT_EQ(got->counts.text(),
            "2 rows, 2 jobs\nmended 2: GPUs not told: all of its nodes taken (first at line 2)\n");
}

TEST(Sacct, RefusesOtherTextAndNamesWhatItLacks) {
  const std::string expected =
      "expected what `sacct --parsable2` prints: a header and rows parted by `|`, with JobID, "
      "Start, and End or Elapsed\n";
  const auto refusal = [](const char* text) {
    Diagnostics diagnostics;
    EXPECT_FALSE(import_sacct(text, "x", options(), diagnostics));
    return diagnostics.text();
  };
  EXPECT_EQ(refusal(""), "x: " + expected);
  EXPECT_EQ(refusal("JobID  Start  End\n1  2  3\n"), "x:1: " + expected);
  EXPECT_EQ(refusal("JobID|State\n1|RUNNING\n"),
            "x:1: no column Start, no End (nor Elapsed); " + expected);
  EXPECT_EQ(refusal("User|Start|End\n"), "x:1: no column JobID; " + expected);
}

TEST(Sacct, CountsGpusOfAResourceList) {
  EXPECT_EQ(gpus_in_tres("cpu=64,gres/gpu=8,gres/gpu:h100=8,mem=1T"), 8);
  EXPECT_EQ(gpus_in_tres("gres/gpu:a100=4,gres/gpu:h100=2"), 6);
  EXPECT_EQ(gpus_in_tres("cpu=64,gres/gpumem=8"), 0);
  EXPECT_EQ(gpus_in_tres("gres/gpu:h100,,="), 0);
  EXPECT_EQ(gpus_in_tres(""), 0);
  for (const char* absurd : {"gres/gpu=x", "gres/gpu=", "gres/gpu=-8", "gres/gpu=8.5",
                             "gres/gpu:h100=8,gres/gpu:a100=200000000"}) {
    EXPECT_FALSE(gpus_in_tres(absurd)) << absurd;
  }
}

/// The counts of a log of `JobID|Start|End|AllocTRES|NodeList`.
std::string counts_of(const std::string& rows) {
  Diagnostics diagnostics;
  const auto got =
      import_sacct("JobID|Start|End|AllocTRES|NodeList\n" + rows, "s", options(), diagnostics);
  EXPECT_TRUE(got) << diagnostics.text();
  return got ? got->counts.text() : "";
}

TEST(Sacct, ARowThatStandsThereTwiceCountsOnce) {
  const std::string ended = "1|2024-03-01T10:00:00|2024-03-01T11:00:00|gres/gpu=16|n[1-2]\n";
  const std::string running = "1|2024-03-01T10:00:00|Unknown|gres/gpu=16|n[1-2]\n";
  const std::string requeued = "1|2024-03-01T12:00:00|2024-03-01T13:00:00|gres/gpu=16|n[1-2]\n";
  const std::string twice = "a job that stands there twice with the same start";
  EXPECT_EQ(counts_of(ended + ended + requeued),
            "3 rows, 2 jobs\nskipped 1: " + twice + " (first at line 3)\n");
  // Of two logs put together, the one that tells the end.
  for (const std::string& rows : {running + ended, ended + running}) {
    const bool first = rows.starts_with(running);
    EXPECT_EQ(counts_of(rows), "2 rows, 1 job\nskipped 1: " + twice + " (first at line " +
                                   (first ? "2" : "3") + ")\n");
  }
  EXPECT_EQ(counts_of(ended + "JobID|Start|End|AllocTRES|NodeList\n"),
            "2 rows, 1 job\nskipped 1: the header again (first at line 3)\n");
}

TEST(Sacct, AbsurdGpusAndNodeListsAreCountedAsWhatTheyAre) {
  const std::string times = "|2024-03-01T10:00:00|2024-03-01T11:00:00|";
  EXPECT_EQ(counts_of("1" + times + "gres/gpu=999999999999|n[1-2]\n" +  //
                      "2" + times + "gres/gpu=16|n[1-2],n2,n1\n" +      //
                      "3" + times + "gres/gpu=16|n[1-\n"),
            "3 rows, 2 jobs\n"
            "skipped 1: a number of GPUs that is none (first at line 2)\n"
            "mended 1: a node list that is none: its nodes unknown (first at line 4)\n"
            "mended 1: a node named twice in its list: once taken (first at line 3)\n");
}

ImportedTrace import_sample(PublicTrace kind, const std::string& name) {
  Diagnostics diagnostics;
  auto got = import_public(kind, sample(name), name, options(), diagnostics);
  EXPECT_TRUE(got) << diagnostics.text();
  return got ? *std::move(got) : ImportedTrace{};
}

TEST(PublicTraces, Acme) {
  const ImportedTrace seren = import_sample(PublicTrace::kAcme, "acme.csv");
  EXPECT_EQ(jobs_of(seren.trace), "0 16 120\n336 8 300\n1838 32 600\n");
  EXPECT_EQ(seren.counts.text(),
            "6 rows, 3 jobs\n"
            "skipped 1: did not start (first at line 6)\n"
            "skipped 1: no GPUs (first at line 3)\n"
            "skipped 1: smaller than a node of 8 GPUs (first at line 5)\n"
            "mended 1: started before it was submitted: submitted when it started (first at line "
            "7)\n");
  // There the column `duration` counts the time in the queue.
  const ImportedTrace kalos = import_sample(PublicTrace::kAcme, "acme_kalos.csv");
  EXPECT_EQ(jobs_of(kalos.trace), "0 64 8\n1664 64 70\n");
}

TEST(PublicTraces, Helios) {
  const ImportedTrace got = import_sample(PublicTrace::kHelios, "helios.csv");
  EXPECT_EQ(jobs_of(got.trace), "0 16 180\n513 24 120\n");
  EXPECT_EQ(got.counts.text(),
            "8 rows, 2 jobs\n"
            "skipped 1: a number of GPUs that is none (first at line 7)\n"
            "skipped 1: a time that is none (first at line 8)\n"
            "skipped 1: has no end (first at line 6)\n"
            "skipped 1: not as many cells as the header (first at line 9)\n"
            "skipped 1: ran for no time (first at line 5)\n"
            "skipped 1: smaller than a node of 8 GPUs (first at line 2)\n"
            "mended 1: rounded up to whole nodes (first at line 4)\n");
}

TEST(PublicTraces, Philly) {
  const ImportedTrace got = import_sample(PublicTrace::kPhilly, "philly.json");
  EXPECT_EQ(jobs_of(got.trace), "0 16 360\n6381 8 60\n");
  EXPECT_EQ(got.counts.text(),
            "6 rows, 2 jobs\n"
            "skipped 1: did not start\n"
            "skipped 1: no attempt recorded\n"
            "skipped 1: no servers recorded, or no GPUs\n"
            "skipped 1: still running when the log was taken\n"
            "mended 1: started before it was submitted: submitted when it started\n");
}

TEST(PublicTraces, Alibaba) {
  const ImportedTrace got = import_sample(PublicTrace::kAlibaba, "alibaba.csv");
  EXPECT_EQ(jobs_of(got.trace), "0 24 570\n200 16 30\n");
  EXPECT_EQ(got.counts.text(),
            "9 rows, 2 jobs\n"
            "skipped 1: a task with numbers that are none (first at line 8)\n"
            "skipped 1: a task without a start or an end (first at line 4)\n"
            "skipped 1: no GPUs (first at line 5)\n"
            "skipped 1: not the 10 columns of pai_task_table (first at line 9)\n"
            "skipped 1: smaller than a node of 8 GPUs (first at line 3)\n"
            "mended 1: rounded up to whole nodes (first at line 1)\n");
  Diagnostics diagnostics;
  const auto again = import_public(PublicTrace::kAlibaba,
                                   "job_name,task_name,inst_num,status,start_time,end_time,plan_"
                                   "cpu,plan_mem,plan_gpu,gpu_type\n" +
                                       sample("alibaba.csv"),
                                   "a", options(), diagnostics);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->trace, got.trace);
}

TEST(PublicTraces, RefuseOtherLayouts) {
  const auto faults = [](PublicTrace kind, std::string_view text) {
    Diagnostics diagnostics;
    EXPECT_FALSE(import_public(kind, text, "x", options(), diagnostics));
    return diagnostics.text();
  };
  EXPECT_EQ(faults(PublicTrace::kAcme, "job_id,gpus\n"),
            "x:1: no column gpu_num, submit_time, start_time, end_time, expected gpu_num, "
            "submit_time, start_time and end_time among others\n");
  EXPECT_EQ(faults(PublicTrace::kHelios, ""), "x: empty, expected a table with a header\n");
  EXPECT_EQ(faults(PublicTrace::kPhilly, "[{\"jobid\": \"a\", \"attempts\": 3}]"),
            "x: /0/attempts: expected an array, found 3\n");
  EXPECT_EQ(faults(PublicTrace::kPhilly, "[{\"attempts\": [], \"submitted_time\": \"10/7/2017\"}]"),
            "x: /0/submitted_time: \"10/7/2017\", expected a time such as 2017-10-07 01:12:09\n");
  EXPECT_NE(faults(PublicTrace::kPhilly, "{"), "");
  EXPECT_EQ(faults(PublicTrace::kAlibaba, ""),
            "x: no task, expected rows job_name,task_name,inst_num,status,start_time,end_time,"
            "plan_cpu,plan_mem,plan_gpu,gpu_type\n");
}

TEST(History, ModelsAreDrawnByWeightAndSeed) {
  std::vector<PastJob> jobs(4000, PastJob{0, 0, 50'000'000, 32, 1});
  ImportOptions with = options();
  const auto draw = [&] {
    ImportCounts counts;
    return trace_of(jobs, with, counts);
  };
  const Trace first = draw();
  EXPECT_EQ(draw(), first);
  with.seed = 2;
  EXPECT_NE(draw(), first);
  const auto share = [&](std::string_view name) {
    return static_cast<double>(
               std::count_if(first.begin(), first.end(),
                             [&](const TraceJob& job) { return job.model == name; })) /
           4000;
  };
  EXPECT_NEAR(share("llama3_70b_tp_dp"), 100 / 325.0, 0.03);
  EXPECT_NEAR(share("gpt_7b_dp"), 25 / 325.0, 0.02);
  EXPECT_EQ(share("gpt_oss_20b_dp_moe"), 0);  // of 16 GPUs only
  EXPECT_EQ(share("ep_gpt_120b_32"), 0);      // no weight
}

TEST(History, UnlistedSizesGetAModelThatCanRun) {
  std::vector<PastJob> jobs(500, PastJob{0, 0, 400'000, 512, 1});
  ImportCounts counts;
  for (const TraceJob& job : trace_of(jobs, options(), counts)) {
    ASSERT_EQ(job.model.find("moe"), std::string::npos);
    ASSERT_EQ(job.iterations, 1);  // 0.4 of one
  }
  ImportOptions none = options();
  const Catalogue empty;
  none.catalogue = &empty;
  ImportCounts skipped;
  EXPECT_TRUE(trace_of(jobs, none, skipped).empty());
  EXPECT_EQ(skipped.text(),
            "0 rows, 0 jobs\nskipped 500: no model of the catalogue fits 512 GPUs (first at line "
            "1)\n");
}

TEST(Times, OfManyClocks) {
  EXPECT_EQ(time_us("1970-01-02T00:00:01"), 86'401'000'000);
  EXPECT_EQ(time_us("2023-03-01 00:18:22+08:00"), time_us("2023-02-28T16:18:22Z"));
  EXPECT_EQ(time_us("2023-03-01 00:18:22-0530"), time_us("2023-03-01 05:48:22"));
  EXPECT_EQ(time_us("2024-02-29 12:30"), time_us("2024-02-29 12:30:00.000"));
  EXPECT_EQ(*time_us("2024-02-29 12:30:00.25"), *time_us("2024-02-29 12:30") + 250'000);
  for (const char* text :
       {"", "2023-02-29 00:00:00", "2023-13-01 00:00", "2023-01-01", "2023-01-01 24:00",
        "2023-01-01 00:00:00 PDT", "1969-01-01 00:00", "2023-01-01 00:60", "2023-01-01 00:00:00.",
        "2023-01-01 00:00+99", "2023-1", "x", "2023-01-01T00:00:00+"}) {
    EXPECT_EQ(time_us(text), std::nullopt) << text;
  }
  EXPECT_EQ(duration_us("1-02:03:04"), ((24 + 2) * 3600 + 3 * 60 + 4) * int64_t{1'000'000});
  EXPECT_EQ(duration_us("05:06.5"), 306'500'000);
  for (const char* text : {"", "5", "1-", "1:2:3:4", "00:61:00", "-1:00", "1-1-00:00:00"}) {
    EXPECT_EQ(duration_us(text), std::nullopt) << text;
  }
  EXPECT_EQ(seconds_us("4550879.0"), 4'550'879'000'000);
  EXPECT_EQ(seconds_us("-1"), -1'000'000);
  for (const char* text : {"", "nan", "inf", "1e99", "1x"}) {
    EXPECT_EQ(seconds_us(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace monkeytree
