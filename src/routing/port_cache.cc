#include "routing/port_cache.h"

#include <utility>
#include <vector>

namespace monkeytree {

std::optional<uint16_t> PortCache::find(const PacketHeader& flow, int uplink) const {
  const auto found = ports_.find({from_port(flow, 0), uplink});
  if (found == ports_.end()) return std::nullopt;
  return found->second.port;
}

void PortCache::keep(const PacketHeader& flow, int uplink, uint16_t port,
                     std::string_view from_rack, std::string_view to_rack) {
  ports_[{from_port(flow, 0), uplink}] = {port, std::string(from_rack), std::string(to_rack)};
}

size_t PortCache::forget(std::string_view rack) {
  return std::erase_if(ports_, [&](const auto& entry) {
    return entry.second.from_rack == rack || entry.second.to_rack == rack;
  });
}

void PortCache::keep_only(const std::set<PacketHeader>& flows) {
  std::set<PacketHeader> kept;
  for (const PacketHeader& flow : flows) kept.insert(from_port(flow, 0));
  std::erase_if(ports_, [&](const auto& entry) { return !kept.contains(entry.first.flow); });
}

absl::StatusOr<size_t> PortCache::verify(PathSource& source) {
  std::vector<PacketHeader> headers;
  headers.reserve(ports_.size());
  for (const auto& [key, port] : ports_) headers.push_back(from_port(key.flow, port.port));
  if (headers.empty()) return size_t{0};
  const absl::StatusOr<std::vector<int>> uplinks = source.uplinks(headers);
  if (!uplinks.ok()) return uplinks.status();
  size_t i = 0;
  return std::erase_if(ports_, [&](const auto& entry) {
    const int uplink = (*uplinks)[i++];
    return uplink != entry.first.uplink && uplink != kPortInUse;
  });
}

}  // namespace monkeytree
