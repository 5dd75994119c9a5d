#include "state/staging.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
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

}  // namespace
}  // namespace monkeytree
