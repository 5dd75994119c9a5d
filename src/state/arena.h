#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "state/fd.h"
#include "state/layout.h"

namespace monkeytree {

/// A piece of somebody's memory and where it belongs in a buffer.
struct ConstPiece {
  const void* data = nullptr;
  uint64_t bytes = 0;
  uint64_t offset = 0;  ///< from the start of the buffer
};
struct Piece {
  void* data = nullptr;
  uint64_t bytes = 0;
  uint64_t offset = 0;
};

/// A worker's state in memory that can be handed to another process: a memfd that holds named,
/// aligned buffers behind a header. Its state is *committed at an epoch* or not committed; the
/// word that says so is written last, so that a process killed at any moment leaves either the
/// whole state or none.
///
///     auto arena = Arena::create({{"weights", 4096}, {"rng", 5056}});
///     arena->begin_epoch();                    // from here on the state is nobody's
///     ... write through arena->buffer(0) ...
///     arena->commit(17);                       // whole again, as of iteration 17
///     send arena->fd() over a unix socket; there: Arena::open(Fd(received))
///
/// What another process may write is read once and checked, or read only as a number: a hostile
/// peer can spoil the bytes of the buffers, never this process. The mapping lives as long as the
/// object, which may be moved (addresses stay). Not thread-safe, except that different threads may
/// use the bytes of different buffers.
class Arena {
 public:
  struct Options {
    /// Allocates every page now, so that no first touch slows the move and running out of memory
    /// is an error here, not a signal later.
    bool prefault = true;
    /// A file to make the arena in, in place of a memfd: it outlives this process until somebody
    /// removes it. Must not be there yet.
    std::string file = {};
    /// open(): a file that is this user's alone will do, in place of a sealed memfd.
    bool own_file = false;
  };

  /// A new arena of zeros, not committed. kInvalidArgument: the layout; kResourceExhausted: memory.
  static absl::StatusOr<Arena> create(const Layout& layout, const Options& options);
  static absl::StatusOr<Arena> create(const Layout& layout) { return create(layout, Options()); }

  /// Maps an arena that another process made and may still write to, or a file that an earlier
  /// process of this user made. kInvalidArgument names what is wrong: no memory that nobody else
  /// can cut short (a memfd that is sealed, a file that is ours alone), a header or a directory
  /// that does not hold.
  static absl::StatusOr<Arena> open(Fd fd, const Options& options);
  static absl::StatusOr<Arena> open(Fd fd) { return open(std::move(fd), Options()); }

  Arena(Arena&& other) noexcept;
  Arena& operator=(Arena&& other) noexcept;
  ~Arena();

  /// The memfd, to be sent to another process; stays ours.
  int fd() const { return fd_.get(); }
  /// All memory it takes, header included.
  uint64_t bytes() const { return geometry_.total_bytes; }
  /// Bytes of all buffers.
  uint64_t payload_bytes() const { return geometry_.payload_bytes; }

  const Layout& layout() const { return layout_; }
  size_t buffer_count() const { return layout_.size(); }
  std::optional<size_t> find(std::string_view name) const;
  std::span<std::byte> buffer(size_t index);
  std::span<const std::byte> buffer(size_t index) const;
  /// Where a buffer begins, from the start of the memfd.
  uint64_t offset(size_t index) const { return geometry_.offsets[index]; }

  /// The state is being changed: no longer committed.
  void begin_epoch();
  /// The state is whole, as of `epoch` (the iteration it belongs to); its checksums are not known.
  /// O(1).
  void commit(uint64_t epoch);
  /// commit() with the checksum of every buffer, so that verify() can tell. O(bytes), or O(buffers)
  /// where `sums` gives them.
  void commit_with_checksums(uint64_t epoch);
  void commit_with_checksums(uint64_t epoch, std::span<const uint64_t> sums);

  /// The epoch, where committed.
  std::optional<uint64_t> committed_epoch() const;
  /// Something stands where the commit word is: without an epoch it has been damaged since.
  bool was_committed() const;
  /// Whether the commit recorded checksums.
  bool has_checksums() const;
  /// The recorded checksum of a buffer; meaningful where has_checksums().
  uint64_t recorded_checksum(size_t index) const;
  /// kFailedPrecondition: not committed, or without checksums; kDataLoss names the first buffer
  /// whose bytes are not those that were committed. O(bytes).
  absl::Status verify() const;

  /// Copies pieces of memory into a buffer, or out of it. kOutOfRange: a piece beyond its end.
  absl::Status gather(size_t index, std::span<const ConstPiece> pieces);
  absl::Status scatter(size_t index, std::span<const Piece> pieces) const;

 private:
  Arena() = default;
  absl::Status map(bool populated);
  absl::Status populate();
  void index_names();
  void store_commit(uint64_t epoch, uint64_t flags);
  uint64_t load(size_t word) const;
  void store(size_t word, uint64_t value);

  Fd fd_;
  std::byte* memory_ = nullptr;
  // Private copies: what stands in the shared header may be changed by a peer at any time.
  Layout layout_;
  Geometry geometry_;
  std::vector<uint32_t> by_name_;  ///< indices in the order of names
};

}  // namespace monkeytree
