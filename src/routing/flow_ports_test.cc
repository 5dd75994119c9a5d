#include "routing/flow_ports.h"

#include <gtest/gtest.h>

namespace monkeytree {
namespace {

TEST(FlowPortsTest, EveryRocePortHasALabelThatLeadsToIt) {
  for (int port = 49152; port <= 65535; ++port) {
    const uint32_t label = flow_label_of(static_cast<uint16_t>(port));
    ASSERT_GT(label, 0U);
    ASSERT_LT(label, 1U << 20);
    ASSERT_EQ(port_of_flow_label(label), port);
  }
  EXPECT_EQ(port_of_flow_label(0xfffff), 0xc000 | (0x3fff ^ 0x3f));
}

TEST(FlowPortsTest, FlowsAreWrittenWithWhatANetworkPluginSets) {
  EXPECT_EQ(write_flow_ports({}), "{\"schema\":\"monkeytree/ports/v1\",\"flows\":[]}\n");
  const PreviousRoute route{"4711", 0, 1, "n1", "n2", "r1", "r2", 3};
  const std::vector<FlowPort> flows = {
      {route, {0x0a000002, 0x0a030102, Protocol::kUdp, 49160, kRocePort}},
      {route, {0x0a000002, 0x0a030102, Protocol::kTcp, 20480, 5201}}};
  EXPECT_EQ(write_flow_ports(flows),
            "{\"schema\":\"monkeytree/ports/v1\",\"flows\":[\n"
            "  {\"job\":\"4711\",\"group\":0,\"ring\":1,\"from\":\"n1\",\"to\":\"n2\",\"uplink\":3,"
            "\"source\":\"10.0.0.2\",\"destination\":\"10.3.1.2\",\"protocol\":\"udp\","
            "\"source_port\":49160,\"destination_port\":4791,\"flow_label\":8},\n"
            "  {\"job\":\"4711\",\"group\":0,\"ring\":1,\"from\":\"n1\",\"to\":\"n2\",\"uplink\":3,"
            "\"source\":\"10.0.0.2\",\"destination\":\"10.3.1.2\",\"protocol\":\"tcp\","
            "\"source_port\":20480,\"destination_port\":5201}\n]}\n");
}

}  // namespace
}  // namespace monkeytree
