// Path control on a real fabric: what a hash model predicts, what the router says, what probes find
// and where data then goes are one and the same.

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <thread>

#include "agent/asked_paths.h"
#include "agent/flow_paths.h"
#include "agent/probed_paths.h"
#include "base/file.h"
#include "fabric.h"
#include "fixture.h"
#include "routing/flow_ports.h"
#include "routing/port_cache.h"

namespace monkeytree {
namespace {

std::vector<int> first_uplinks(int count) {
  std::vector<int> uplinks(static_cast<size_t>(count));
  std::iota(uplinks.begin(), uplinks.end(), 0);
  return uplinks;
}

uint32_t number(const std::string& address) { return parse_ipv4(address).value_or(0); }

/// From the first host of a rack to that of another.
PacketHeader between(int from, int to, Protocol protocol, uint16_t port) {
  return {number(host_address(from, 0)), number(host_address(to, 0)), protocol, 0, port};
}

/// Probes that a host sends.
class ProbesOfHost : public PathSource {
 public:
  ProbesOfHost(const Fabric& fabric, int rack)
      : fabric_(fabric), name_(host_name(rack, 0)), paths_(options(fabric, rack)) {}
  absl::StatusOr<std::vector<int>> uplinks(std::span<const PacketHeader> headers) override {
    absl::StatusOr<std::vector<int>> answer = absl::UnknownError("");
    const absl::Status entered = fabric_.inside(name_, [&] { answer = paths_.uplinks(headers); });
    return entered.ok() ? answer : entered;
  }
  int sent() const { return paths_.sent(); }

 private:
  static ProbedPaths::Options options(const Fabric& fabric, int rack) {
    ProbedPaths::Options options;
    for (int spine = 0; spine < fabric.shape().spines; ++spine) {
      options.spines[number(spine_address(rack, spine))] = spine;
    }
    options.patience = std::chrono::seconds(5);
    return options;
  }

  const Fabric& fabric_;
  std::string name_;
  ProbedPaths paths_;
};

AskedPaths router_of(const Fabric& fabric, int rack) {
  AskedPaths::Options options;
  options.command = {"nsenter", "--net=" + fabric.path(router_name(rack))};
  options.interface = "h0";
  for (int spine = 0; spine < fabric.shape().spines; ++spine) {
    options.uplinks[fmt::format("up{}", spine)] = spine;
  }
  options.patience = std::chrono::seconds(60);
  return AskedPaths(options);
}

/// A connection that carries bytes from its first host to its second and back.
class Connection {
 public:
  /// From `header`'s source port; rack numbers of its two ends.
  bool open(const Fabric& fabric, const PacketHeader& header, int from, int to) {
    const sockaddr_in own = socket_address(header.source, header.source_port);
    const sockaddr_in far = socket_address(header.destination, header.destination_port);
    Fd listening;
    const absl::Status listens = fabric.inside(host_name(to, 0), [&] {
      listening = make_socket(far);
      if (listening.valid() && listen(listening.get(), 8) != 0) listening.reset();
    });
    const absl::Status connects = fabric.inside(host_name(from, 0), [&] {
      near_ = make_socket(own);
      if (near_.valid() &&
          connect(near_.get(), reinterpret_cast<const sockaddr*>(&far), sizeof far) != 0) {
        near_.reset();
      }
    });
    if (!listens.ok() || !connects.ok() || !listening.valid() || !near_.valid()) return false;
    far_ = Fd(accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC));
    return far_.valid();
  }
  bool carry(size_t bytes) const { return pass(near_.get(), far_.get(), bytes); }
  bool carry_back(size_t bytes) const { return pass(far_.get(), near_.get(), bytes); }

