// SimGrid, an independent simulator, as referee of the rates: thousands of random systems of links
// and flows, each a zone of its own in a platform, one after the other in simulated time.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <random>
#include <simgrid/s4u.hpp>
#include <string>
#include <vector>

#include "network/max_min.h"
#include "network/network.h"

namespace monkeytree {
namespace {

namespace sg = simgrid::s4u;

constexpr int kBatches = 100, kSystemsInABatch = 40;

struct System {
  IdVector<LinkId, double> capacities;
  std::vector<std::vector<LinkUse>> uses;
  std::vector<double> caps;  ///< infinite where there is none

  std::vector<MaxMinFlow> flows() const {
    std::vector<MaxMinFlow> out;
    for (size_t f = 0; f < uses.size(); ++f) out.push_back({uses[f], caps[f]});
    return out;
  }
};

/// Flows over 1 to 4 links. Half of the systems have the equal links of a fabric, half any; a third
/// take a link more than once.
System random_system(std::mt19937& random) {
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<uint32_t>(n)); };
  System system;
  const bool equal = below(2) == 0, coefficients = below(3) == 0, caps = below(2) == 0;
  const int links = 1 + below(below(4) == 0 ? 40 : 8);
  for (int l = 0; l < links; ++l) {
    system.capacities.push_back(equal ? 50'000 : 1'000 + below(99'000'000) / 1'000.0);
  }
  for (int flows = 1 + below(below(4) == 0 ? 80 : 12); flows > 0; --flows) {
    std::vector<LinkUse> uses;
    for (int k = 1 + below(4); k > 0; --k) {
      const LinkId link(below(links));
      const bool twice = std::any_of(uses.begin(), uses.end(),
                                     [&](const LinkUse& use) { return use.link == link; });
      if (!twice) uses.push_back({link, coefficients ? 1.0 + below(3) : 1.0});
    }
    system.uses.push_back(std::move(uses));
    system.caps.push_back(caps && below(2) == 0 ? 1'000 + below(40'000'000) / 1'000.0
                                                : std::numeric_limits<double>::infinity());
  }
  return system;
}

using Ends = std::vector<std::array<sg::Host*, 2>>;  ///< of each flow

/// A system as SimGrid has it: a pair of hosts for each flow, a cap as a link of the flow's own, a
/// coefficient as so many passages of the link.
Ends build(const System& system, sg::NetZone* root, int number) {
  const std::string name = "s" + std::to_string(number);
  sg::NetZone* zone = sg::create_full_zone(name)->set_parent(root);
  std::vector<const sg::Link*> links;
  for (const double capacity : system.capacities) {
    const std::string link = name + "l" + std::to_string(links.size());
    links.push_back(zone->create_link(link, capacity)->set_latency(0)->seal());
  }
  Ends ends;
  for (size_t f = 0; f < system.uses.size(); ++f) {
    const std::string flow = name + "f" + std::to_string(f);
    sg::Host* from = zone->create_host(flow + "a", 1e9)->seal();
    sg::Host* to = zone->create_host(flow + "b", 1e9)->seal();
    std::vector<sg::LinkInRoute> route;
    for (const LinkUse& use : system.uses[f]) {
      for (int i = 0; i < static_cast<int>(use.coefficient); ++i) {
        route.emplace_back(links[static_cast<size_t>(use.link.value)]);
      }
    }
    if (system.caps[f] < std::numeric_limits<double>::infinity()) {
      route.emplace_back(zone->create_link(flow + "cap", system.caps[f])->set_latency(0)->seal());
    }
    zone->add_route(from->get_netpoint(), to->get_netpoint(), nullptr, nullptr, route, false);
    ends.push_back({from, to});
  }
  zone->seal();
  return ends;
}

/// The rates while all flows are under way: what has passed after a second of simulated time.
std::vector<double> measure(const Ends& ends) {
  constexpr uint64_t kBytes = 200'000;  // more than any flow sends in a second
  std::vector<sg::CommPtr> comms;
  for (const auto& [from, to] : ends) comms.push_back(sg::Comm::sendto_async(from, to, kBytes));
  sg::this_actor::sleep_for(1);
  std::vector<double> rates;
  for (const sg::CommPtr& comm : comms) {
    rates.push_back(static_cast<double>(kBytes) - comm->get_remaining());
  }
  for (const sg::CommPtr& comm : comms) comm->cancel();
  return rates;
}

/// The rates that SimGrid gives to all flows of all systems.
std::vector<double> simgrid_rates(const std::vector<System>& systems) {
  std::vector<std::string> words = {"simgrid_test",
                                    "--log=root.thresh:critical",
                                    "--cfg=network/model:CM02",
                                    "--cfg=network/crosstraffic:0",
                                    "--cfg=network/TCP-gamma:0",
                                    "--cfg=maxmin/precision:1e-12",
                                    "--cfg=contexts/factory:thread"};
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  int count = static_cast<int>(arguments.size());
  sg::Engine engine(&count, arguments.data());
  sg::NetZone* root = sg::create_empty_zone("root");
  std::vector<Ends> ends;
  for (const System& system : systems) {
    ends.push_back(build(system, root, static_cast<int>(ends.size())));
  }
  root->seal();
  std::vector<double> rates;
  sg::Actor::create("meter", ends[0][0][0], [&] {
    for (const Ends& system : ends) {
      for (const double rate : measure(system)) rates.push_back(rate);
    }
  });
  engine.run();
  return rates;
}

/// The same in a process of its own: SimGrid has one platform in each, and large ones are slow.
std::vector<double> simgrid_rates_apart(const std::vector<System>& systems) {
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) return {};
  const pid_t child = fork();
  if (child == 0) {
    const std::vector<double> rates = simgrid_rates(systems);
    const size_t size = rates.size() * sizeof(double);
    const char* bytes = reinterpret_cast<const char*>(rates.data());
    size_t done = 0;
    while (done < size) {
      const ssize_t more = write(ends[1], bytes + done, size - done);
      if (more <= 0) _exit(1);
      done += static_cast<size_t>(more);
    }
    _exit(0);
  }
  close(ends[1]);
  std::vector<double> rates;
  std::string bytes;
  std::array<char, 4096> buffer{};
  ssize_t more = 0;
  while ((more = read(ends[0], buffer.data(), buffer.size())) > 0) {
    bytes.append(buffer.data(), static_cast<size_t>(more));
  }
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  rates.resize(bytes.size() / sizeof(double));
  std::memcpy(rates.data(), bytes.data(), rates.size() * sizeof(double));
  return rates;
}

