#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "state/arena.h"
#include "state/chunks.h"
#include "state/connection.h"
#include "state/transfer.h"

namespace monkeytree {

/// One expected transfer: which chunks of the target have arrived, and whose connections bring
/// them. Thread-safe. A chunk is written by the one connection that has claimed it, and never
/// again once it is checked.
class Incoming {
 public:
  Incoming(std::shared_ptr<Arena> target, Deadline deadline);

  const Layout& layout() const { return target_->layout(); }
  const ChunkMap& chunks() const { return chunks_; }
  std::span<std::byte> bytes_of(const ChunkPlace& place) {
    return target_->buffer(place.buffer).subspan(place.offset, place.bytes);
  }
  Deadline deadline() const { return deadline_; }

  /// A sender's control connection: earlier connections of the same part are cut, and gone when
  /// this returns. kCancelled and the like once the transfer has ended otherwise than well.
  absl::Status attach_control(Connection& connection, uint64_t part, uint64_t session);
  /// One of its streams; kUnavailable where a newer control connection has come.
  absl::Status attach_stream(Connection& connection, uint64_t part, uint64_t session);
  void detach(Connection& connection);

  /// A part is about to send the state of `epoch`: what has arrived. Of another epoch before it,
  /// nothing counts any more and its connections are cut.
  absl::StatusOr<std::vector<bool>> begin(Connection& connection, uint64_t epoch);

  /// Whether this connection may write the chunk: it is neither checked nor being written.
  bool claim(Connection& connection, uint64_t chunk);
  void complete(uint64_t chunk, uint64_t sum);
  void release(uint64_t chunk);
  void count_received(uint64_t bytes);

  /// A part's buffers (indices) with their checksums. True: all buffers are there and the target
  /// is committed. kDataLoss names a buffer that did not arrive as it was sent.
  absl::StatusOr<bool> finish(std::span<const size_t> buffers, std::span<const uint64_t> sums);

  /// The checksum of a buffer whose chunks have all been checked.
  uint64_t buffer_sum(size_t buffer) const;

  /// Ends a transfer that has not ended; returns when nothing writes to the target any more.
  void end(absl::Status why);
  /// Waits; nullopt at `deadline`. A transfer past its own deadline is ended here.
  std::optional<absl::StatusOr<TransferReport>> wait(Deadline deadline);
  bool ended() const;
  uint64_t received_bytes() const;

 private:
  enum class Chunk : uint8_t { kMissing, kClaimed, kChecked };
  struct Attached {
    Connection* connection;
    uint64_t part;
    uint64_t session;
    bool begun = false;
    bool cut = false;
  };

  absl::Status attach(Connection& connection, uint64_t part, uint64_t session);
  template <class Which>
  bool cut(std::unique_lock<std::mutex>& lock, const Connection* self, Which which);
  Attached* find(const Connection& connection);

  const std::shared_ptr<Arena> target_;
  const ChunkMap chunks_;
  const Deadline deadline_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Attached> attached_;
  std::vector<Chunk> states_;
  std::vector<uint64_t> sums_;      ///< of checked chunks
  std::vector<bool> buffer_there_;  ///< finished and in agreement with its sender
  size_t buffers_missing_;
  std::optional<uint64_t> epoch_;
  std::optional<absl::Status> ended_;
  std::optional<Clock::time_point> first_connection_;
  uint64_t checked_bytes_ = 0;
  TransferReport report_;
};

}  // namespace monkeytree