 private:
  static sockaddr_in socket_address(uint32_t address, uint16_t port) {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(address);
    at.sin_port = htons(port);
    return at;
  }
  static Fd make_socket(const sockaddr_in& at) {
    Fd made(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const int on = 1;
    setsockopt(made.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(made.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at) != 0) made.reset();
    return made;
  }
  static bool pass(int from, int to, size_t bytes) {
    std::string data(bytes, 'x'), got(bytes, '\0');
    std::thread sender([&] { send(from, data.data(), data.size(), MSG_NOSIGNAL); });
    const ssize_t arrived = recv(to, got.data(), got.size(), MSG_WAITALL);
    sender.join();
    return arrived == static_cast<ssize_t>(bytes);
  }

  Fd near_, far_;
};

/// The uplinks of a rack that carried at least `bytes` out of it between two readings.
std::vector<int> carried_up(const Fabric& fabric, const std::vector<UplinkCount>& before, int rack,
                            uint64_t bytes) {
  const auto after = fabric.counts();
  EXPECT_TRUE(after.ok()) << after.status();
  std::vector<int> uplinks;
  for (const UplinkCount& link : difference(before, *after)) {
    if (link.rack == rack && link.up_bytes >= bytes) uplinks.push_back(link.spine);
  }
  return uplinks;
}

class PathsTest : public FabricFixture {};

TEST_F(PathsTest, ProbesFindAPortForEachOf2To16UplinksAndTheRouterAgrees) {
  for (int uplinks = 2; uplinks <= 16; ++uplinks) {
    const std::unique_ptr<Fabric> fabric = up({2, 1, uplinks, 0});
    ASSERT_TRUE(fabric);
    for (const auto& [protocol, port, range] :
         {std::tuple(Protocol::kTcp, uint16_t{5201}, kTcpPorts),
          std::tuple(Protocol::kUdp, kRocePort, kRocePorts)}) {
      ProbesOfHost probes(*fabric, 0);
      PortSearch search;
      search.flow = between(0, 1, protocol, port);
      search.range = range;
      const auto found = find_ports(probes, search, first_uplinks(uplinks));
      ASSERT_TRUE(found.ok()) << found.status();
      EXPECT_EQ(found->ports.size(), static_cast<size_t>(uplinks));
      EXPECT_LE(probes.sent(), 200);
      std::vector<PacketHeader> headers;
      std::vector<int> wanted;
      for (const auto& [uplink, source_port] : found->ports) {
        headers.push_back(from_port(search.flow, source_port));
        wanted.push_back(uplink);
      }
      AskedPaths router = router_of(*fabric, 0);
      const auto said = router.uplinks(headers);
      ASSERT_TRUE(said.ok()) << said.status();
      EXPECT_EQ(*said, wanted);
    }
  }
}

TEST_F(PathsTest, AFlowGoesUpTheUplinkItsPortWasChosenFor) {
  constexpr int kUplinks = 4, kRuns = 100;
  constexpr size_t kBytes = 50000;
  const std::unique_ptr<Fabric> fabric = up({2, 1, kUplinks, 0});
  ASSERT_TRUE(fabric);
  ProbesOfHost probes(*fabric, 0);
  int right = 0;
  for (int run = 0; run < kRuns; ++run) {
    PortSearch search;
    search.flow = between(0, 1, Protocol::kTcp, static_cast<uint16_t>(6000 + run));
    const std::vector<int> wanted = {run % kUplinks};
    const auto found = find_ports(probes, search, wanted);
    ASSERT_TRUE(found.ok()) << found.status();
    ASSERT_EQ(found->ports.size(), 1U);
    const auto before = fabric->counts();
    ASSERT_TRUE(before.ok()) << before.status();
    Connection connection;
    ASSERT_TRUE(
        connection.open(*fabric, from_port(search.flow, found->ports.at(wanted.front())), 0, 1));
    ASSERT_TRUE(connection.carry(kBytes));
    right += carried_up(*fabric, *before, 0, kBytes / 2) == wanted;
  }
  EXPECT_EQ(right, kRuns);
}

TEST_F(PathsTest, OnePortTakesAConnectionItsOwnUplinksBothWays) {
  constexpr int kUplinks = 3;
  constexpr size_t kBytes = 50000;
  const std::unique_ptr<Fabric> fabric = up({2, 1, kUplinks, 0});
  ASSERT_TRUE(fabric);
  ProbesOfHost there(*fabric, 0), back(*fabric, 1);
  uint16_t port = 7000;
  for (int up = 0; up < kUplinks; ++up) {
    for (int down = 0; down < kUplinks; ++down) {
      PortSearch search;
      search.flow = between(0, 1, Protocol::kTcp, port++);
      const auto found = find_port_both_ways(there, up, back, down, search);
      ASSERT_TRUE(found.ok()) << found.status();
      ASSERT_EQ(found->ports.size(), 1U) << up << " " << down;
      Connection connection;
      ASSERT_TRUE(connection.open(*fabric, from_port(search.flow, found->ports.at(up)), 0, 1));
      const auto before = fabric->counts();
      ASSERT_TRUE(before.ok()) << before.status();
      ASSERT_TRUE(connection.carry(kBytes) && connection.carry_back(kBytes));
      EXPECT_THAT(carried_up(*fabric, *before, 0, kBytes / 2), ::testing::ElementsAre(up));
      EXPECT_THAT(carried_up(*fabric, *before, 1, kBytes / 2), ::testing::ElementsAre(down));
    }
  }
}

TEST_F(PathsTest, PortsAreFoundAnewWhenAnUplinkFails) {
  const std::unique_ptr<Fabric> fabric = up({3, 1, 3, 0});
  ASSERT_TRUE(fabric);
  const std::vector<int> all = {0, 1, 2};
  PortCache cache;
  const auto search_from = [&](int rack) {
    ProbesOfHost probes(*fabric, rack);
    PortSearch search;
    search.flow = between(rack, 1, Protocol::kTcp, 5201);
    const auto found = find_ports(probes, search, all);
    EXPECT_TRUE(found.ok()) << found.status();
    for (const auto& [uplink, port] : found->ports) {
      cache.keep(search.flow, uplink, port, fmt::format("r{}", rack), "r1");
    }
    return found->ports.size();
  };
  EXPECT_EQ(search_from(0), 3U);
  EXPECT_EQ(search_from(2), 3U);
  ASSERT_TRUE(fabric->fail(1, 2).ok());  // the destination's
  EXPECT_EQ(cache.forget("r1"), 6U);
  EXPECT_EQ(search_from(0), 2U);
  EXPECT_EQ(search_from(2), 2U);
  // Back again without anybody having said so: asking tells which ports lead elsewhere now.
  ASSERT_TRUE(fabric->repair(1, 2).ok());
  AskedPaths router = router_of(*fabric, 0);
  EXPECT_TRUE(cache.forget("r2") == 2U);
  const auto dropped = cache.verify(router);
  ASSERT_TRUE(dropped.ok()) << dropped.status();
  std::vector<PacketHeader> kept;
  const PacketHeader flow = between(0, 1, Protocol::kTcp, 5201);
  for (const int uplink : all) {
    const std::optional<uint16_t> port = cache.find(flow, uplink);
    if (!port) continue;
    EXPECT_EQ(*router.uplinks(std::vector{from_port(flow, *port)}), std::vector{uplink});
    kept.push_back(from_port(flow, *port));
  }
  EXPECT_EQ(kept.size() + *dropped, 2U);
}

/// What stands in a file of `monkeytree/ports/v1`: flows by the node they go to, their headers, and
/// the uplinks they are meant to take.
struct WrittenFlow {
  PacketHeader header;
  int uplink = -1;
};
std::vector<WrittenFlow> read_ports(const std::string& file) {
  std::vector<WrittenFlow> flows;
  const nlohmann::json all = nlohmann::json::parse(read_file(file).value_or(""), nullptr, false);
  if (!all.is_object()) return flows;
  for (const nlohmann::json& flow : all["flows"]) {
    const nlohmann::json& port = flow["source_port"];
    flows.push_back({{number(flow["source"]), number(flow["destination"]), Protocol::kUdp,
                      port.is_null() ? uint16_t{0} : port.get<uint16_t>(), kRocePort},
                     flow["uplink"]});
  }
  return flows;
}

TEST_F(PathsTest, AnAgentKeepsItsFlowsPortsTrueToTheFabric) {
  const std::unique_ptr<Fabric> fabric = up({3, 1, 3, 0});
  ASSERT_TRUE(fabric);
  std::string pattern = std::filesystem::temp_directory_path() / "fabric_ports_XXXXXX";
  const std::string folder = mkdtemp(pattern.data());
  FlowPaths::Options options;
  options.file = folder + "/ports.json";
  options.source_address = number(host_address(0, 0));
  options.recheck = std::chrono::milliseconds(20);
  std::unique_ptr<FlowPaths> paths;
  const absl::Status entered = fabric->inside(host_name(0, 0), [&] {
    ProbedPaths::Options probes;
    for (int spine = 0; spine < 3; ++spine) probes.spines[number(spine_address(0, spine))] = spine;
    paths = std::make_unique<FlowPaths>(std::make_unique<ProbedPaths>(probes), options);
  });
  ASSERT_TRUE(entered.ok());
  // Nodes are named by their addresses here.
  const auto route = [](const std::string& to, int ring, int uplink) {
    return PreviousRoute{"j", 0, ring, "10.0.0.2", to, "r0", "r1", uplink};
  };
  AskedPaths router = router_of(*fabric, 0);
  // All flows stand in the file with ports that lead where they should, by the router's own word.
  const auto settles = [&](const std::vector<int>& uplinks) {
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (std::chrono::steady_clock::now() < give_up) {
      std::vector<PacketHeader> headers;
      std::vector<int> meant;
      for (const WrittenFlow& flow : read_ports(options.file)) {
        headers.push_back(flow.header);
        meant.push_back(flow.header.source_port == 0 ? -1 : flow.uplink);
      }
      if (meant == uplinks && *router.uplinks(headers) == uplinks) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  };
  paths->set_routes({route("10.1.0.2", 0, 2), route("10.1.0.2", 1, 0), route("10.2.0.2", 0, 1)});
  EXPECT_TRUE(settles({2, 0, 1}));
  ASSERT_TRUE(fabric->fail(0, 2).ok());
  // What the controller sends once it knows: the fewest flows changed.
  paths->set_routes({route("10.1.0.2", 0, 1), route("10.1.0.2", 1, 0), route("10.2.0.2", 0, 1)});
  EXPECT_TRUE(settles({1, 0, 1}));
  ASSERT_TRUE(fabric->repair(0, 2).ok());
  EXPECT_TRUE(settles({1, 0, 1}));  // without a word: the choice among three is another
  paths.reset();
  std::filesystem::remove_all(folder);
}

TEST_F(PathsTest, OfPortsInUseRawSocketsCanTell) {
  const std::unique_ptr<Fabric> fabric = up({2, 1, 4, 0});
  ASSERT_TRUE(fabric);
  Fd listening, connections[8];
  ASSERT_TRUE(fabric
                  ->inside(host_name(1, 0),
                           [&] {
                             listening = Fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
                             sockaddr_in at{};
                             at.sin_family = AF_INET;
                             at.sin_port = htons(5201);
                             EXPECT_EQ(
                                 bind(listening.get(), reinterpret_cast<sockaddr*>(&at), sizeof at),
                                 0);
                             EXPECT_EQ(listen(listening.get(), 8), 0);
                           })
                  .ok());
  std::vector<PacketHeader> headers;
  ProbedPaths::Options options;
  for (int spine = 0; spine < 4; ++spine) options.spines[number(spine_address(0, spine))] = spine;
  ProbedPaths probes(options);
  absl::StatusOr<std::vector<int>> probed = absl::UnknownError("");
  const absl::Status entered = fabric->inside(host_name(0, 0), [&] {
    for (Fd& connection : connections) {
      connection = Fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      sockaddr_in to{};
      to.sin_family = AF_INET;
      to.sin_port = htons(5201);
      to.sin_addr.s_addr = htonl(number(host_address(1, 0)));
      EXPECT_EQ(connect(connection.get(), reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
      sockaddr_in own{};
      socklen_t size = sizeof own;
      getsockname(connection.get(), reinterpret_cast<sockaddr*>(&own), &size);
      headers.push_back(from_port(between(0, 1, Protocol::kTcp, 5201), ntohs(own.sin_port)));
    }
    probed = probes.uplinks(headers);
  });
  ASSERT_TRUE(entered.ok() && probed.ok()) << probed.status();
  AskedPaths router = router_of(*fabric, 0);
  EXPECT_EQ(*probed, *router.uplinks(headers));
  // The connections are as they were.
  for (const Fd& connection : connections) {
    EXPECT_EQ(send(connection.get(), "x", 1, MSG_NOSIGNAL), 1);
    const Fd accepted(accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC));
    char byte = 0;
    EXPECT_EQ(recv(accepted.get(), &byte, 1, 0), 1);
  }
}

TEST_F(PathsTest, WhereNobodyAnswersNothingIsMadeUp) {
  const std::unique_ptr<Fabric> fabric = up({2, 1, 2, 0});
  ASSERT_TRUE(fabric);
  const PacketHeader header = from_port(between(0, 1, Protocol::kUdp, kRocePort), 50000);
  ProbedPaths::Options options;
  options.patience = std::chrono::milliseconds(50);
  options.tries = 2;
  options.hops = 1;  // its own router answers, which is no spine
  ProbedPaths router(options);
  options.hops = 9;  // the host itself, which says that the port is closed
  ProbedPaths host(options);
  const absl::Status entered = fabric->inside(host_name(0, 0), [&] {
    EXPECT_EQ(*router.uplinks({{header}}), std::vector{-1});
    EXPECT_EQ(router.strangers().begin()->first, number("10.0.0.1"));
    EXPECT_EQ(*host.uplinks({{header}}), std::vector{-1});
    EXPECT_EQ(host.sent(), 2);
    PacketHeader foreign = header;
    foreign.source = number("10.1.0.2");
    EXPECT_EQ(host.uplinks({{foreign}}).status().code(), absl::StatusCode::kUnavailable);
  });
  EXPECT_TRUE(entered.ok());
  AskedPaths asked = router_of(*fabric, 0);
  PacketHeader nowhere = header;
  nowhere.destination = number("192.168.9.9");
  EXPECT_THAT(std::string(asked.uplinks({{nowhere}}).status().message()),
              ::testing::HasSubstr("unreachable"));
}

}  // namespace
}  // namespace monkeytree
