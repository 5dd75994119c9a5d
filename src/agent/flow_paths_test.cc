#include "agent/flow_paths.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>

#include "base/file.h"

namespace monkeytree {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const PreviousRoute kRoute{"4711", 0, 0, "n1", "n2", "r1", "r2", 1};

/// Ports leave by their remainder; counts what it is asked.
class RemainderPaths : public PathSource {
 public:
  explicit RemainderPaths(const std::atomic<int>& uplinks) : uplinks_(uplinks) {}
  absl::StatusOr<std::vector<int>> uplinks(std::span<const PacketHeader> headers) override {
    if (uplinks_ == 0) return absl::UnavailableError("nobody answers");
    std::vector<int> answers;
    for (const PacketHeader& header : headers) answers.push_back(header.source_port % uplinks_);
    asked += static_cast<int>(headers.size());
    return answers;
  }
  int asked = 0;

 private:
  const std::atomic<int>& uplinks_;
};

FlowPort flow_of(const PreviousRoute& route) {
  return {route, {0x0a000002, 0x0a010002, Protocol::kUdp, 0, kRocePort}};
}

TEST(FillPortsTest, PortsAreKeptWhileTheyHoldAndFoundAnewElsewhere) {
  std::atomic<int> uplinks = 2;
  RemainderPaths source(uplinks);
  PortCache cache;
  PreviousRoute other = kRoute;
  other.uplink = 0;
  std::vector<FlowPort> flows = {flow_of(kRoute), flow_of(other), flow_of(kRoute)};
  ASSERT_TRUE(fill_ports(source, cache, flows).ok());
  EXPECT_EQ(flows[0].header.source_port % 2, 1);
  EXPECT_EQ(flows[1].header.source_port % 2, 0);
  EXPECT_EQ(flows[2].header.source_port, flows[0].header.source_port);
  EXPECT_GE(flows[0].header.source_port, kRocePorts.first);

  const std::vector<FlowPort> first = flows;
  source.asked = 0;
  ASSERT_TRUE(fill_ports(source, cache, flows).ok());
  EXPECT_EQ(flows[0].header, first[0].header);
  EXPECT_EQ(source.asked, 2);  // only whether they hold

  uplinks = 1;  // uplink 1 has failed
  ASSERT_TRUE(fill_ports(source, cache, flows).ok());
  EXPECT_EQ(flows[0].header.source_port, 0);
  EXPECT_EQ(flows[1].header, first[1].header);
  uplinks = 0;  // nothing is known; what was found is not thrown away
  EXPECT_EQ(fill_ports(source, cache, flows).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(flows[1].header, first[1].header);
  uplinks = 2;
  ASSERT_TRUE(fill_ports(source, cache, flows).ok());
  EXPECT_EQ(flows[0].header.source_port % 2, 1);
}

class FlowPathsTest : public ::testing::Test {
 protected:
  FlowPathsTest() {
    std::string pattern = std::filesystem::temp_directory_path() / "flow_paths_XXXXXX";
    folder_ = mkdtemp(pattern.data());
    options_.file = folder_ + "/ports.json";
    options_.recheck = std::chrono::milliseconds(5);
    options_.source_address = 0x0a000002;
    options_.address_of = [](const std::string& node) {
      return node == "n2" ? std::optional<uint32_t>(0x0a010002) : std::nullopt;
    };
  }
  ~FlowPathsTest() override { std::filesystem::remove_all(folder_); }
  std::string text() const { return read_file(options_.file).value_or(""); }
  bool becomes(const std::string& part) const {
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (text().find(part) == std::string::npos) {
      if (std::chrono::steady_clock::now() > give_up) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return true;
  }

  std::string folder_;
  FlowPaths::Options options_;
  std::atomic<int> uplinks_ = 2;
};

TEST_F(FlowPathsTest, TheFileFollowsRoutesAndTheFabric) {
  FlowPaths paths(std::make_unique<RemainderPaths>(uplinks_), options_);
  PreviousRoute nowhere = kRoute, unrouted = kRoute;
  nowhere.to = "n9";
  unrouted.uplink = -1;
  paths.set_routes({kRoute, nowhere, unrouted});
  EXPECT_TRUE(becomes("\"flow_label\":"));
  EXPECT_THAT(text(), HasSubstr("\"to\":\"n2\",\"uplink\":1,\"source\":\"10.0.0.2\""));
  EXPECT_THAT(text(), Not(HasSubstr("n9")));
  uplinks_ = 1;
  EXPECT_TRUE(becomes("\"source_port\":null"));
  uplinks_ = 2;
  EXPECT_TRUE(becomes("\"flow_label\":"));
  paths.set_routes({});
  EXPECT_TRUE(becomes("\"flows\":[]"));
}

TEST_F(FlowPathsTest, WorkersAreToldThePortsOfTheirConnections) {
  std::mutex mutex;
  std::map<WorkerName, AgentPorts> told;
  int tellings = 0;
  options_.file.clear();
  FlowPaths paths(std::make_unique<RemainderPaths>(uplinks_), options_);
  const WorkerName mine{"4711", 0, 3}, other{"4712", 0, 0};
  const WorkerFlow flow{0, "10.1.0.2", 40123};
  paths.set_flows({{mine, {{flow}}}, {other, {{flow}}}});
  paths.on_ports([&](const WorkerName& name, const AgentPorts& ports) {
    const std::lock_guard lock(mutex);
    told[name] = ports;
    ++tellings;
  });
  const auto until = [&](const std::function<bool()>& what) {
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (std::chrono::steady_clock::now() < give_up) {
      {
        const std::lock_guard lock(mutex);
        if (what()) return true;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return false;
  };
  const auto port = [&](const WorkerName& name) {
    return told.contains(name) ? told[name].flows.at(0).source_port : -1;
  };
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_TRUE(until([&] { return tellings == 0; }));  // no routes are known yet
  paths.set_routes({kRoute});
  EXPECT_TRUE(until([&] { return port(mine) > 0 && port(other) == 0; }));
  EXPECT_EQ(port(mine) % 2, 1);
  EXPECT_GE(port(mine), kTcpPorts.first);
  EXPECT_LE(port(mine), kTcpPorts.last);
  PreviousRoute moved = kRoute;
  moved.uplink = 0;
  paths.set_routes({moved});
  EXPECT_TRUE(until([&] { return port(mine) > 0 && port(mine) % 2 == 0; }));
  uplinks_ = 1;
  paths.set_routes({kRoute});  // by an uplink that has failed: none is known
  EXPECT_TRUE(until([&] { return port(mine) == 0; }));
  const int before = tellings;
  paths.set_flows({{mine, {{flow}}}});  // it has come again, and knows nothing
  EXPECT_TRUE(until([&] { return tellings > before; }));
  paths.stop();
}

TEST_F(FlowPathsTest, BeforeTheFirstRoutesTheFileIsLeftAsItIs) {
  ASSERT_TRUE(write_file(options_.file, "from before").ok());
  std::atomic<bool> asked = false;
  options_.address_of = [&](const std::string&) {
    asked = true;
    return std::optional<uint32_t>(1);
  };
  {
    FlowPaths paths(std::make_unique<RemainderPaths>(uplinks_), options_);
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    EXPECT_EQ(text(), "from before");
    paths.set_routes({kRoute});
    EXPECT_TRUE(becomes("monkeytree/ports/v1"));
  }
  EXPECT_TRUE(asked);
}

TEST(ResolveNodeTest, AddressesStandForThemselves) {
  EXPECT_EQ(resolve_node("10.0.0.2"), 0x0a000002U);
  EXPECT_EQ(resolve_node("no such node"), std::nullopt);
}

}  // namespace
}  // namespace monkeytree
