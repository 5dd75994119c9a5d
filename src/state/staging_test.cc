#include "state/staging.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "state/test_state.h"

namespace monkeytree {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

const Deadline kSoon = deadline_in(std::chrono::minutes(5));

std::unique_ptr<StagingServer> server_of(uint64_t quota, std::string access = "") {
  StagingOptions options;
  options.quota_bytes = quota;
  options.access = std::move(access);
  absl::StatusOr<std::unique_ptr<StagingServer>> server = StagingServer::start(options);
  EXPECT_TRUE(server.ok()) << server.status();
  return *std::move(server);
}

SendOptions quick() {
  SendOptions options;
  options.deadline = kSoon;
  options.streams = 2;
  return options;
}

class EachTransport : public testing::TestWithParam<size_t> {};
INSTANTIATE_TEST_SUITE_P(Staging, EachTransport, testing::Values(0, 1));

TEST_P(EachTransport, HoldsStateUntilItsOwnerConfirms) {
  const auto server = server_of(uint64_t{1} << 30);
  StagingClient client(server->endpoints()[GetParam()], "");
  const auto source = drawn_state(1, 42);
  ASSERT_TRUE(client.put("job-7/rank-3", *source, quick()).ok());
  EXPECT_EQ(server->used_bytes(), source->bytes());
  for (int i = 0; i < 2; ++i) {  // as often as wanted
    const auto target = make_arena(source->layout());
    const auto got = client.get("job-7/rank-3", target, quick());
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_TRUE(same_bytes(*source, *target));
    EXPECT_EQ(target->committed_epoch(), 42U);
  }
  const auto states = client.states(kSoon);
  ASSERT_TRUE(states.ok()) << states.status();
  ASSERT_EQ(states->size(), 1U);
  EXPECT_EQ(states->front().key, "job-7/rank-3");
  EXPECT_EQ(states->front().epoch, 42U);
  EXPECT_TRUE(states->front().complete);
  EXPECT_TRUE(client.confirm("job-7/rank-3", kSoon).ok());
  EXPECT_EQ(server->used_bytes(), 0U);
  EXPECT_EQ(client.confirm("job-7/rank-3", kSoon).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(client.get("job-7/rank-3", make_arena(source->layout()), quick()).status().code(),
            absl::StatusCode::kNotFound);
}

TEST(Staging, RefusesOverQuotaAndSaysSo) {
  const auto source = drawn_state(2, 1);
  const auto server = server_of(source->bytes() + 4096);
  StagingClient client(server->endpoints()[0], "");
  ASSERT_TRUE(client.put("a", *source, quick()).ok());
  EXPECT_EQ(client.put("a", *source, quick()).status().code(), absl::StatusCode::kAlreadyExists);
  const absl::Status status = client.put("b", *source, quick()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("4096 of the quota"));
  // Nothing of the refused one is left, and the first is whole.
  EXPECT_EQ(server->states().size(), 1U);
  EXPECT_TRUE(client.get("a", make_arena(source->layout()), quick()).ok());
  ASSERT_TRUE(client.confirm("a", kSoon).ok());
  EXPECT_TRUE(client.put("b", *source, quick()).ok());
}

TEST(Staging, ServesOnlyThoseWhoKnowTheWord) {
  const auto server = server_of(1 << 30, "word");
  const auto source = drawn_state(3, 1);
  StagingClient stranger(server->endpoints()[1], "sword");
  EXPECT_EQ(stranger.put("a", *source, quick()).status().code(),
            absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(stranger.states(kSoon).status().code(), absl::StatusCode::kUnauthenticated);
  StagingClient friendly(server->endpoints()[1], "word");
  EXPECT_TRUE(friendly.put("a", *source, quick()).ok());
}

TEST(Staging, ReservationThatIsNotUsedEnds) {
  StagingOptions options;
  options.quota_bytes = 1 << 30;
  options.put_deadline = milliseconds(50);
  const auto server = *StagingServer::start(options);
  StagingClient client(server->endpoints()[1], "");
  const auto source = drawn_state(4, 1);
  ASSERT_TRUE(client.reserve("a", source->layout(), kSoon).ok());
  EXPECT_GT(server->used_bytes(), 0U);
  EXPECT_EQ(client.forward("a", server->endpoints()[1], random_token(), quick()).status().code(),
            absl::StatusCode::kNotFound);
  while (server->used_bytes() > 0 && Clock::now() < kSoon) {
    std::this_thread::sleep_for(milliseconds(5));
  }
  EXPECT_EQ(server->used_bytes(), 0U);
}

TEST(Staging, StateSurvivesAForwardThatFails) {
  const auto server = server_of(1 << 30);
  StagingClient client(server->endpoints()[0], "");
  const auto source = drawn_state(5, 7);
  ASSERT_TRUE(client.put("a", *source, quick()).ok());
  EXPECT_EQ(client.get("a", make_arena({{"other", 1, 64}}), quick()).status().code(),
            absl::StatusCode::kFailedPrecondition);
  const auto target = make_arena(source->layout());
  ASSERT_TRUE(client.get("a", target, quick()).ok());
  EXPECT_TRUE(same_bytes(*source, *target));
}

TEST(Staging, ChurnLeavesNothingBehind) {
  const auto server = server_of(uint64_t{64} << 20);
  std::atomic<int> refused = 0;
  std::vector<std::thread> clients;
  for (uint64_t id = 0; id < 3; ++id) {
    clients.emplace_back([&, id] {
      RandomSequence random(id);
      StagingClient client(server->endpoints()[id % 2], "");
      for (int round = 0; round < 15; ++round) {
        const std::string key = std::to_string(id) + "/" + std::to_string(round);
        const auto source = drawn_state(random.next(), 1, 1 + random.below(16));
        const absl::Status put = client.put(key, *source, quick()).status();
        if (!put.ok()) {
          EXPECT_EQ(put.code(), absl::StatusCode::kResourceExhausted) << put;
          ++refused;
          continue;
        }
        const auto target = make_arena(source->layout());
        const absl::Status got = client.get(key, target, quick()).status();
        EXPECT_TRUE(got.ok()) << got;
        EXPECT_TRUE(same_bytes(*source, *target));
        EXPECT_TRUE(client.confirm(key, kSoon).ok());
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_LT(refused, 45);
  EXPECT_EQ(server->used_bytes(), 0U);
  EXPECT_TRUE(server->states().empty());
}

/// A folder that is gone with the test.
class InAFolder : public testing::Test {
 protected:
  InAFolder() {
    std::string name = "/tmp/monkeytree_staging_XXXXXX";
    folder_ = std::string(mkdtemp(name.data())) + "/staged";
    options_.folder = folder_;
    options_.quota_bytes = uint64_t{1} << 30;
  }
  ~InAFolder() override {
    std::filesystem::remove_all(std::filesystem::path(folder_).parent_path());
  }

  std::unique_ptr<StagingServer> start() const {
    absl::StatusOr<std::unique_ptr<StagingServer>> server = StagingServer::start(options_);
    EXPECT_TRUE(server.ok()) << server.status();
    return *std::move(server);
  }
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
      names.push_back(entry.path().filename());
    }
    std::sort(names.begin(), names.end());
    return names;
  }
  /// Changes a byte of a staged state: from its start, or below 0 from its end.
  void spoil(const std::string& file, int at = -5000) const {
    std::fstream bytes(folder_ + "/" + file, std::ios::in | std::ios::out | std::ios::binary);
    const auto from = at < 0 ? std::ios::end : std::ios::beg;
    bytes.seekg(at, from);
    const int old = bytes.get();
    bytes.seekp(at, from);
    bytes.put(static_cast<char>(old ^ 1));
  }

  std::string folder_;
  StagingOptions options_;
};

TEST_F(InAFolder, TheNextServerHasTheStateBitForBit) {
  const auto source = drawn_state(6, 42);
  {
    const auto server = start();
    StagingClient client(server->endpoints()[1], "");
    ASSERT_TRUE(client.put("1.0.0:j7/0/3", *source, quick()).ok());
    ASSERT_TRUE(client.put("other", *source, quick()).ok());
    ASSERT_TRUE(client.reserve("half", source->layout(), kSoon).ok());
    EXPECT_EQ(files(),
              (std::vector<std::string>{"1.0.0%3Aj7%2F0%2F3.state", "half.state", "other.state"}));
  }
  for (size_t transport : {size_t{0}, size_t{1}}) {
    const auto server = start();
    ASSERT_EQ(server->states().size(), 2U);
    EXPECT_EQ(server->states()[0].key, "1.0.0:j7/0/3");
    EXPECT_TRUE(server->states()[0].complete);
    EXPECT_EQ(server->states()[0].epoch, 42U);
    EXPECT_EQ(server->used_bytes(), 2 * source->bytes());
    StagingClient client(server->endpoints()[transport], "");
    const auto target = make_arena(source->layout());
    const auto got = client.get("1.0.0:j7/0/3", target, quick());
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_TRUE(same_bytes(*source, *target));
    EXPECT_EQ(target->committed_epoch(), 42U);
    EXPECT_EQ(client.put("other", *source, quick()).status().code(),
              absl::StatusCode::kAlreadyExists);
  }
  {
    const auto server = start();
    StagingClient client(server->endpoints()[1], "");
    EXPECT_TRUE(client.confirm("1.0.0:j7/0/3", kSoon).ok());
    EXPECT_TRUE(client.confirm("other", kSoon).ok());
    EXPECT_EQ(server->used_bytes(), 0U);
    EXPECT_TRUE(files().empty());
  }
  EXPECT_FALSE(std::filesystem::exists(folder_));
}

TEST_F(InAFolder, AKilledServerLeavesWhatWasWhole) {
  const auto source = drawn_state(7, 9);
  int ready[2] = {-1, -1};
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    const auto server = start();
    StagingClient client(server->endpoints()[1], "");
    const bool put = client.put("whole", *source, quick()).ok() &&
                     client.reserve("half", source->layout(), kSoon).ok();
    [[maybe_unused]] const ssize_t told = write(ready[1], put ? "y" : "n", 1);
    while (true) pause();
  }
  char byte = 'n';
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  EXPECT_EQ(byte, 'y');
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  close(ready[0]);
  close(ready[1]);
  const auto server = start();
  ASSERT_EQ(server->found().size(), 2U);
  EXPECT_EQ(server->found()[0].key, "half");
  EXPECT_TRUE(absl::IsUnavailable(server->found()[0].status));
  EXPECT_TRUE(server->found()[1].status.ok());
  EXPECT_EQ(files(), std::vector<std::string>{"whole.state"});
  StagingClient client(server->endpoints()[1], "");
  const auto target = make_arena(source->layout());
  ASSERT_TRUE(client.get("whole", target, quick()).ok());
  EXPECT_TRUE(same_bytes(*source, *target));
}

TEST_F(InAFolder, ADamagedStateIsPutAsideAndSaidSo) {
  const auto source = drawn_state(8, 1);
  {
    const auto server = start();
    StagingClient client(server->endpoints()[1], "");
    ASSERT_TRUE(client.put("a", *source, quick()).ok());
  }
  spoil("a.state");
  const auto server = start();
  ASSERT_EQ(server->found().size(), 1U);
  EXPECT_EQ(server->found()[0].status.code(), absl::StatusCode::kDataLoss);
  EXPECT_TRUE(server->states().empty());
  EXPECT_EQ(files(), std::vector<std::string>{"a.state.damaged"});
  StagingClient client(server->endpoints()[1], "");
  EXPECT_TRUE(client.put("a", *source, quick()).ok());
}

/// Wherever the damage is, the only copy of a state is never removed.
TEST_F(InAFolder, ADamagedHeaderIsPutAsideToo) {
  const auto source = drawn_state(8, 1);
  for (const int at : {0, 8, 8 * 18 + 3, 4104}) {  // magic, count, commit word, directory
    {
      const auto server = start();
      StagingClient client(server->endpoints()[1], "");
      ASSERT_TRUE(client.put("a", *source, quick()).ok());
    }
    spoil("a.state", at);
    const auto server = start();
    ASSERT_EQ(server->found().size(), 1U);
    EXPECT_EQ(server->found()[0].status.code(), absl::StatusCode::kDataLoss) << at;
    EXPECT_EQ(files(), std::vector<std::string>{"a.state.damaged"}) << at;
  }
}

/// What cannot be looked at for want of descriptors is not lost for that.
TEST_F(InAFolder, AServerThatCannotLookDoesNotStart) {
  const auto source = drawn_state(8, 1);
  {
    const auto server = start();
    StagingClient client(server->endpoints()[1], "");
    for (const char* key : {"a", "b", "c"}) ASSERT_TRUE(client.put(key, *source, quick()).ok());
  }
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const int next = dup(0);
  close(next);
  for (int more = 1; more < 6; ++more) {
    rlimit few = before;
    few.rlim_cur = static_cast<rlim_t>(next) + static_cast<rlim_t>(more);
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
    const auto refused = StagingServer::start(options_);
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
    EXPECT_FALSE(refused.ok());
    EXPECT_EQ(files(), (std::vector<std::string>{"a.state", "b.state", "c.state"})) << more;
  }
  EXPECT_EQ(start()->states().size(), 3U);
}

TEST_F(InAFolder, IsOneServersAloneAndMustHaveRoom) {
  const auto server = start();
  EXPECT_EQ(StagingServer::start(options_).status().code(), absl::StatusCode::kAlreadyExists);
  StagingOptions other = options_;
  other.folder += "2";
  ASSERT_EQ(mkdir(other.folder.c_str(), 0755), 0);
  EXPECT_EQ(StagingServer::start(other).status().code(), absl::StatusCode::kFailedPrecondition);
  ASSERT_EQ(chmod(other.folder.c_str(), 0700), 0);
  other.quota_bytes = uint64_t{1} << 62;
  const absl::Status status = StagingServer::start(other).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("remount"));
}

}  // namespace
}  // namespace monkeytree
