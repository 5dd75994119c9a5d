#include "state/transfer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <csignal>
#include <thread>

#include "state/test_proxy.h"
#include "state/test_state.h"

namespace monkeytree {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;
using Harm = TestProxy::Harm;

const Deadline kSoon = deadline_in(std::chrono::minutes(5));

std::string message(const absl::Status& status) { return std::string(status.message()); }

std::unique_ptr<Receiver> listening(ReceiverOptions options = {}) {
  if (ucx_status().ok()) options.addresses.emplace_back("ucx:127.0.0.1:0");
  absl::StatusOr<std::unique_ptr<Receiver>> receiver = Receiver::listen(std::move(options));
  EXPECT_TRUE(receiver.ok()) << receiver.status();
  return *std::move(receiver);
}

SendOptions quick() {
  SendOptions options;
  options.deadline = kSoon;
  options.streams = 3;
  return options;
}

/// Index into Receiver::endpoints() of listening().
enum : size_t { kTcp = 0, kShm = 1, kUcx = 2 };

struct Way {
  std::string name;
  size_t endpoint;
  std::string ucx_devices;  ///< what UCX may use
};

class EachTransport : public testing::TestWithParam<Way> {
 protected:
  void SetUp() override {
    if (way().endpoint != kUcx) return;
    if (const absl::Status status = ucx_status(); !status.ok()) GTEST_SKIP() << status.message();
    setenv("UCX_TLS", way().ucx_devices.c_str(), 1);
  }
  static const Way& way() { return GetParam(); }
};
INSTANTIATE_TEST_SUITE_P(Transfer, EachTransport,
                         testing::Values(Way{"tcp", kTcp, ""}, Way{"shm", kShm, ""},
                                         Way{"ucx_shm", kUcx, "shm"}, Way{"ucx_tcp", kUcx, "tcp"}),
                         [](const auto& made) { return made.param.name; });

TEST_P(EachTransport, StateArrivesAndIsCommitted) {
  const auto receiver = listening();
  for (uint64_t seed = 0; seed < 12; ++seed) {
    const auto source = drawn_state(seed, 100 + seed, seed);
    if (seed % 2 == 0) source->commit_with_checksums(100 + seed);
    const auto target = make_arena(source->layout());
    const Token token = random_token();
    ASSERT_TRUE(receiver->expect(token, target, kSoon).ok());
    const auto sent = send(*source, receiver->endpoints()[way().endpoint], token, quick());
    ASSERT_TRUE(sent.ok()) << sent.status();
    const auto got = receiver->wait(token, kSoon);
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_EQ(target->committed_epoch(), 100 + seed);
    EXPECT_TRUE(target->verify().ok());
    EXPECT_TRUE(same_bytes(*source, *target));
    EXPECT_EQ(sent->sent_bytes, source->payload_bytes());
    EXPECT_EQ(got->bytes, source->payload_bytes());
  }
}

TEST_P(EachTransport, SeveralAtOnceDoNotMix) {
  const auto receiver = listening();
  std::vector<std::thread> senders;
  std::vector<std::shared_ptr<Arena>> sources;
  std::vector<std::shared_ptr<Arena>> targets;
  std::vector<Token> tokens;
  for (uint64_t i = 0; i < 6; ++i) {
    sources.push_back(drawn_state(i, i));
    targets.push_back(make_arena(sources[i]->layout()));
    tokens.push_back(random_token());
    ASSERT_TRUE(receiver->expect(tokens[i], targets[i], kSoon).ok());
  }
  for (size_t i = 0; i < 6; ++i) {
    senders.emplace_back([&, i] {
      const auto sent =
          send(*sources[i], receiver->endpoints()[way().endpoint], tokens[i], quick());
      EXPECT_TRUE(sent.ok()) << sent.status();
    });
  }
  for (size_t i = 0; i < 6; ++i) EXPECT_TRUE(receiver->wait(tokens[i], kSoon).ok());
  for (std::thread& sender : senders) sender.join();
  for (size_t i = 0; i < 6; ++i) EXPECT_TRUE(same_bytes(*sources[i], *targets[i]));
}

TEST_P(EachTransport, ReplicasSendPartsAtOnce) {
  const auto receiver = listening();
  const auto source = drawn_state(3, 9, 30);
  const auto target = make_arena(source->layout());
  const Token token = random_token();
  ASSERT_TRUE(receiver->expect(token, target, kSoon).ok());
  std::vector<std::thread> senders;
  for (uint32_t part = 0; part < 3; ++part) {
    senders.emplace_back([&, part] {
      SendOptions options = quick();
      options.part = part;
      for (size_t i = part; i < source->buffer_count(); i += 3) options.buffers.push_back(i);
      const auto sent = send(*source, receiver->endpoints()[way().endpoint], token, options);
      EXPECT_TRUE(sent.ok()) << sent.status();
    });
  }
  const auto got = receiver->wait(token, kSoon);
  for (std::thread& sender : senders) sender.join();
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(got->sent_bytes, source->payload_bytes());
  EXPECT_TRUE(same_bytes(*source, *target));
  EXPECT_EQ(target->committed_epoch(), 9U);
}

TEST_P(EachTransport, RefusesWithAReason) {
  const auto receiver = listening();
  const Endpoint endpoint = receiver->endpoints()[way().endpoint];
  const auto source = drawn_state(1, 5);
  const Token token = random_token();
  absl::Status status = send(*source, endpoint, token, quick()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(message(status), "no transfer is expected under this token");

  const auto other = make_arena({{"other", 8, 64}});
  ASSERT_TRUE(receiver->expect(token, other, kSoon).ok());
  EXPECT_EQ(receiver->expect(token, other, kSoon).code(), absl::StatusCode::kAlreadyExists);
  status = send(*source, endpoint, token, quick()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(message(status), HasSubstr("expected \"other\""));
  EXPECT_EQ(other->committed_epoch(), std::nullopt);
  receiver->cancel(token);

  const auto target = make_arena(source->layout());
  ASSERT_TRUE(receiver->expect(token, target, kSoon).ok());
  source->begin_epoch();
  status = send(*source, endpoint, token, quick()).status();
  EXPECT_EQ(message(status), "the state to send is not committed");
  EXPECT_EQ(target->committed_epoch(), std::nullopt);
}

TEST_P(EachTransport, SourceThatIsNotWhatWasCommittedIsFound) {
  const auto receiver = listening();
  const auto source = drawn_state(2, 5);
  source->commit_with_checksums(5);
  source->buffer(2)[source->buffer(2).size() / 2] ^= std::byte{1};
  const auto target = make_arena(source->layout());
  const Token token = random_token();
  ASSERT_TRUE(receiver->expect(token, target, kSoon).ok());
  const absl::Status status =
      send(*source, receiver->endpoints()[way().endpoint], token, quick()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(message(status), HasSubstr("is not what was committed"));
  EXPECT_EQ(target->committed_epoch(), std::nullopt);
}

TEST_P(EachTransport, ALaterEpochReplacesWhatHadArrived) {
  const auto receiver = listening();
  const auto source = drawn_state(4, 5);
  const auto target = make_arena(source->layout());
  const Token token = random_token();
  ASSERT_TRUE(receiver->expect(token, target, kSoon).ok());
  SendOptions half = quick();
  half.buffers = {0, 1, 2, 3, 4};
  ASSERT_TRUE(send(*source, receiver->endpoints()[way().endpoint], token, half).ok());
  EXPECT_EQ(target->committed_epoch(), std::nullopt);
  RandomSequence random(99);
  fill(*source, random);
  source->commit(6);
  ASSERT_TRUE(send(*source, receiver->endpoints()[way().endpoint], token, quick()).ok());
  ASSERT_TRUE(receiver->wait(token, kSoon).ok());
  EXPECT_EQ(target->committed_epoch(), 6U);
  EXPECT_TRUE(same_bytes(*source, *target));
}

TEST_P(EachTransport, SenderThatAsksAgainHearsThatAllIsWell) {
  const auto receiver = listening();
  const auto source = drawn_state(5, 5);
  const auto target = make_arena(source->layout());
  const Token token = random_token();
  const Endpoint endpoint = receiver->endpoints()[way().endpoint];
  ASSERT_TRUE(receiver->expect(token, target, kSoon).ok());
  ASSERT_TRUE(send(*source, endpoint, token, quick()).ok());
  EXPECT_TRUE(send(*source, endpoint, token, quick()).ok());
  ASSERT_TRUE(receiver->wait(token, kSoon).ok());
  // The target is its owner's now.
  target->buffer(2)[0] ^= std::byte{1};
  EXPECT_TRUE(send(*source, endpoint, token, quick()).ok());
  EXPECT_FALSE(same_bytes(*source, *target));
  source->commit(6);
  EXPECT_EQ(send(*source, endpoint, token, quick()).status().code(),
            absl::StatusCode::kAlreadyExists);
}

TEST_P(EachTransport, EndsAtTheDeadlineAndWhenCancelled) {
  const auto receiver = listening();
  const auto source = drawn_state(6, 5);
  const auto target = make_arena(source->layout());
  const Token token = random_token();
  ASSERT_TRUE(receiver->expect(token, target, deadline_in(milliseconds(30))).ok());
  auto sender = Sender::prepare(*source, receiver->endpoints()[way().endpoint], token, quick());
  EXPECT_EQ(receiver->wait(token, kSoon).status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(receiver->wait(token, kSoon).status().code(), absl::StatusCode::kNotFound);
  EXPECT_FALSE(sender.ok() && (*sender)->send().ok());

  ASSERT_TRUE(receiver->expect(token, target, kSoon).ok());
  EXPECT_EQ(receiver->wait(token, deadline_in(milliseconds(1))).status().code(),
            absl::StatusCode::kDeadlineExceeded);
  sender = Sender::prepare(*source, receiver->endpoints()[way().endpoint], token, quick());
  ASSERT_TRUE(sender.ok()) << sender.status();
  std::thread canceller([&] { receiver->cancel(token); });
  EXPECT_FALSE(receiver->wait(token, kSoon).ok());
  canceller.join();
  EXPECT_FALSE((*sender)->send().ok());
  EXPECT_EQ(target->committed_epoch(), std::nullopt);
  (*sender)->cancel();
  EXPECT_EQ((*sender)->send().status().code(), absl::StatusCode::kCancelled);
}

TEST(TransferFaults, CutAnywhereIsResumedWithoutSendingAgain) {
  const auto receiver = listening();
  for (uint64_t seed = 0; seed < 25; ++seed) {
    RandomSequence random(seed);
    const auto source = drawn_state(seed, 1);
    const auto target = make_arena(source->layout());
    const Token token = random_token();
    ASSERT_TRUE(receiver->expect(token, target, kSoon).ok());
    TestProxy::Options harm{Harm::kCut, 1 + random.below(source->payload_bytes()), 1};
    if (seed < 5) harm.at_byte = 1 + random.below(2000);  // while they greet
    TestProxy proxy(receiver->endpoints()[kTcp], harm);
    const auto sent = send(*source, proxy.endpoint(), token, quick());
    ASSERT_TRUE(sent.ok()) << sent.status() << ", cut at " << harm.at_byte;
    ASSERT_TRUE(receiver->wait(token, kSoon).ok());
    EXPECT_TRUE(same_bytes(*source, *target));
    EXPECT_TRUE(target->verify().ok());
    EXPECT_EQ(proxy.harms(), 1);
    // Lost are at most what was under way: a chunk a stream, and what sockets hold.
    EXPECT_LE(sent->sent_bytes, source->payload_bytes() + (uint64_t{12} << 20));
  }
}

TEST(TransferFaults, FlippedBytesAreFoundAndMadeGood) {
  const auto receiver = listening();
  for (uint64_t seed = 0; seed < 25; ++seed) {
    RandomSequence random(100 + seed);
    const auto source = drawn_state(seed, 1);
    const auto target = make_arena(source->layout());
    const Token token = random_token();
    ASSERT_TRUE(receiver->expect(token, target, kSoon).ok());
    TestProxy::Options harm{Harm::kFlip, 1 + random.below(source->payload_bytes()), 1};
    if (seed < 8) harm.at_byte = 1 + random.below(2000);
    TestProxy proxy(receiver->endpoints()[kTcp], harm);
    SendOptions options = quick();
    // Of a header that was changed the peer may wait for what never comes.
    options.idle_timeout = milliseconds(2000);
    const auto sent = send(*source, proxy.endpoint(), token, options);
    ASSERT_TRUE(sent.ok()) << sent.status() << ", flipped at " << harm.at_byte;
    ASSERT_TRUE(receiver->wait(token, kSoon).ok());
    EXPECT_TRUE(same_bytes(*source, *target));
    EXPECT_EQ(proxy.harms(), 1);
  }
}

TEST(TransferFaults, WhatStaysCorruptIsGivenUpAndNotCommitted) {
  const auto receiver = listening();
  const auto source = drawn_state(8, 1);
  const auto target = make_arena(source->layout());
  const Token token = random_token();
  ASSERT_TRUE(receiver->expect(token, target, kSoon).ok());
  TestProxy proxy(receiver->endpoints()[kTcp], {Harm::kFlip, 300000, 1000});
  SendOptions options = quick();
  options.resumes = 2;
  const auto sent = send(*source, proxy.endpoint(), token, options);
  EXPECT_FALSE(sent.ok());
  EXPECT_EQ(target->committed_epoch(), std::nullopt);
  // Once the path is well, the rest comes.
  ASSERT_TRUE(send(*source, receiver->endpoints()[kTcp], token, quick()).ok());
  ASSERT_TRUE(receiver->wait(token, kSoon).ok());
  EXPECT_TRUE(same_bytes(*source, *target));
}

TEST(TransferFaults, PeerThatStallsIsLeft) {
  ReceiverOptions impatient;
  impatient.idle_timeout = milliseconds(200);
  const auto receiver = listening(impatient);
  const auto source = drawn_state(9, 1);
  const auto target = make_arena(source->layout());
  const Token token = random_token();
  ASSERT_TRUE(receiver->expect(token, target, kSoon).ok());
  {
    TestProxy proxy(receiver->endpoints()[kTcp], {Harm::kStall, 1000000, 1});
    SendOptions options = quick();
    options.idle_timeout = milliseconds(200);
    options.resumes = 0;
    EXPECT_EQ(send(*source, proxy.endpoint(), token, options).status().code(),
              absl::StatusCode::kUnavailable);
    EXPECT_EQ(target->committed_epoch(), std::nullopt);
  }
  ASSERT_TRUE(send(*source, receiver->endpoints()[kTcp], token, quick()).ok());
  ASSERT_TRUE(receiver->wait(token, kSoon).ok());
  EXPECT_TRUE(same_bytes(*source, *target));
}

TEST(TransferFaults, SlowPathIsRefusedBeforeTheCopy) {
  const auto receiver = listening();
  const auto source = drawn_state(10, 1);
  const Token token = random_token();
  ASSERT_TRUE(receiver->expect(token, make_arena(source->layout()), kSoon).ok());
  TestProxy::Options slow;
  slow.bytes_per_s = 2000000;
  TestProxy proxy(receiver->endpoints()[kTcp], slow);
  SendOptions options = quick();
  options.min_bytes_per_s = 50000000;
  options.probe_bytes = 1 << 20;
  const absl::Status status = send(*source, proxy.endpoint(), token, options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(message(status), HasSubstr("is too slow"));
  EXPECT_THAT(message(status), HasSubstr("the floor is 50.0 MB/s"));
  EXPECT_EQ(receiver->received_bytes(token), 0U);
  options.min_bytes_per_s = 100000;
  const auto sender = Sender::prepare(*source, receiver->endpoints()[kTcp], token, options);
  ASSERT_TRUE(sender.ok()) << sender.status();
  EXPECT_GT((*sender)->probed_bytes_per_s(), 100000);
}

TEST(TransferFaults, NobodyThere) {
  const auto source = drawn_state(11, 1);
  SendOptions options = quick();
  options.resumes = 1;
  Endpoint nowhere = listening()->endpoints()[kTcp];  // closed again
  EXPECT_EQ(send(*source, nowhere, random_token(), options).status().code(),
            absl::StatusCode::kUnavailable);
  nowhere = *Endpoint::parse("shm:@monkeytree-nobody");
  EXPECT_EQ(send(*source, nowhere, random_token(), options).status().code(),
            absl::StatusCode::kUnavailable);
}

TEST_P(EachTransport, CutControlConnectionIsResumed) {
  if (way().endpoint == kShm) GTEST_SKIP() << "a proxy cannot pass memory on";
  const auto receiver = listening();
  for (uint64_t seed = 0; seed < 12; ++seed) {
    RandomSequence random(seed);
    const auto source = drawn_state(seed, 1);
    const auto target = make_arena(source->layout());
    const Token token = random_token();
    ASSERT_TRUE(receiver->expect(token, target, kSoon).ok());
    TestProxy proxy(receiver->endpoints()[way().endpoint], {Harm::kCut, 1 + random.below(500), 1});
    Endpoint through = proxy.endpoint();
    through.transport = receiver->endpoints()[way().endpoint].transport;
    const auto sent = send(*source, through, token, quick());
    ASSERT_TRUE(sent.ok()) << sent.status();
    ASSERT_TRUE(receiver->wait(token, kSoon).ok());
    EXPECT_TRUE(same_bytes(*source, *target));
    EXPECT_EQ(proxy.harms(), 1);
  }
}

TEST_P(EachTransport, HarmOverUcxIsFoundAndMadeGood) {
  if (way().endpoint != kUcx) GTEST_SKIP() << "a proxy does it";
  ReceiverOptions options;
  std::atomic<int> chunks = 0;
  options.harm = [&](std::span<std::byte> bytes) {
    if (++chunks == 5 && !bytes.empty()) bytes[bytes.size() / 2] ^= std::byte{4};
  };
  const auto receiver = listening(options);
  const auto source = drawn_state(31, 1);
  const auto target = make_arena(source->layout());
  const Token token = random_token();
  ASSERT_TRUE(receiver->expect(token, target, kSoon).ok());
  const auto sent = send(*source, receiver->endpoints()[kUcx], token, quick());
  ASSERT_TRUE(sent.ok()) << sent.status();
  EXPECT_EQ(sent->connections_lost, 1);
  EXPECT_LT(sent->sent_bytes, 2 * source->payload_bytes());
  ASSERT_TRUE(receiver->wait(token, kSoon).ok());
  EXPECT_TRUE(same_bytes(*source, *target));
}

TEST_P(EachTransport, SenderThatIsKilledLeavesNothingBehind) {
  ReceiverOptions options;
  options.idle_timeout = milliseconds(20000);
  std::atomic<int> chunks = 0;
  std::atomic<bool> killed = false;
  options.harm = [&](std::span<std::byte>) {
    // Waits in the middle until the sender is gone.
    if (++chunks == 3) {
      const Deadline end = deadline_in(milliseconds(20000));
      while (!killed && Clock::now() < end) std::this_thread::sleep_for(milliseconds(1));
    }
  };
  const auto source = drawn_state(32, 1, 12, uint64_t{6} << 20);
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const auto receiver = listening(options);
  const Endpoint endpoint = receiver->endpoints()[way().endpoint];
  const auto target = make_arena(source->layout());
  const Token token = random_token();
  ASSERT_TRUE(receiver->expect(token, target, kSoon).ok());
  const pid_t sender = fork();
  if (sender == 0) {
    const auto prepared = Sender::prepare(*source, endpoint, token, quick());
    if (!prepared.ok() || write(ready[1], "x", 1) != 1) _exit(1);
    // Of the other transports the sender dies before it sends: what is in between they show to a
    // proxy.
    if (way().endpoint != kUcx) pause();
    (*prepared)->send().IgnoreError();
    pause();
  }
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  const Deadline end = deadline_in(milliseconds(20000));
  while (way().endpoint == kUcx && chunks < 3 && Clock::now() < end) {
    std::this_thread::sleep_for(milliseconds(1));
  }
  kill(sender, SIGKILL);
  waitpid(sender, nullptr, 0);
  killed = true;
  close(ready[0]);
  close(ready[1]);
  EXPECT_EQ(target->committed_epoch(), std::nullopt);
  // Another sends what is missing.
  const auto sent = send(*source, endpoint, token, quick());
  ASSERT_TRUE(sent.ok()) << sent.status();
  ASSERT_TRUE(receiver->wait(token, kSoon).ok());
  EXPECT_TRUE(same_bytes(*source, *target));
}

TEST(TransferByUcx, IsRefusedBesideTls) {
  if (const absl::Status status = ucx_status(); !status.ok()) GTEST_SKIP() << status.message();
  ReceiverOptions options;
  options.addresses = {"ucx:127.0.0.1:0"};
  options.tls.ca = "ca.crt";
  EXPECT_THAT(message(Receiver::listen(options).status()), HasSubstr("by ucx and TLS at once"));
}

TEST(Endpoint, IsReadAsWritten) {
  for (const std::string text : {"tcp:10.0.0.7:4711", "ucx:[fe80::1]:80", "tcp:[fe80::1]:80",
                                 "tcp:node7:0", "shm:/run/x.sock", "shm:@name", "shm:"}) {
    const absl::StatusOr<Endpoint> endpoint = Endpoint::parse(text);
    ASSERT_TRUE(endpoint.ok()) << text;
    EXPECT_EQ(endpoint->text(), text);
  }
  for (const std::string text : {"", "tcp:", "tcp:host", "tcp:host:", "tcp::80", "tcp:h:65536",
                                 "tcp:h:8x", "tcp:fe80::1:80", "udp:h:1", "ucx:h"}) {
    EXPECT_FALSE(Endpoint::parse(text).ok()) << text;
  }
}

}  // namespace
}  // namespace monkeytree
