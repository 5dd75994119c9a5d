#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "state/checksum.h"
#include "state/layout.h"

namespace monkeytree {

/// Over ucx a chunk is a message of its number; this is a probe's.
inline constexpr uint64_t kProbeMessage = uint64_t{1} << 63;

/// Where a chunk lies.
struct ChunkPlace {
  size_t buffer = 0;
  uint64_t offset = 0;  ///< within the buffer
  uint64_t bytes = 0;   ///< kChunkBytes, or less at a buffer's end
};

/// The chunks of a layout, numbered through all buffers in order. An empty buffer has none.
class ChunkMap {
 public:
  explicit ChunkMap(const Layout& layout) {
    first_.reserve(layout.size() + 1);
    sizes_.reserve(layout.size());
    uint64_t count = 0;
    for (const BufferSpec& buffer : layout) {
      first_.push_back(count);
      sizes_.push_back(buffer.bytes);
      count += (buffer.bytes + kChunkBytes - 1) / kChunkBytes;
    }
    first_.push_back(count);
  }

  uint64_t count() const { return first_.back(); }
  size_t buffers() const { return sizes_.size(); }
  uint64_t first(size_t buffer) const { return first_[buffer]; }
  uint64_t end(size_t buffer) const { return first_[buffer + 1]; }

  /// `chunk` < count(). O(log buffers).
  ChunkPlace place(uint64_t chunk) const {
    const auto next = std::upper_bound(first_.begin(), first_.end(), chunk);
    const auto buffer = static_cast<size_t>(next - first_.begin()) - 1;
    const uint64_t offset = (chunk - first_[buffer]) * kChunkBytes;
    return {buffer, offset, std::min(kChunkBytes, sizes_[buffer] - offset)};
  }

 private:
  std::vector<uint64_t> first_;  ///< per buffer, and the count at the end
  std::vector<uint64_t> sizes_;
};

}  // namespace monkeytree
