#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "state/transfer.h"

/// Staging: worker state held in the memory of a third machine, so that cycles of moves and full
/// clusters work. A staged state is an arena of the server, known by a key; whoever knows the
/// server's access word may use it. State survives its connections and, where the server has a
/// folder, its process: the next server of the folder finds what was whole, checks it by its
/// checksums and goes on. It goes when its owner confirms that a successor lives.
namespace monkeytree {

/// A state that an earlier server of the folder left, and what became of it.
struct FoundState {
  std::string key;
  uint64_t bytes = 0;
  absl::Status status;  ///< kDataLoss: kept aside as FILE.damaged; kUnavailable: never whole, gone
};

struct StagingOptions {
  /// Where states are files, in tmpfs; made where it is missing, for this user alone. Empty: in
  /// memory that goes with the server.
  std::string folder;
  std::vector<std::string> addresses = {"tcp:127.0.0.1:0", "shm:"};  ///< as of ReceiverOptions
  uint64_t quota_bytes = 0;   ///< of all arenas, headers included; what is being put counts
  size_t max_objects = 4096;  ///< keys held at once
  std::string access;         ///< word that clients must give; empty: none
  TlsFiles tls;               ///< as of ReceiverOptions; also for what it sends
  std::chrono::milliseconds idle_timeout{10000};
  /// A put that has not become whole after this time is given up and its memory returned.
  std::chrono::milliseconds put_deadline{600000};
};

struct StagedState {
  std::string key;
  uint64_t bytes = 0;     ///< of memory
  uint64_t epoch = 0;     ///< where whole
  bool complete = false;  ///< whole and checked
};

/// The server within a process (the agent's, or one of its own). Thread-safe.
class StagingServer {
 public:
  /// kInvalidArgument: no quota, or more than the folder's file system has; kAlreadyExists: another
  /// server has the folder; kFailedPrecondition: it is not this user's alone.
  static absl::StatusOr<std::unique_ptr<StagingServer>> start(StagingOptions options);
  virtual ~StagingServer() = default;

  virtual std::vector<Endpoint> endpoints() const = 0;
  virtual uint64_t used_bytes() const = 0;
  /// In the order of keys.
  virtual std::vector<StagedState> states() const = 0;
  /// What was in the folder at the start, in the order of keys.
  virtual const std::vector<FoundState>& found() const = 0;
};

/// Asks a staging server. Each call is one connection and keeps to its deadline.
class StagingClient {
 public:
  /// `tls`: for a server at tcp, and for what put() and get() open themselves.
  StagingClient(Endpoint server, std::string access, TlsFiles tls = {})
      : server_(std::move(server)), access_(std::move(access)), tls_(std::move(tls)) {}

  /// Sets memory aside for a state of this layout and gives the token under which to send it to
  /// the server's endpoint. kAlreadyExists: the key is held; kResourceExhausted: quota ("needs …,
  /// … of … are free"); kUnauthenticated: access word; kUnavailable, kDeadlineExceeded.
  absl::StatusOr<Token> reserve(std::string_view key, const Layout& layout, Deadline deadline);

  /// reserve() and send(). On an error the reservation is given back.
  absl::StatusOr<TransferReport> put(std::string_view key, const Arena& arena,
                                     const SendOptions& options);

  /// Has the server send the state to a receiver that expects it under `token`; returns when it
  /// has arrived. The state stays staged. kNotFound: no such key, or not whole.
  absl::StatusOr<TransferReport> forward(std::string_view key, const Endpoint& to,
                                         const Token& token, const SendOptions& options);

  /// Gets the state into an arena of this process: a receiver of its own and forward().
  absl::StatusOr<TransferReport> get(std::string_view key, std::shared_ptr<Arena> target,
                                     const SendOptions& options);

  /// The successor lives: the state is deleted and its memory returned. kNotFound: no such key.
  absl::Status confirm(std::string_view key, Deadline deadline);

  absl::StatusOr<std::vector<StagedState>> states(Deadline deadline);

 private:
  Endpoint server_;
  std::string access_;
  TlsFiles tls_;
};

}  // namespace monkeytree
