#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "routing/packet_header.h"
#include "routing/routes.h"

namespace monkeytree {

/// RoCE version 2 travels in UDP to this port.
inline constexpr uint16_t kRocePort = 4791;

/// A queue pair has no source port to choose but a flow label of 20 bits, from which the drivers
/// make one: its low 14 bits, xored with its high 6, below 0xc000. This is the label for a port
/// from 49152; never 0, which drivers take for none.
uint32_t flow_label_of(uint16_t port);
/// The port that a flow label leads to.
uint16_t port_of_flow_label(uint32_t label);

/// A routed flow and the header that takes it up its uplink; source port 0: none is known.
struct FlowPort {
  PreviousRoute route;
  PacketHeader header;
};

/// `monkeytree/ports/v1` (docs/paths.md): a line for each flow, in their order; flows to kRocePort
/// over UDP with their flow label. Ends in a newline.
std::string write_flow_ports(const std::vector<FlowPort>& flows);

}  // namespace monkeytree
