#include "workload/trace.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <map>

#include "base/file.h"
#include "base/random.h"
#include "workload/generate.h"
#include "workload/idle.h"
#include "workload/table.h"

namespace monkeytree {
namespace {

constexpr std::string_view kHeader = "submit_us,model,gpus,iterations\n";

std::string faults(const std::string& rows, int64_t max_gpus = 1024) {
  Diagnostics diagnostics;
  const auto trace = parse_trace(rows, "t.csv", Catalogue::standard(), max_gpus, diagnostics);
  EXPECT_EQ(trace.has_value(), !diagnostics.has_errors());
  return diagnostics.text();
}

std::string row_faults(const std::string& rows, int64_t max_gpus = 1024) {
  return faults(std::string(kHeader) + rows, max_gpus);
}

int64_t iteration_us(const Model& model, int gpus) {
  return idle_iteration_us(rank_steps(model, gpus, PipelineSchedule::kGpipe), 50'000, 8, false);
}

TEST(Trace, ReadsWhatItWrites) {
  const Trace trace = {{0, "gpt_7b_dp", 16, 100}, {5, "llama2_70b_tp_dp_pp_4", 64, 1}};
  const std::string text = trace_csv(trace);
  EXPECT_EQ(text,
            "submit_us,model,gpus,iterations\n0,gpt_7b_dp,16,100\n5,llama2_70b_tp_dp_pp_4,64,1\n");
  Diagnostics diagnostics;
  EXPECT_EQ(parse_trace(text, "t", Catalogue::standard(), 64, diagnostics), trace);
  const std::string other =
      "\xef\xbb\xbfmodel,iterations,submit_us,gpus\r\n"
      "\"gpt_7b_dp\",1e2,0, 16\r\n\r\nllama2_70b_tp_dp_pp_4,1,5,64";
  EXPECT_EQ(parse_trace(other, "t", Catalogue::standard(), 64, diagnostics), trace)
      << diagnostics.text();
  EXPECT_EQ(parse_trace(kHeader, "t", Catalogue::standard(), 64, diagnostics), Trace{});
}

TEST(Trace, FaultsNameTheLine) {
  EXPECT_EQ(row_faults("0,gpt_7b_dp,16,5\n0,gpt_8b_dp,16,5\n"),
            "t.csv:3: unknown model \"gpt_8b_dp\", expected one of the catalogue\n");
  EXPECT_EQ(row_faults("0,gpt_7b,16,5\n"),
            "t.csv:2: unknown model \"gpt_7b\", expected one of the catalogue, such as "
            "gpt_7b_dp\n");
  EXPECT_EQ(row_faults("0,gpt_7b_dp,16,0\n"),
            "t.csv:2: iterations is \"0\", expected a whole number from 1 to 1000000000\n");
  EXPECT_EQ(row_faults("0,gpt_7b_dp,-16,1\n"),
            "t.csv:2: gpus is \"-16\", expected a whole number from 1 to 1048576\n");
  EXPECT_EQ(row_faults("0,gpt_7b_dp,1e17,1\n"),
            "t.csv:2: gpus is \"1e17\", expected a whole number from 1 to 1048576\n");
  EXPECT_EQ(row_faults("0,gpt_7b_dp,128,1\n", 64),
            "t.csv:2: the job needs 128 GPUs, the cluster has 64\n");
  EXPECT_EQ(row_faults("0,llama2_70b_tp_dp_pp_2,24,1\n"),
            "t.csv:2: llama2_70b_tp_dp_pp_2 cannot run on 24 GPUs: needs a multiple of 16 GPUs\n");
  EXPECT_EQ(row_faults("9,gpt_7b_dp,16,1\n8,gpt_7b_dp,16,1\n9,gpt_7b_dp,16,1\n"),
            "t.csv:3: submitted at 8 µs, before the job of line 2 at 9 µs; expected the jobs in "
            "the order of their submission\n");
  EXPECT_EQ(row_faults("0,gpt_7b_dp,16\n"), "t.csv:2: 3 cells, expected 4 as in the header\n");
  EXPECT_EQ(row_faults("0,llama3_70b_fsdp,16,1e9\n"),
            "t.csv:2: 1000000000 iterations of llama3_70b_fsdp take more than 31 years\n");
  EXPECT_EQ(row_faults("0,\"gpt_7b_dp,16,5\n"), "t.csv:2: a quote that is not closed\n");
  EXPECT_EQ(faults(""), "t.csv: empty, expected the header submit_us,model,gpus,iterations\n");
  EXPECT_EQ(faults("submit,model,gpus\n"),
            "t.csv:1: no column submit_us, iterations, expected the header "
            "submit_us,model,gpus,iterations\n");
}

TEST(Trace, ReadsTheReferenceTraces) {
  for (const auto& [file, jobs] : {std::pair{"trace_a.csv", 600}, {"trace_b.csv", 40}}) {
    const std::string path = std::string(MONKEYTREE_SOURCE_DIR) + "/tests/data/traces/" + file;
    const auto text = read_file(path);
    ASSERT_TRUE(text.ok()) << text.status();
    Diagnostics diagnostics;
    const auto trace = parse_trace(*text, file, Catalogue::standard(), 1024, diagnostics);
    ASSERT_TRUE(trace) << diagnostics.text();
    EXPECT_EQ(trace->size(), static_cast<size_t>(jobs));
    EXPECT_EQ(trace_csv(*trace), *text);
  }
}

TEST(Table, FollowsTheRulesOfQuotes) {
  const auto rows = [](std::string_view text, char separator) {
    TableReader table(text, separator);
    std::vector<std::vector<std::string>> out;
    while (table.next()) out.push_back(table.cells());
    if (!table.fault().empty()) {
      out.push_back({"line " + std::to_string(table.line()), table.fault()});
    }
    return out;
  };
  using Rows = std::vector<std::vector<std::string>>;
  EXPECT_EQ(rows("a,b\r\n\"x\"\"y\",\"1,\n2\"\n", ','), (Rows{{"a", "b"}, {"x\"y", "1,\n2"}}));
  EXPECT_EQ(rows("a||\"b\n\n \nc", '|'), (Rows{{"a", "", "\"b"}, {"c"}}));
  EXPECT_EQ(rows("a,\n,b\n\"\"", ','), (Rows{{"a", ""}, {"", "b"}}));
  EXPECT_EQ(rows("a\r", ','), (Rows{{"a"}}));
  EXPECT_EQ(rows("\n\n\"a\nb\"c\n", ','),
            (Rows{{"line 3", "text after a closing quote, expected a comma or the line's end"}}));
  EXPECT_EQ(rows(std::string_view("a\n\0b", 4), ','),
            (Rows{{"a"}, {"line 2", "NUL byte, expected text"}}));
  EXPECT_EQ(rows("", ','), Rows{});
}

TEST(Generate, TheSameSeedGivesTheSameTrace) {
  GenerateOptions options;
  options.jobs = 200;
  const Trace first = generate_trace(Catalogue::standard(), options, iteration_us);
  EXPECT_EQ(generate_trace(Catalogue::standard(), options, iteration_us), first);
  options.seed = 2;
  EXPECT_NE(generate_trace(Catalogue::standard(), options, iteration_us), first);
  // The same on every machine: these were drawn once.
  EXPECT_EQ(first[0].submit_us, 0);
  EXPECT_EQ(trace_csv(Trace(first.begin(), first.begin() + 4)),
            "submit_us,model,gpus,iterations\n0,llama2_70b_tp_dp,32,372\n"
            "65833155,llama3_70b_tp_dp,16,648\n84421483,llama3_70b_tp_dp,16,831\n"
            "86734515,gpt_13b_dp,32,516\n");
}

TEST(Generate, OffersTheLoadThatWasAskedFor) {
  GenerateOptions options;
  options.load = 0.8;
  options.jobs = 40'000;
  const Trace trace = generate_trace(Catalogue::standard(), options, iteration_us);
  std::map<std::pair<std::string, int>, int64_t> times;
  double work = 0;
  std::map<std::string, int> drawn;
  std::map<int, int> sizes;
  double iterations = 0;
  for (const TraceJob& job : trace) {
    int64_t& us = times[{job.model, job.gpus}];
    if (us == 0) us = iteration_us(*Catalogue::standard().find(job.model), job.gpus);
    work += static_cast<double>(us * job.gpus * job.iterations);
    ++drawn[job.model];
    if (job.model == "gpt_7b_dp") ++sizes[job.gpus];
    iterations += static_cast<double>(job.iterations);
    ASSERT_GE(job.iterations, 100);
    ASSERT_LE(job.iterations, 1000);
  }
  EXPECT_NEAR(work / 1024 / static_cast<double>(trace.back().submit_us), 0.8, 0.016);
  EXPECT_NEAR(drawn["llama3_70b_tp_dp"] / 40'000.0, 100 / 352.0, 0.01);
  EXPECT_NEAR(drawn["gpt_7b_dp"] / 40'000.0, 25 / 352.0, 0.006);
  EXPECT_EQ(drawn.count("ep_gpt_120b_32"), 0u);
  for (int gpus : {16, 24, 32}) EXPECT_NEAR(sizes[gpus] * 3.0 / drawn["gpt_7b_dp"], 1, 0.12);
  EXPECT_NEAR(iterations / 40'000, 550, 5);
}

TEST(Generate, SizesAboveTheClusterAreNotDrawn) {
  GenerateOptions options;
  options.jobs = 500;
  options.cluster_gpus = 24;
  for (const TraceJob& job : generate_trace(Catalogue::standard(), options, iteration_us)) {
    ASSERT_LE(job.gpus, 24);
    ASSERT_NE(job.model, "llama2_70b_tp_dp_pp_4");
  }
  options.cluster_gpus = 8;
  EXPECT_EQ(generate_fault(Catalogue::standard(), options),
            "no model with a weight fits a cluster of 8 GPUs");
}

TEST(Generate, DrawsFromTheMixThatIsNamed) {
  GenerateOptions options;
  options.jobs = 300;
  options.mix = {{"ep_gpt_120b_32", 1}, {"gpt_7b_dp", 2}};
  int named = 0;
  for (const TraceJob& job : generate_trace(Catalogue::standard(), options, iteration_us)) {
    named += job.model == "ep_gpt_120b_32" ? 1 : 0;
  }
  EXPECT_NEAR(named, 100, 30);
  options.mix = {{"gpt_8b", 1}};
  EXPECT_EQ(generate_fault(Catalogue::standard(), options),
            "mix: unknown model \"gpt_8b\", expected one of the catalogue");
}

TEST(Generate, SaysWhatItCannotDrawFrom) {
  const auto fault = [](auto change) {
    GenerateOptions options;
    change(options);
    return generate_fault(Catalogue::standard(), options);
  };
  EXPECT_EQ(fault([](GenerateOptions&) {}), "");
  EXPECT_EQ(fault([](GenerateOptions& o) { o.load = 0; }),
            "load is 0, expected more than 0 (1 is all of the cluster's GPU time)");
  EXPECT_NE(fault([](GenerateOptions& o) { o.load = std::nan(""); }), "");
  EXPECT_NE(fault([](GenerateOptions& o) { o.min_iterations = 0; }), "");
  EXPECT_NE(fault([](GenerateOptions& o) { o.max_iterations = 50; }), "");
  EXPECT_NE(fault([](GenerateOptions& o) { o.jobs = -1; }), "");
}

TEST(RandomSequence, IsEvenAndExponential) {
  RandomSequence random(3);
  std::array<int, 7> counts{};
  for (int i = 0; i < 70'000; ++i) ++counts[random.below(7)];
  for (int count : counts) EXPECT_NEAR(count, 10'000, 400);
  double sum = 0, squares = 0;
  int beyond_two = 0;
  constexpr int kDraws = 200'000;
  for (int i = 0; i < kDraws; ++i) {
    const double x = random.exponential();
    sum += x;
    squares += x * x;
    beyond_two += x > 2 ? 1 : 0;
  }
  EXPECT_NEAR(sum / kDraws, 1, 0.01);
  EXPECT_NEAR(squares / kDraws, 2, 0.05);
  EXPECT_NEAR(beyond_two / double{kDraws}, std::exp(-2.0), 0.003);
}

}  // namespace
}  // namespace monkeytree
