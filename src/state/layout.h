#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace monkeytree {

/// One named piece of a worker's state.
struct BufferSpec {
  std::string name;         ///< unique in its arena, 1 to kMaxNameBytes bytes
  uint64_t bytes = 0;       ///< may be 0
  uint64_t alignment = 64;  ///< 64 or 4096

  static constexpr size_t kMaxNameBytes = 512;
  friend bool operator==(const BufferSpec&, const BufferSpec&) = default;
};

/// Buffers in the order in which they lie. Arenas of equal layouts have equal offsets, and only
/// between such is state moved.
using Layout = std::vector<BufferSpec>;

inline constexpr size_t kMaxBuffers = size_t{1} << 20;
inline constexpr uint64_t kMaxArenaBytes = uint64_t{1} << 46;
inline constexpr uint64_t kMaxDirectoryBytes = uint64_t{64} << 20;

/// Where everything lies in the memfd of an arena.
struct Geometry {
  uint64_t directory_bytes = 0;
  uint64_t checksums_offset = 0;
  std::vector<uint64_t> offsets;  ///< of the buffers
  uint64_t payload_bytes = 0;     ///< of all buffers
  uint64_t total_bytes = 0;       ///< header included, whole pages
};

/// kInvalidArgument names the fault: an empty, too long or duplicate name, a wrong alignment, more
/// buffers or bytes than the limits above. O(n log n).
absl::StatusOr<Geometry> geometry_of(const Layout& layout);

/// The layout as bytes, in the arena's directory and on the wire: for each buffer its bytes (8),
/// alignment (4), length of the name (4) and the name padded to 8, little-endian.
std::string encode_layout(const Layout& layout);

/// Reads what encode_layout() wrote; of hostile bytes it gives a layout or kInvalidArgument. Does
/// not check what geometry_of() checks.
absl::StatusOr<Layout> decode_layout(std::string_view bytes, size_t buffers);

/// Says where two layouts differ first; empty where they are equal.
std::string layout_difference(const Layout& have, const Layout& wanted);

}  // namespace monkeytree
