#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "state/checksum.h"
#include "state/fd.h"
#include "state/frames.h"
#include "state/tls_session.h"
#include "state/transfer.h"
#include "state/ucx_path.h"

namespace monkeytree {

/// One connected socket that frames go through. Errors of all calls: kUnavailable (broken, closed,
/// or no progress for the idle timeout), kDeadlineExceeded, kDataLoss (a damaged frame). One thread
/// reads and writes; shutdown() may come from any.
class Connection {
 public:
  Connection(Fd socket, std::chrono::milliseconds idle_timeout);

  static absl::StatusOr<std::unique_ptr<Connection>> connect(
      const Endpoint& endpoint, const std::string& from_address, Deadline deadline,
      std::chrono::milliseconds idle_timeout);

  /// Of a tcp connection, before anything else: what is said from here on is said by TLS. The
  /// peer's certificate has then been judged: kPermissionDenied where this side has called;
  /// otherwise tls_peer() says so, that the peer may hear why.
  absl::Status start_tls(const TlsFiles& files, TlsSession::Side side);
  bool has_tls() const { return tls_ != nullptr; }
  absl::Status tls_peer() const { return tls_ ? tls_->peer() : absl::OkStatus(); }
  /// Whether what the peer says first begins TLS; waits for it.
  bool begins_tls();

  void set_deadline(Deadline deadline) { deadline_ = deadline; }

  /// What is written fails with the peer's refusal, where it has said one before it hung up.
  absl::Status write_frame(FrameType type, uint64_t argument, std::string_view body);
  /// A chunk: its checksum follows the bytes. Gives the checksum.
  absl::StatusOr<uint64_t> write_chunk(uint64_t chunk, std::span<const std::byte> bytes);
  absl::Status write_reply(const absl::Status& status, uint64_t argument = 0);

  /// The next header. `patient`: the peer may be silent up to the deadline.
  absl::StatusOr<FrameHeader> read_header(bool patient = false);
  /// The body after a header, checked.
  absl::StatusOr<std::string> read_body(const FrameHeader& header);
  /// The bytes of a chunk and their checksum after its header: whether they agree, and what it is.
  struct Chunk {
    bool whole = false;
    uint64_t sum = 0;
  };
  absl::StatusOr<Chunk> read_chunk(std::span<std::byte> bytes);
  /// Bytes without a frame.
  absl::Status write_raw(std::span<const std::byte> bytes) { return write(bytes, {}); }
  /// The next header, which must be of this type.
  absl::StatusOr<FrameHeader> read_header_of(FrameType type, bool patient = false);
  absl::StatusOr<std::string> read_frame(FrameType type, bool patient = false);
  /// The status in the next frame, which must be a reply (frames of progress are skipped);
  /// `argument` becomes that of the reply.
  absl::Status read_reply(uint64_t* argument = nullptr, bool patient = false);

  /// A frame with a file descriptor beside it.
  absl::Status write_descriptor(int fd);
  absl::StatusOr<Fd> read_descriptor();

  /// For calls of a path beside this connection.
  UcxPath::Limits limits() const { return {deadline_, idle_timeout_, socket_.get()}; }

  /// Breaks the connection for both directions; calls under way end soon.
  void shutdown();
  bool is_local() const { return local_; }
  /// This end's address of a tcp connection, without the port.
  std::string own_host() const;

 private:
  enum class Direction { kRead, kWrite };
  absl::Status arm(Direction direction, bool patient);
  absl::Status write(std::span<const std::byte> first, std::span<const std::byte> second,
                     bool more = false);
  absl::Status read(std::span<std::byte> bytes, bool patient);
  /// Of a peer that has hung up: why, where it said so before; otherwise `failed`.
  absl::Status last_word(const absl::Status& failed);
  /// Reads all of it and sums it.
  absl::Status read_in_gulps(std::span<std::byte> bytes, Checksum& sum);
  void wake_at(size_t bytes);
  absl::Status timed_out() const;

  ssize_t send_some(std::span<const std::byte> first, std::span<const std::byte> second, bool more);
  ssize_t receive_some(std::span<std::byte> bytes);

  Fd socket_;
  std::unique_ptr<TlsSession> tls_;
  std::chrono::milliseconds idle_timeout_;
  Deadline deadline_ = Deadline::max();
  std::chrono::microseconds armed_[2] = {};  ///< timeouts that the socket has
  int wakes_at_ = 1;                         ///< bytes that wake a reader
  bool local_ = false;
};

/// A listening socket and where it is.
struct Listener {
  Fd socket;
  Endpoint endpoint;
};
absl::StatusOr<Listener> listen_at(const Endpoint& endpoint);

}  // namespace monkeytree
