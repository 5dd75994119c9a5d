#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace monkeytree {

enum class Protocol : uint8_t { kTcp = 6, kUdp = 17 };

/// What a switch reads of a packet to choose its uplink (IPv4).
struct PacketHeader {
  uint32_t source = 0, destination = 0;  ///< addresses; 10.0.0.2 is 0x0a000002
  Protocol protocol = Protocol::kTcp;
  uint16_t source_port = 0, destination_port = 0;
  friend auto operator<=>(const PacketHeader&, const PacketHeader&) = default;
};

/// The header of packets that go the other way.
PacketHeader reversed(const PacketHeader& header);

/// The header with another source port.
PacketHeader from_port(PacketHeader header, uint16_t port);

/// "10.0.0.2" as a number; nullopt where the text is no IPv4 address.
std::optional<uint32_t> parse_ipv4(std::string_view text);
std::string ipv4_text(uint32_t address);

}  // namespace monkeytree
