#include "routing/packet_header.h"

#include <fmt/format.h>

#include <charconv>
#include <utility>

namespace monkeytree {

PacketHeader reversed(const PacketHeader& header) {
  PacketHeader back = header;
  std::swap(back.source, back.destination);
  std::swap(back.source_port, back.destination_port);
  return back;
}

PacketHeader from_port(PacketHeader header, uint16_t port) {
  header.source_port = port;
  return header;
}

std::optional<uint32_t> parse_ipv4(std::string_view text) {
  const char* at = text.data();
  const char* const end = at + text.size();
  uint32_t address = 0;
  for (int i = 0; i < 4; ++i) {
    if (i > 0 && (at == end || *at++ != '.')) return std::nullopt;
    uint8_t part = 0;
    const auto [next, fault] = std::from_chars(at, end, part);
    if (fault != std::errc()) return std::nullopt;
    address = address << 8 | part;
    at = next;
  }
  if (at != end) return std::nullopt;
  return address;
}

std::string ipv4_text(uint32_t address) {
  return fmt::format("{}.{}.{}.{}", address >> 24, address >> 16 & 0xff, address >> 8 & 0xff,
                     address & 0xff);
}

}  // namespace monkeytree