TEST(SimGrid, GivesTheSameRates) {
  std::mt19937 random(3);
  size_t flows = 0;
  for (int batch = 0; batch < kBatches; ++batch) {
    std::vector<System> systems;
    for (int s = 0; s < kSystemsInABatch; ++s) systems.push_back(random_system(random));
    const std::vector<double> measured = simgrid_rates_apart(systems);
    size_t at = 0;
    for (const System& system : systems) {
      const std::vector<double> exact = exact_max_min(system.capacities, system.flows());
      ASSERT_LE(at + exact.size(), measured.size());
      Network network;
      for (const double capacity : system.capacities) network.add_link(capacity);
      std::vector<StreamId> ids;
      for (size_t f = 0; f < exact.size(); ++f) {
        ids.push_back(network.add(system.uses[f], system.caps[f]));
      }
      network.settle();
      for (size_t f = 0; f < exact.size(); ++f, ++at) {
        const double rate = measured[at];
        ASSERT_NEAR(exact[f], rate, 1e-9 * rate) << "batch " << batch << ", flow " << f;
        ASSERT_NEAR(network.rate(ids[f]), rate, 0.52 / kRateQuanta + 1e-9 * rate);
      }
    }
    ASSERT_EQ(at, measured.size());
    flows += at;
  }
  EXPECT_GT(flows, 40'000u);
}

}  // namespace
}  // namespace monkeytree
