#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <sys/types.h>

#include <cstddef>
#include <memory>
#include <span>

#include "identity/tls_files.h"

namespace monkeytree {

/// TLS over one connected, blocking socket between two nodes, each with a node's certificate. Files
/// are read at each handshake, so that renewed ones hold from the next connection on.
///
/// Each side judges the other by verify_certificate(), right after the handshake and before it
/// believes a word: so the side that was called can say why it refuses.
class TlsSession {
 public:
  enum class Side { kCalls, kCalled };

  /// Shakes hands within the socket's timeouts. kUnauthenticated: the peer speaks no TLS;
  /// kFailedPrecondition: the own files do not do; kUnavailable: the connection broke.
  static absl::StatusOr<std::unique_ptr<TlsSession>> start(int fd, const TlsFiles& files,
                                                           Side side);
  virtual ~TlsSession() = default;

  /// OK, or why the peer is not believed: to be asked before anything is read.
  virtual absl::Status peer() const = 0;

  /// As recv() and send(): 0 where the peer has closed, below 0 with errno.
  virtual ssize_t read(std::span<std::byte> bytes) = 0;
  virtual ssize_t write(std::span<const std::byte> bytes) = 0;
};

}  // namespace monkeytree
