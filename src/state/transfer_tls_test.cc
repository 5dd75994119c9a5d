#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "base/file.h"
#include "identity/authority.h"
#include "state/staging.h"
#include "state/test_proxy.h"
#include "state/test_state.h"

namespace monkeytree {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;
using Harm = TestProxy::Harm;

const Deadline kSoon = deadline_in(std::chrono::minutes(5));

std::string message(const absl::Status& status) { return std::string(status.message()); }

/// A CA and the files of its nodes, in a folder that goes with the test.
class TransferTls : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "transfer_tls_XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    ours_ = *make_authority({unix_now_s(), 10});
    others_ = *make_authority({unix_now_s(), 10});
    node_ = files("node", ours_, ours_, CertificateRole::kNode);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void write(const std::string& path, const std::string& text) const {
    ASSERT_TRUE(write_file(path, text).ok());
    chmod(path.c_str(), 0600);
  }

  /// A certificate of `signer`, whose owner believes `believed`.
  TlsFiles files(const std::string& name, const Credential& signer, const Credential& believed,
                 CertificateRole role) const {
    const Credential own = *issue(signer, role, {name}, {unix_now_s(), 5});
    TlsFiles made{folder_ + "/" + name + ".ca", folder_ + "/" + name + ".crt",
                  folder_ + "/" + name + ".key"};
    write(made.ca, believed.certificate);
    write(made.certificate, own.certificate);
    write(made.key, own.key);
    return made;
  }

  std::unique_ptr<Receiver> listening(const TlsFiles& tls) const {
    ReceiverOptions options;
    options.tls = tls;
    options.idle_timeout = milliseconds(5000);
    absl::StatusOr<std::unique_ptr<Receiver>> receiver = Receiver::listen(std::move(options));
    EXPECT_TRUE(receiver.ok()) << receiver.status();
    return *std::move(receiver);
  }

  SendOptions options(const TlsFiles& tls) const {
    SendOptions options;
    options.deadline = kSoon;
    options.streams = 3;
    options.idle_timeout = milliseconds(5000);
    options.tls = tls;
    return options;
  }

  /// What a sender with `sender` hears of a receiver with `receiver`; no byte of state has flowed.
  absl::Status refusal(const TlsFiles& sender, const TlsFiles& receiver) const {
    const auto listens = listening(receiver);
    const auto source = drawn_state(1, 5);
    const auto target = make_arena(source->layout());
    const Token token = random_token();
    EXPECT_TRUE(listens->expect(token, target, kSoon).ok());
    const TestProxy proxy(listens->endpoints()[0], {});
    absl::Status status = send(*source, proxy.endpoint(), token, options(sender)).status();
    EXPECT_EQ(target->committed_epoch(), std::nullopt);
    EXPECT_EQ(listens->received_bytes(token), 0U);
    EXPECT_LT(proxy.bytes(), 64000U);
    listens->cancel(token);
    return status;
  }

  std::string folder_;
  Credential ours_, others_;
  TlsFiles node_;
};

TEST_F(TransferTls, StateArrives) {
  const auto receiver = listening(node_);
  for (const size_t transport : {0, 1}) {
    const auto source = drawn_state(2, 7, 8);
    const auto target = make_arena(source->layout());
    const Token token = random_token();
    ASSERT_TRUE(receiver->expect(token, target, kSoon).ok());
    SendOptions sending = options(node_);
    sending.min_bytes_per_s = 1000;
    const auto sent = send(*source, receiver->endpoints()[transport], token, sending);
    ASSERT_TRUE(sent.ok()) << sent.status();
    ASSERT_TRUE(receiver->wait(token, kSoon).ok());
    EXPECT_EQ(target->committed_epoch(), 7U);
    EXPECT_TRUE(target->verify().ok());
    EXPECT_TRUE(same_bytes(*source, *target));
  }
}

