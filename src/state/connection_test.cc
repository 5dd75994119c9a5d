#include "state/connection.h"

#include <absl/status/status.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <string>

namespace monkeytree {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

constexpr milliseconds kIdle{10'000};

/// Both ends of a connection over a transport.
class ConnectionTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const absl::StatusOr<Listener> listener = listen_at(*Endpoint::parse(GetParam()));
    ASSERT_TRUE(listener.ok()) << listener.status();
    caller_ =
        *Connection::connect(listener->endpoint, "", Clock::now() + std::chrono::minutes(2), kIdle);
    // The caller has connected, so nothing is waited for.
    called_ =
        std::make_unique<Connection>(Fd(accept(listener->socket.get(), nullptr, nullptr)), kIdle);
  }

  std::unique_ptr<Connection> caller_, called_;
};

TEST_P(ConnectionTest, RefusalIsHeardByWhoIsStillWriting) {
  ASSERT_TRUE(caller_->write_frame(FrameType::kHello, 0, "never read").ok());
  ASSERT_TRUE(called_->write_reply(absl::UnauthenticatedError("another word")).ok());
  called_.reset();
  // How much fits before the break is noticed is the kernel's affair.
  absl::Status status;
  while (status.ok()) status = caller_->write_frame(FrameType::kStates, 0, "");
  EXPECT_EQ(status.code(), absl::StatusCode::kUnauthenticated) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("another word"));
}

TEST_P(ConnectionTest, PeerThatHungUpWithoutAWordIsUnavailable) {
  ASSERT_TRUE(called_->write_reply(absl::OkStatus()).ok());  // no refusal
  called_.reset();
  absl::Status status;
  while (status.ok()) status = caller_->write_frame(FrameType::kStates, 0, "");
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
}

INSTANTIATE_TEST_SUITE_P(Transports, ConnectionTest, testing::Values("shm:", "tcp:127.0.0.1:0"),
                         [](const auto& info) { return std::string(info.param).substr(0, 3); });

}  // namespace
}  // namespace monkeytree
