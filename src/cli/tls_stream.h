#pragma once

#include <absl/status/status.h>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace monkeytree {

/// The client's end of TLS over a socket that does not block.
class TlsStream {
 public:
  enum class State { kDone, kWantsRead, kWantsWrite, kEnded, kFailed };
  struct Progress {
    State state = State::kFailed;
    size_t bytes = 0;
  };

  explicit TlsStream(int socket);
  ~TlsStream();
  TlsStream(const TlsStream&) = delete;
  TlsStream& operator=(const TlsStream&) = delete;

  /// Call it again when the socket is ready, until it is done or has failed.
  Progress shake_hands();
  Progress read(char* to, size_t most);
  Progress write(std::string_view bytes);
  /// Whether the other end, after the handshake, is the controller `host` by `authorities`:
  /// PermissionDenied as of verify_certificate() and verify_host().
  absl::Status judge(const std::string& authorities, const std::string& host) const;
  /// Why the last step failed.
  std::string fault() const { return fault_; }

 private:
  struct Parts;
  Progress progress(int result, size_t bytes);

  const std::unique_ptr<Parts> parts_;
  std::string fault_;
};

}  // namespace monkeytree
