#include "base/command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <thread>

namespace monkeytree {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Clock = std::chrono::steady_clock;
using testing::HasSubstr;

Command command(std::vector<std::string> arguments) {
  Command out;
  out.arguments = std::move(arguments);
  out.environment = {{"PATH", "/usr/bin:/bin"}};
  return out;
}

CommandResult run(const Command& what) {
  absl::StatusOr<CommandResult> result = run_command(what, Clock::now() + seconds(60));
  EXPECT_TRUE(result.ok()) << result.status();
  return result.ok() ? *result : CommandResult{};
}

TEST(CommandTest, arguments_reach_the_program_as_they_are) {
  EXPECT_EQ(run(command({"printf", "%s|", "a b", "$HOME", "`id`", ";", ""})).out,
            "a b|$HOME|`id`|;||");
}

TEST(CommandTest, environment_folder_input_and_exit_code) {
  Command what = command({"sh", "-c", "env | sort; pwd; cat; echo bad >&2; exit 7"});
  what.environment["A"] = "b c";
  what.folder = "/";
  what.input = std::string(1 << 20, 'x');
  what.output_limit = size_t{4} << 20;
  const CommandResult result = run(what);
  EXPECT_THAT(result.out, HasSubstr("A=b c\n"));
  EXPECT_THAT(result.out, HasSubstr("\n/\n"));
  EXPECT_THAT(result.out, Not(HasSubstr("HOME=")));
  EXPECT_GT(result.out.size(), what.input.size());
  EXPECT_EQ(result.err, "bad\n");
  EXPECT_EQ(result.exit_code, 7);
}

TEST(CommandTest, a_program_that_reads_nothing_does_no_harm) {
  Command what = command({"true"});
  what.input = std::string(1 << 22, 'x');
  EXPECT_EQ(run(what).exit_code, 0);
}

TEST(CommandTest, a_signal_is_an_exit_code) {
  EXPECT_EQ(run(command({"sh", "-c", "kill -9 $$"})).exit_code, 137);
}

TEST(CommandTest, what_cannot_be_started) {
  EXPECT_EQ(run_command(command({"no-such-program"}), Clock::now() + seconds(60)).status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(run_command(command({"/etc/passwd"}), Clock::now() + seconds(60)).status().code(),
            absl::StatusCode::kInternal);
  EXPECT_FALSE(run_command(command({}), Clock::now() + seconds(60)).ok());
  EXPECT_FALSE(run_command(command({std::string("a\0b", 3)}), Clock::now() + seconds(60)).ok());
  Command what = command({"true"});
  what.folder = "/no/such/folder";
  EXPECT_FALSE(run_command(what, Clock::now() + seconds(60)).ok());
  EXPECT_EQ(start_detached(command({"no-such-program"}), "").status().code(),
            absl::StatusCode::kNotFound);
}

TEST(CommandTest, the_whole_group_ends_at_the_deadline) {
  const Command what = command({"sh", "-c", "sleep 1000 & echo $! >&2; echo $!; wait"});
  const Clock::time_point before = Clock::now();
  const std::string file = testing::TempDir() + "/command_test_group." + std::to_string(getpid());
  Command writing = what;
  writing.arguments[2] = "sleep 1000 & echo $! >" + file + "; wait";
  EXPECT_EQ(run_command(writing, before + milliseconds(500)).status().code(),
            absl::StatusCode::kDeadlineExceeded);
  EXPECT_LT(Clock::now() - before, seconds(30));
  pid_t grandchild = 0;
  std::ifstream(file) >> grandchild;
  unlink(file.c_str());
  if (grandchild == 0) GTEST_SKIP() << "the machine is too busy to see it";
  const Clock::time_point give_up = Clock::now() + seconds(60);
  const auto alive = [&] {
    std::ifstream stat("/proc/" + std::to_string(grandchild) + "/stat");
    std::string pid, name, state;
    return (stat >> pid >> name >> state) && state != "Z";
  };
  while (alive() && Clock::now() < give_up) std::this_thread::sleep_for(milliseconds(5));
  EXPECT_FALSE(alive());
}

TEST(CommandTest, too_much_output_ends_it) {
  EXPECT_EQ(run_command(command({"yes"}), Clock::now() + seconds(60)).status().code(),
            absl::StatusCode::kResourceExhausted);
}

TEST(CommandTest, grandchildren_that_live_on_are_not_waited_for) {
  const CommandResult result = run(command({"sh", "-c", "sleep 1000 & echo $!"}));
  kill(static_cast<pid_t>(std::stol(result.out)), SIGKILL);
}

TEST(CommandTest, many_at_once) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([t] {
      for (int i = 0; i < 5; ++i)
        EXPECT_EQ(run(command({"echo", std::to_string(t)})).out, std::to_string(t) + "\n");
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(CommandTest, detached_in_a_session_of_its_own) {
  const std::string file = testing::TempDir() + "/command_test_log." + std::to_string(getpid());
  const absl::StatusOr<pid_t> process =
      start_detached(command({"sh", "-c", "ps -o sid=,pid= -p $$; echo done"}), file);
  ASSERT_TRUE(process.ok()) << process.status();
  std::string text;
  const Clock::time_point give_up = Clock::now() + seconds(60);
  while (text.find("done") == std::string::npos && Clock::now() < give_up) {
    std::this_thread::sleep_for(milliseconds(5));
    std::ifstream in(file);
    text.assign(std::istreambuf_iterator<char>(in), {});
  }
  unlink(file.c_str());
  EXPECT_THAT(text, HasSubstr("done"));
  std::istringstream ids(text);
  pid_t session = 0, self = 0;
  ids >> session >> self;
  EXPECT_NE(session, getsid(0));
  EXPECT_EQ(self, *process);
}

TEST(CommandTest, as_another_user) {
  EXPECT_EQ(find_user("no-such-user").status().code(), absl::StatusCode::kNotFound);
  const absl::StatusOr<UserIds> user = find_user("daemon");
  if (!user.ok() || getuid() != 0) GTEST_SKIP() << "needs root and the user daemon";
  Command what = command({"id", "-un"});
  what.user = *user;
  EXPECT_EQ(run(what).out, "daemon\n");
}

}  // namespace
}  // namespace monkeytree
