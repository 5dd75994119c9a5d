#include "state/memory_copy.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "base/json.h"

namespace monkeytree {
namespace {

/// Chunks that are to be copied, taken one by one by several threads.
class Copy {
 public:
  Copy(const Arena& source, std::span<const size_t> buffers, Incoming& incoming,
       Connection& connection)
      : source_(source), incoming_(incoming), connection_(connection) {
    for (const size_t buffer : buffers) {
      const ChunkMap& map = incoming.chunks();
      for (uint64_t i = map.first(buffer); i < map.end(buffer); ++i) chunks_.push_back(i);
    }
  }

  /// `speaks`: this thread may write to the connection.
  void work(bool speaks) {
    auto spoken = Clock::now();
    while (!failed_) {
      const size_t at = next_.fetch_add(1);
      if (at >= chunks_.size()) return;
      // A chunk that cannot be claimed has been checked, or the transfer has ended.
      if (!incoming_.claim(connection_, chunks_[at])) continue;
      const ChunkPlace place = incoming_.chunks().place(chunks_[at]);
      const auto from = source_.buffer(place.buffer).subspan(place.offset, place.bytes);
      incoming_.complete(chunks_[at], copy_with_checksum(incoming_.bytes_of(place).data(), from));
      incoming_.count_received(place.bytes);
      if (!speaks || Clock::now() - spoken < std::chrono::milliseconds(500)) continue;
      spoken = Clock::now();
      failed_ = !connection_.write_frame(FrameType::kProgress, 0, "").ok();
    }
  }

  size_t count() const { return chunks_.size(); }

 private:
  const Arena& source_;
  Incoming& incoming_;
  Connection& connection_;
  std::vector<uint64_t> chunks_;
  std::atomic<size_t> next_ = 0;
  std::atomic<bool> failed_ = false;
};

int useful_threads(int wanted, size_t chunks) {
  constexpr size_t kChunksPerThread = 16;  // less does not pay for a thread
  constexpr int kMost = 8;                 // a few fill the memory's bandwidth
  const int most = static_cast<int>(std::min<size_t>(chunks / kChunksPerThread + 1, 64));
  if (wanted > 0) return std::min(wanted, most);
  const int cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  return std::min({cores, kMost, most});
}

absl::Status check_committed(const Arena& source, uint64_t epoch) {
  if (source.committed_epoch() == epoch) return absl::OkStatus();
  return absl::FailedPreconditionError(
      fmt::format("the source is not committed at epoch {}", epoch));
}

}  // namespace

absl::Status copy_memory(const Arena& source, uint64_t epoch, std::span<const size_t> buffers,
                         Incoming& incoming, Connection& connection, int threads) {
  if (absl::Status status = check_committed(source, epoch); !status.ok()) return status;
  Copy copy(source, buffers, incoming, connection);
  std::vector<std::thread> helpers;
  for (int i = 1; i < useful_threads(threads, copy.count()); ++i) {
    try {
      helpers.emplace_back([&copy] { copy.work(false); });
    } catch (const std::system_error&) {
      break;  // those that are there do the work
    }
  }
  copy.work(true);
  for (std::thread& helper : helpers) helper.join();
  if (absl::Status status = check_committed(source, epoch); !status.ok()) return status;
  if (!source.has_checksums()) return absl::OkStatus();
  for (const size_t buffer : buffers) {
    if (incoming.buffer_sum(buffer) == source.recorded_checksum(buffer)) continue;
    return absl::FailedPreconditionError(fmt::format(
        "buffer {} of the source is not what was committed", quote(source.layout()[buffer].name)));
  }
  return absl::OkStatus();
}

}  // namespace monkeytree