TEST_F(TransferTls, WhoIsNoNodeOfTheSameAuthorityIsRefused) {
  const TlsFiles foreign = files("foreign", others_, others_, CertificateRole::kNode);
  const TlsFiles impostor = files("impostor", others_, ours_, CertificateRole::kNode);
  const TlsFiles head = files("head", ours_, ours_, CertificateRole::kController);
  absl::Status status = refusal(foreign, node_);
  EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied) << status;
  EXPECT_THAT(message(status), HasSubstr("the certificate of node node is signed by"));
  // One that believes us, and whom we do not believe: not even its own files do.
  status = refusal(impostor, node_);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_THAT(message(status), HasSubstr("impostor.crt"));
  write(foreign.ca, ours_.certificate + others_.certificate);
  status = refusal(foreign, node_);
  EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied) << status;
  EXPECT_THAT(message(status), HasSubstr("the certificate of node foreign is signed by"));
  status = refusal(node_, foreign);
  EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied) << status;
  EXPECT_THAT(message(refusal(head, node_)), HasSubstr("expected a node's"));
}

TEST_F(TransferTls, NobodyFallsBackToPlainText) {
  absl::Status status = refusal({}, node_);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnauthenticated) << status;
  EXPECT_EQ(message(status), "TLS is expected here, and the peer has none");
  status = refusal(node_, {});
  EXPECT_EQ(status.code(), absl::StatusCode::kUnauthenticated) << status;
  EXPECT_EQ(message(status), "the peer speaks no TLS, which is expected here");
}

TEST_F(TransferTls, HarmOnTheWayIsMadeGood) {
  const auto receiver = listening(node_);
  for (uint64_t seed = 0; seed < 12; ++seed) {
    RandomSequence random(seed);
    const auto source = drawn_state(seed, 1);
    const auto target = make_arena(source->layout());
    const Token token = random_token();
    ASSERT_TRUE(receiver->expect(token, target, kSoon).ok());
    const Harm harm = seed % 2 == 0 ? Harm::kCut : Harm::kFlip;
    // Behind the handshakes of all connections.
    TestProxy proxy(receiver->endpoints()[0],
                    {harm, 20000 + random.below(source->payload_bytes() - 20000), 1});
    SendOptions sending = options(node_);
    sending.idle_timeout = milliseconds(1500);  // of a length that was changed
    const auto sent = send(*source, proxy.endpoint(), token, sending);
    ASSERT_TRUE(sent.ok()) << sent.status();
    ASSERT_TRUE(receiver->wait(token, kSoon).ok());
    EXPECT_TRUE(same_bytes(*source, *target));
    EXPECT_EQ(proxy.harms(), 1);
    EXPECT_LE(sent->sent_bytes, source->payload_bytes() + (uint64_t{12} << 20));
  }
}

TEST_F(TransferTls, RenewedFilesHoldFromTheNextConnectionOn) {
  const auto receiver = listening(node_);
  files("node", others_, others_, CertificateRole::kNode);
  const auto source = drawn_state(3, 7, 8);
  const auto target = make_arena(source->layout());
  const Token token = random_token();
  ASSERT_TRUE(receiver->expect(token, target, kSoon).ok());
  const TlsFiles other = files("other", others_, others_, CertificateRole::kNode);
  const auto sent = send(*source, receiver->endpoints()[0], token, options(other));
  ASSERT_TRUE(sent.ok()) << sent.status();
  EXPECT_TRUE(same_bytes(*source, *target));
}

TEST_F(TransferTls, Staging) {
  StagingOptions staging;
  staging.quota_bytes = uint64_t{256} << 20;
  staging.access = "word";
  staging.tls = node_;
  const auto server = *StagingServer::start(staging);
  const Endpoint at = server->endpoints()[0];
  StagingClient plain(at, "word");
  EXPECT_EQ(plain.states(kSoon).status().code(), absl::StatusCode::kUnauthenticated);
  StagingClient client(at, "word", node_);
  const auto source = drawn_state(4, 3, 8);
  source->commit_with_checksums(3);
  const auto put = client.put("k", *source, options(node_));
  ASSERT_TRUE(put.ok()) << put.status();
  const auto target = make_arena(source->layout());
  const auto got = client.get("k", target, options(node_));
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_TRUE(same_bytes(*source, *target));
  EXPECT_TRUE(client.confirm("k", kSoon).ok());
}

}  // namespace
}  // namespace monkeytree
