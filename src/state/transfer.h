#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "identity/tls_files.h"
#include "state/arena.h"

/// Moving the state of a worker from an arena of one process straight into an arena of another.
///
///     destination: receiver = Receiver::listen({.addresses = {"tcp:10.0.0.7:0"}});
///                  receiver->expect(token, successor_arena, deadline);
///                  tell the source receiver->endpoints() and the token
///     source:      sender = Sender::prepare(arena, endpoint, token, options);  // before the pause
///                  sender->send();                                            // within it
///     destination: receiver->wait(token, deadline);  // committed at the source's epoch, or an
///     error
///
/// Bytes travel in chunks, each with its checksum. A chunk that has arrived whole is not sent again
/// when a connection breaks. The target is committed by the receiver only after every chunk of
/// every buffer has been checked; before that it is not committed, whatever happens.
namespace monkeytree {

using Clock = std::chrono::steady_clock;
using Deadline = Clock::time_point;

inline Deadline deadline_in(std::chrono::milliseconds time) { return Clock::now() + time; }

/// What two sides of one transfer know and nobody else: 32 lower-case hexadecimal digits.
using Token = std::string;
Token random_token();

/// Where a receiver listens. Text form:
///   tcp:10.0.0.7:4711      tcp:[fe80::1]:4711     several streams
///   ucx:10.0.0.7:4711                             UCX's choice: RDMA, shared memory, tcp; the port
///   is
///                                                 that of the control connection
///   shm:/run/x.sock        shm:@name              same machine; the memfd itself is passed
/// A name after @ lives in the abstract namespace, which is one per network namespace.
struct Endpoint {
  enum class Transport { kTcp, kShm, kUcx };
  Transport transport = Transport::kTcp;
  std::string host;   ///< of kTcp, kUcx
  uint16_t port = 0;  ///< of these; 0 to listen on any
  std::string path;   ///< of kShm, the @ included

  static absl::StatusOr<Endpoint> parse(std::string_view text);
  std::string text() const;
  friend bool operator==(const Endpoint&, const Endpoint&) = default;
};

/// What a transfer came to.
struct TransferReport {
  uint64_t epoch = 0;
  uint64_t bytes = 0;        ///< of the state
  uint64_t sent_bytes = 0;   ///< over the wire, what was sent again included; at the receiver: got
  int connections_lost = 0;  ///< how often it was resumed
  double seconds = 0;        ///< of send(); at the receiver from the first connection to the commit
};

struct SendOptions {
  Deadline deadline = Deadline::max();  ///< for all of it
  std::chrono::milliseconds idle_timeout{
      10000};       ///< longest wait for a peer that shows no progress
  int streams = 4;  ///< of tcp
  int resumes = 5;  ///< how often a broken connection or a corrupt chunk is made good
  /// A path on which one stream is measured to be slower is refused before anything is sent;
  /// 0 measures nothing. Not for shm.
  uint64_t min_bytes_per_s = 0;
  uint64_t probe_bytes = uint64_t{4} << 20;
  std::string from_address;  ///< of tcp: the local address to use, so that the fabric is used
  TlsFiles tls;              ///< of tcp: a node's; the receiver must have such too
  /// Which buffers this sender sends (indices); empty: all. The others come from other senders of
  /// the same token, so several replicas may send at once, each with its own `part`.
  std::vector<size_t> buffers;
  uint32_t part = 0;
};

/// One end that sends. The arena must outlive it. Not thread-safe, but cancel() may be called from
/// any thread.
class Sender {
 public:
  /// Connects, compares layouts, measures the path and warms the mapping: all that can be done
  /// while training goes on. Errors: kUnavailable (no connection), kUnauthenticated (token; TLS on
  /// one side only), kPermissionDenied (one side does not believe the other's certificate),
  /// kFailedPrecondition (slower than the floor; or another layout: the message names the first
  /// difference), kDeadlineExceeded.
  static absl::StatusOr<std::unique_ptr<Sender>> prepare(const Arena& arena,
                                                         const Endpoint& endpoint,
                                                         const Token& token, SendOptions options);
  virtual ~Sender() = default;

  /// Sends the state, which must be committed; OK once the receiver has checked all of this
  /// sender's buffers (and has committed, where no other sender's are missing). Otherwise, besides
  /// the errors of prepare(): kFailedPrecondition (the source is not committed, was changed
  /// meanwhile, or its bytes are not those of its recorded checksums), kDataLoss (what arrives
  /// stays corrupt), kCancelled. May be called again after an error.
  virtual absl::StatusOr<TransferReport> send() = 0;
  virtual absl::StatusOr<TransferReport> send(Deadline deadline) = 0;

  /// Makes a running send() end soon with kCancelled.
  virtual void cancel() = 0;

  /// Bytes per second of the path, as probed by prepare(); 0 where not measured.
  virtual double probed_bytes_per_s() const = 0;
};

/// prepare() and send() in one.
absl::StatusOr<TransferReport> send(const Arena& arena, const Endpoint& endpoint,
                                    const Token& token, const SendOptions& options);

struct ReceiverOptions {
  /// Endpoint texts; port 0 takes a free one. "shm:" alone takes a free abstract name.
  std::vector<std::string> addresses = {"tcp:127.0.0.1:0", "shm:"};
  std::chrono::milliseconds idle_timeout{10000};
  int copy_threads = 0;  ///< of shm; 0: as many as pay
  TlsFiles tls;          ///< a node's: who comes by tcp must be a node of the same CA
  int max_connections = 256;
  /// For tests: harms what has come over ucx, before it is checked.
  std::function<void(std::span<std::byte>)> harm;
};

/// One end that receives: listens, and takes several transfers at once, each known by its token.
/// Thread-safe.
class Receiver {
 public:
  static absl::StatusOr<std::unique_ptr<Receiver>> listen(ReceiverOptions options);
  /// Ends all connections and threads; transfers under way are cancelled.
  virtual ~Receiver() = default;

  /// Where it listens, in the order of the options.
  virtual std::vector<Endpoint> endpoints() const = 0;

  /// Takes one transfer into `target`, of which begin_epoch() is called here; nobody else may
  /// touch it until wait() or cancel() has returned. After `deadline` its connections are cut and
  /// wait() says kDeadlineExceeded. kAlreadyExists: the token is in use.
  virtual absl::Status expect(const Token& token, std::shared_ptr<Arena> target,
                              Deadline deadline) = 0;

  /// Waits for the transfer and forgets the token where it has ended: OK (the target is committed),
  /// kDeadlineExceeded of the transfer, kCancelled, kNotFound (unknown token). At `deadline`, the
  /// transfer going on: kDeadlineExceeded, and the token stays.
  virtual absl::StatusOr<TransferReport> wait(const Token& token, Deadline deadline) = 0;

  /// Whether wait() would not wait.
  virtual bool ended(const Token& token) const = 0;
  /// Bytes that have arrived and been checked; 0 for an unknown token.
  virtual uint64_t received_bytes(const Token& token) const = 0;

  /// Ends the transfer, returns when no thread writes to the target any more, forgets the token.
  virtual void cancel(const Token& token) = 0;
};

}  // namespace monkeytree
