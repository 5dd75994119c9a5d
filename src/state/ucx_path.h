#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace monkeytree {

/// OK where this program was built with UCX and its library is found on this machine; otherwise
/// kFailedPrecondition says which of the two is missing. The library is loaded at the first call.
absl::Status ucx_status();

/// One end of a path over UCX, which chooses how bytes go: RDMA where there is such a device,
/// shared memory, tcp; UCX's own environment (UCX_TLS, UCX_NET_DEVICES) narrows the choice.
/// Messages are known by their number and may come in any order. One thread at a time.
///
/// Beside a path stands a control connection, by which its ends find each other and learn that the
/// other is gone: UCX tells that late or, over shared memory, never.
class UcxPath {
 public:
  /// One message.
  struct Message {
    uint64_t number = 0;
    std::span<std::byte> bytes;
  };
  /// Gives the i-th message to move. Asked in order.
  using Next = std::function<Message(size_t i)>;
  /// Told when the i-th is under way (sending) or has come (receiving).
  using Then = std::function<void(size_t i)>;

  /// How long a call may take.
  struct Limits {
    std::chrono::steady_clock::time_point deadline;
    std::chrono::milliseconds idle;  ///< without progress
    int control = -1;                ///< socket whose end ends the call
  };

  static absl::StatusOr<std::unique_ptr<UcxPath>> create();
  virtual ~UcxPath() = default;  ///< and end()

  /// To be given to the other end's connect().
  virtual const std::string& address() const = 0;
  virtual absl::Status connect(std::string_view address) = 0;

  /// Moves `count` messages, several at a time; all have arrived when it returns OK. kUnavailable:
  /// the other end is gone, or shows no progress; kDeadlineExceeded.
  virtual absl::Status send(size_t count, const Next& next, const Then& then,
                            const Limits& limits) = 0;
  virtual absl::Status receive(size_t count, const Next& next, const Then& then,
                               const Limits& limits) = 0;

  /// Ends the path: nothing reads or writes any message's bytes any more. No calls after it.
  virtual void end() = 0;
};

}  // namespace monkeytree
