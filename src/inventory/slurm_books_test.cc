#include "inventory/slurm_books.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "inventory/slurm_commands.h"

namespace monkeytree {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

constexpr std::string_view kTrain = "PartitionName=train AllowGroups=ALL OverSubscribe=NO\n";
constexpr std::string_view kExclusive = "PartitionName=train OverSubscribe=EXCLUSIVE\n";

/// A cluster on which companions work; a test changes what it is about.
SlurmConfig config(std::map<std::string, std::string> changes = {},
                   std::string_view partitions = kTrain) {
  SlurmConfig out = read_slurm_config(
      "Configuration data as of 2026-01-01T00:00:00\n"
      "AccountingStorageType   = accounting_storage/slurmdbd\n"
      "GresTypes               = gpu\n"
      "SelectType              = select/cons_tres\n"
      "SchedulerParameters     = bf_interval=2\n"
      "MailDomain              = (null)\n"
      "SLURM_VERSION           = 22.05.8\n"
      "\n"
      "Slurmctld(primary) at vm is UP\n",
      partitions);
  for (const auto& [key, value] : changes) out.values[key] = value;
  return out;
}

std::string choice(const SlurmConfig& config, std::string_view wanted = "auto") {
  const BooksChoice made = choose_books(config, wanted);
  EXPECT_EQ(made.why_not.empty(), made.books != SlurmBooks::kNone);
  return made.why_not.empty() ? std::string(name_of(made.books)) : made.why_not;
}

TEST(SlurmConfigTest, reads_what_scontrol_prints) {
  const SlurmConfig read = config();
  EXPECT_EQ(read.value("SLURM_VERSION"), "22.05.8");
  EXPECT_EQ(read.value("MailDomain"), "");
  EXPECT_EQ(read.value("SchedulerParameters"), "bf_interval=2");
  EXPECT_EQ(read.value("NoSuchKey"), "");
  EXPECT_THAT(read.oversubscribe, ElementsAre(Pair("train", "NO")));
}

TEST(SlurmConfigTest, one_liners) {
  const auto records = read_one_liners("A=1 B=two words C= D=x=y\n\nA=2\nno equals\n");
  ASSERT_EQ(records.size(), 2u);
  EXPECT_THAT(records[0],
              ElementsAre(Pair("A", "1"), Pair("B", "two words"), Pair("C", ""), Pair("D", "x=y")));
  EXPECT_THAT(records[1], ElementsAre(Pair("A", "2")));
  EXPECT_THAT(read_one_liners("No reservations in the system"), IsEmpty());
}

TEST(SlurmBooksTest, what_works) {
  EXPECT_EQ(choice(config()), "companions");
  EXPECT_EQ(choice(config(), "companions"), "companions");
  EXPECT_EQ(choice(config({{"SelectType", "select/linear"},
                           {"GresTypes", ""},
                           {"SchedulerParameters", "x,permit_job_expansion,y"}})),
            "merge");
  EXPECT_EQ(choice(config({{"GresTypes", ""}, {"SchedulerParameters", "permit_job_expansion"}},
                          kExclusive)),
            "merge");
}

TEST(SlurmBooksTest, what_damages_the_books_is_refused) {
  const std::string expansion = "permit_job_expansion";
  EXPECT_THAT(choice(config({{"AccountingStorageType", "accounting_storage/none"}})),
              HasSubstr("without slurmdbd"));
  EXPECT_THAT(choice(config({{"AccountingStorageType", ""}})), HasSubstr("not told"));
  EXPECT_THAT(choice(config({{"SelectType", "select/cons_res"}})), HasSubstr("twice"));
  EXPECT_THAT(choice(config({{"SelectType", "select/cons_res"}, {"GresTypes", ""}})),
              HasSubstr("never tried"));
  EXPECT_THAT(choice(config({{"SelectType", "select/other"}})), HasSubstr("never tried"));
  EXPECT_THAT(choice(config({{"SchedulerParameters", expansion}}, kExclusive), "merge"),
              HasSubstr("merging jobs damages"));
  EXPECT_THAT(choice(config({{"GresTypes", "mps"}, {"SchedulerParameters", expansion}})),
              HasSubstr("merging jobs damages"));
  EXPECT_THAT(choice(config({{"SelectType", "select/linear"}, {"GresTypes", ""}})),
              HasSubstr("permit_job_expansion"));
  EXPECT_THAT(choice(config({{"GresTypes", ""}, {"SchedulerParameters", expansion}})),
              HasSubstr("EXCLUSIVE"));
  EXPECT_THAT(choice(config({{"SelectType", "select/linear"}}), "companions"),
              HasSubstr("companions need"));
}

/// A job that holds these GPUs on n0, n1, …
struct LaidOut {
  SlurmJob job;
  JobLayout layout;
  explicit LaidOut(const std::vector<int>& gpus) {
    job.id = "7";
    job.partition = "train";
    for (size_t n = 0; n < gpus.size(); ++n) {
      job.nodes.push_back("n" + std::to_string(n));
      layout.members.push_back({job.nodes.back(), gpus[n]});
    }
    layout.job = &job;
  }
};

TEST(SlurmBooksTest, jobs_whose_books_could_not_follow) {
  const std::map<std::string, int> gpus = {{"n0", 8}, {"n1", 8}};
  const SlurmBooks companions = SlurmBooks::kCompanions;
  const SlurmBooks merge = SlurmBooks::kMerge;
  EXPECT_EQ(why_unmovable(LaidOut({8, 8}).layout, companions, config(), gpus), "");
  EXPECT_EQ(why_unmovable(LaidOut({8, 8}).layout, companions, config(), {}), "");
  EXPECT_THAT(why_unmovable(LaidOut({8, 4}).layout, companions, config(), gpus),
              HasSubstr("4 of 8 GPUs of n1"));
  EXPECT_THAT(why_unmovable(LaidOut({8, 0}).layout, companions, config(), gpus),
              HasSubstr("no GPUs on n1"));
  EXPECT_THAT(why_unmovable(LaidOut({8, 8}).layout, merge, config(), gpus), HasSubstr("GRES"));
  const SlurmConfig linear = config({{"SelectType", "select/linear"}});
  EXPECT_EQ(why_unmovable(LaidOut({0, 0}).layout, merge, linear, {}), "");
  EXPECT_THAT(why_unmovable(LaidOut({0, 0}).layout, merge, config(), {}), HasSubstr("EXCLUSIVE"));
  EXPECT_EQ(why_unmovable(LaidOut({0, 0}).layout, merge, config({}, kExclusive), {}), "");
  const SlurmConfig shared =
      config({{"SelectType", "select/linear"}}, "PartitionName=train OverSubscribe=FORCE:4\n");
  EXPECT_THAT(why_unmovable(LaidOut({0, 0}).layout, merge, shared, {}), HasSubstr("share nodes"));
  LaidOut part({8, 8});
  part.job.id = "7+1";
  EXPECT_THAT(why_unmovable(part.layout, companions, config(), gpus), HasSubstr("heterogeneous"));
  LaidOut staged({8});
  staged.layout.staged = true;
  EXPECT_THAT(why_unmovable(staged.layout, companions, config(), gpus), HasSubstr("staged"));
}

TEST(SlurmBooksTest, nodes_that_a_job_keeps) {
  LaidOut job({8, 8});
  EXPECT_THAT(kept_nodes(job.job, SlurmBooks::kCompanions), ElementsAre("n0"));
  EXPECT_THAT(kept_nodes(job.job, SlurmBooks::kMerge), IsEmpty());
  job.job.batch_host = "n1";
  EXPECT_THAT(kept_nodes(job.job, SlurmBooks::kCompanions), ElementsAre("n1"));
  EXPECT_THAT(kept_nodes(job.job, SlurmBooks::kMerge), ElementsAre("n1"));
}

TEST(SlurmCommandsTest, names_that_go_into_arguments) {
  for (const char* good : {"n1", "r0-n0.cluster_3", "4"})
    EXPECT_TRUE(check_name(good, "node").ok());
  for (const char* bad : {"", "-n", "a b", "a,b", "n[1-2]", "a=b", "a/b", "a\nb", "ä", "$x"}) {
    EXPECT_FALSE(check_name(bad, "node").ok()) << bad;
  }
  EXPECT_FALSE(check_name(std::string(256, 'a'), "node").ok());
  for (const char* good : {"1", "4711_3", "4711+1"}) EXPECT_TRUE(check_job_id(good).ok());
  for (const char* bad :
       {"", "-1", "1_", "_1", "1_2_3", "1+", "1 ", "x", "1_x", "1234567890123456789"}) {
    EXPECT_FALSE(check_job_id(bad).ok()) << bad;
  }
}

TEST(SlurmCommandsTest, what_a_complaint_comes_to) {
  const auto code = [](std::string_view text) { return status_of("scontrol", text).code(); };
  EXPECT_EQ(code("slurm_load_jobs error: Unable to contact slurm controller (connect failure)"),
            absl::StatusCode::kUnavailable);
  EXPECT_EQ(code("Invalid job id specified for job 7"), absl::StatusCode::kNotFound);
  EXPECT_EQ(code("Job has already finished for job 1"), absl::StatusCode::kNotFound);
  EXPECT_EQ(code("salloc: error: Unable to allocate resources: Connection timed out"),
            absl::StatusCode::kAborted);
  EXPECT_EQ(code("Job update not available right now, the DB index is being set, try again in a "
                 "bit for job 21"),
            absl::StatusCode::kUnavailable);
  EXPECT_EQ(code("Access/permission denied"), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(status_of("salloc", "a\na\n\x1b[1mb\n").message(), "salloc: a; \\x1b[1mb");
}

}  // namespace
}  // namespace monkeytree
