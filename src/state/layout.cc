#include "state/layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/json.h"

namespace monkeytree {
namespace {

constexpr uint64_t kPage = 4096;

uint64_t round_up(uint64_t value, uint64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

uint64_t entry_bytes(const BufferSpec& buffer) { return 16 + round_up(buffer.name.size(), 8); }

absl::Status check(const BufferSpec& buffer, size_t index) {
  if (buffer.name.empty() || buffer.name.size() > BufferSpec::kMaxNameBytes) {
    return absl::InvalidArgumentError(fmt::format("buffer {}: a name of {} bytes, expected 1 to {}",
                                                  index, buffer.name.size(),
                                                  BufferSpec::kMaxNameBytes));
  }
  if (buffer.alignment != 64 && buffer.alignment != kPage) {
    return absl::InvalidArgumentError(fmt::format("buffer {}: alignment {}, expected 64 or 4096",
                                                  quote(buffer.name), buffer.alignment));
  }
  if (buffer.bytes > kMaxArenaBytes) {
    return absl::InvalidArgumentError(fmt::format(
        "buffer {}: {} bytes, the limit is {}", quote(buffer.name), buffer.bytes, kMaxArenaBytes));
  }
  return absl::OkStatus();
}

absl::Status check_unique(const Layout& layout) {
  std::vector<std::string_view> names;
  names.reserve(layout.size());
  for (const BufferSpec& buffer : layout) names.emplace_back(buffer.name);
  std::sort(names.begin(), names.end());
  const auto twin = std::adjacent_find(names.begin(), names.end());
  if (twin == names.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format("two buffers are named {}", quote(*twin)));
}

template <class T>
void append(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

}  // namespace

absl::StatusOr<Geometry> geometry_of(const Layout& layout) {
  if (layout.size() > kMaxBuffers) {
    return absl::InvalidArgumentError(
        fmt::format("{} buffers, the limit is {}", layout.size(), kMaxBuffers));
  }
  Geometry geometry;
  for (size_t i = 0; i < layout.size(); ++i) {
    if (absl::Status status = check(layout[i], i); !status.ok()) return status;
    geometry.directory_bytes += entry_bytes(layout[i]);
  }
  if (absl::Status status = check_unique(layout); !status.ok()) return status;
  if (geometry.directory_bytes > kMaxDirectoryBytes) {
    return absl::InvalidArgumentError(
        fmt::format("names and sizes of buffers take {} bytes, the limit is {}",
                    geometry.directory_bytes, kMaxDirectoryBytes));
  }
  geometry.checksums_offset = round_up(kPage + geometry.directory_bytes, 64);
  uint64_t at = round_up(geometry.checksums_offset + 8 * layout.size(), kPage);
  geometry.offsets.reserve(layout.size());
  for (const BufferSpec& buffer : layout) {
    at = round_up(at, buffer.alignment);
    geometry.offsets.push_back(at);
    at += buffer.bytes;
    geometry.payload_bytes += buffer.bytes;
    if (at > kMaxArenaBytes) {
      return absl::InvalidArgumentError(
          fmt::format("the buffers take more than {} bytes", kMaxArenaBytes));
    }
  }
  geometry.total_bytes = round_up(at, kPage);
  return geometry;
}

std::string encode_layout(const Layout& layout) {
  std::string out;
  for (const BufferSpec& buffer : layout) {
    append(out, buffer.bytes);
    append(out, static_cast<uint32_t>(buffer.alignment));
    append(out, static_cast<uint32_t>(buffer.name.size()));
    out += buffer.name;
    out.resize(round_up(out.size(), 8));
  }
  return out;
}

absl::StatusOr<Layout> decode_layout(std::string_view bytes, size_t buffers) {
  const absl::Status bad = absl::InvalidArgumentError("a list of buffers that does not hold");
  if (buffers > kMaxBuffers || buffers > bytes.size() / 24 || bytes.size() > kMaxDirectoryBytes) {
    return bad;
  }
  Layout layout;
  layout.reserve(buffers);
  for (size_t i = 0; i < buffers; ++i) {
    if (bytes.size() < 16) return bad;
    BufferSpec buffer;
    uint32_t alignment = 0;
    uint32_t name_bytes = 0;
    std::memcpy(&buffer.bytes, bytes.data(), 8);
    std::memcpy(&alignment, bytes.data() + 8, 4);
    std::memcpy(&name_bytes, bytes.data() + 12, 4);
    buffer.alignment = alignment;
    if (name_bytes == 0 || name_bytes > BufferSpec::kMaxNameBytes) return bad;
    const size_t padded = round_up(name_bytes, 8);
    if (bytes.size() - 16 < padded) return bad;
    buffer.name = bytes.substr(16, name_bytes);
    if (bytes.substr(16 + name_bytes, padded - name_bytes).find_first_not_of('\0') !=
        std::string_view::npos) {
      return bad;
    }
    bytes.remove_prefix(16 + padded);
    layout.push_back(std::move(buffer));
  }
  if (!bytes.empty()) return bad;
  return layout;
}

std::string layout_difference(const Layout& have, const Layout& wanted) {
  for (size_t i = 0; i < std::min(have.size(), wanted.size()); ++i) {
    if (have[i].name != wanted[i].name) {
      return fmt::format("buffer {} is {}, expected {}", i, quote(have[i].name),
                         quote(wanted[i].name));
    }
    if (have[i].bytes != wanted[i].bytes) {
      return fmt::format("buffer {} has {} bytes, expected {}", quote(have[i].name), have[i].bytes,
                         wanted[i].bytes);
    }
    if (have[i].alignment != wanted[i].alignment) {
      return fmt::format("buffer {} has alignment {}, expected {}", quote(have[i].name),
                         have[i].alignment, wanted[i].alignment);
    }
  }
  if (have.size() == wanted.size()) return "";
  return fmt::format("{} buffers, expected {}", have.size(), wanted.size());
}

}  // namespace monkeytree
