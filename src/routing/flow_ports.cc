#include "routing/flow_ports.h"

#include <nlohmann/json.hpp>

namespace monkeytree {
namespace {

constexpr uint32_t kLowBits = 0x3fff;

}  // namespace

uint32_t flow_label_of(uint16_t port) {
  const uint32_t low = port & kLowBits;
  return low == 0 ? 1U << 14 | 1U : low;
}

uint16_t port_of_flow_label(uint32_t label) {
  return static_cast<uint16_t>(0xc000 | ((label & kLowBits) ^ (label >> 14 & 0x3f)));
}

std::string write_flow_ports(const std::vector<FlowPort>& flows) {
  std::string out = "{\"schema\":\"monkeytree/ports/v1\",\"flows\":[";
  bool first = true;
  for (const auto& [route, header] : flows) {
    nlohmann::ordered_json flow = {{"job", route.job},
                                   {"group", route.group},
                                   {"ring", route.ring},
                                   {"from", route.from},
                                   {"to", route.to},
                                   {"uplink", route.uplink},
                                   {"source", ipv4_text(header.source)},
                                   {"destination", ipv4_text(header.destination)},
                                   {"protocol", header.protocol == Protocol::kTcp ? "tcp" : "udp"},
                                   {"source_port", nullptr},
                                   {"destination_port", header.destination_port}};
    if (header.source_port != 0) flow["source_port"] = header.source_port;
    if (header.source_port != 0 && header.protocol == Protocol::kUdp &&
        header.destination_port == kRocePort) {
      flow["flow_label"] = flow_label_of(header.source_port);
    }
    out += first ? "\n  " : ",\n  ";
    out += flow.dump();
    first = false;
  }
  return out + (first ? "]}\n" : "\n]}\n");
}

}  // namespace monkeytree
