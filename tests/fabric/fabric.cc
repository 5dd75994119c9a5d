#include "fabric.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>
#include <set>
#include <sstream>

#include "base/command.h"
#include "base/status.h"

namespace monkeytree {
namespace {

constexpr int kBurstBytes = 64 << 10;  ///< that an idle cable lets pass at once
constexpr int kMaxRacks = 250, kMaxHosts = 250, kMaxSpines = 62;
/// The alias of each namespace's loopback starts with it: who holds the fabric, its shape and name.
constexpr const char* kMark = "monkeytree-fabric";

/// What is written on the loopback of a namespace.
struct Mark {
  ProcessName holder;
  FabricSize shape;
  std::string name;
};

std::string text_of_mark(const Mark& mark) {
  return fmt::format("{} {} {} {} {} {} {} {} {} {}", kMark, mark.holder.process, mark.holder.start,
                     mark.shape.racks, mark.shape.hosts, mark.shape.spines, mark.shape.uplink_mbit,
                     mark.shape.hosts_capped ? 1 : 0, mark.shape.management ? 1 : 0, mark.name);
}

/// Runs a program in the namespace that the calling thread is in.
absl::StatusOr<std::string> run(std::vector<std::string> arguments, std::string input) {
  Command command;
  command.arguments = std::move(arguments);
  command.environment = {{"PATH", "/usr/sbin:/usr/bin:/sbin:/bin"}};
  command.input = std::move(input);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  absl::StatusOr<CommandResult> result = run_command(command, deadline);
  if (!result.ok()) return result.status();
  if (result->exit_code == 0) return std::move(result->out);
  return absl::InternalError(fmt::format("{}: {}", command.arguments.front(), result->err));
}

absl::Status run_in(int space, const std::vector<std::string>& arguments, std::string input) {
  absl::Status done;
  absl::Status entered =
      inside_namespace(space, [&] { done = run(arguments, std::move(input)).status(); });
  return entered.ok() ? done : entered;
}

std::optional<Mark> mark_of(int space) {
  absl::StatusOr<std::string> text = absl::UnknownError("");
  if (!inside_namespace(space,
                        [&] {
                          text = run({"ip", "-o", "link", "show", "lo"}, "");
                        })
           .ok() ||
      !text.ok()) {
    return std::nullopt;
  }
  const size_t begin = text->find(kMark);
  if (begin == std::string::npos) return std::nullopt;
  std::istringstream fields(text->substr(begin + std::strlen(kMark)));
  Mark mark;
  fields >> mark.holder.process >> mark.holder.start >> mark.shape.racks >> mark.shape.hosts >>
      mark.shape.spines >> mark.shape.uplink_mbit >> mark.shape.hosts_capped >>
      mark.shape.management >> mark.name;
  if (!fields || !why_no_fabric(mark.shape).empty()) return std::nullopt;
  return mark;
}

/// Writes settings of the namespace that the calling thread is in; those this kernel does not know
/// are left out.
void write_settings(const std::vector<std::pair<std::string, std::string>>& settings) {
  for (const auto& [name, value] : settings) std::ofstream("/proc/sys/net/" + name) << value;
}

std::vector<std::pair<std::string, std::string>> settings_of(uint32_t seed) {
  return {{"ipv6/conf/default/disable_ipv6", "1"},
          {"ipv6/conf/all/disable_ipv6", "1"},
          {"ipv4/ip_forward", "1"},
          {"ipv4/conf/all/rp_filter", "0"},
          {"ipv4/conf/default/rp_filter", "0"},
          {"ipv4/fib_multipath_hash_policy", "3"},   // the fields below; by policy 1 ports chosen
          {"ipv4/fib_multipath_hash_fields", "55"},  // before a connection were ignored
          {"ipv4/fib_multipath_hash_seed", std::to_string(seed)},
          {"ipv4/icmp_ratelimit", "0"},  // spines answer every probe
          {"ipv4/icmp_msgs_per_sec", "1000000"},
          {"ipv4/icmp_msgs_burst", "1000000"}};
}

std::string cable_network(int rack, int spine, int side) {
  return fmt::format("10.255.{}.{}", rack, spine * 4 + side);
}

/// For tc: an interface of this rate whose senders at one time share it evenly, packet by packet,
/// each from a queue of its own, as flows under a data centre's congestion control do. TCP in one
/// queue shares by luck.
std::string fair_queues(const std::string& interface, int64_t mbit,
                        const std::vector<std::string>& from) {
  const int64_t rate_kbit = mbit * 1000;
  // A fabric for RDMA loses nothing. A queue holds what a ring's flow has on its way at most.
  const int64_t queue_bytes = rate_kbit / 8 * 250 + kBurstBytes;
  const int64_t own_kbit = std::max<int64_t>(1, rate_kbit / (std::ssize(from) + 1));
  std::string lines = fmt::format(
      "qdisc add dev {0} root handle 1: htb default ffff\n"
      "class add dev {0} parent 1: classid 1:fffe htb rate {1}kbit burst {2} "
      "cburst {2} quantum 60000\n",
      interface, rate_kbit, kBurstBytes);
  const auto queue = [&](std::string_view id) {
    lines += fmt::format(
        "class add dev {0} parent 1:fffe classid 1:{1} htb rate {2}kbit ceil {3}kbit "
        "burst 2kb cburst {4} quantum 1514\n"
        "qdisc add dev {0} parent 1:{1} bfifo limit {5}\n",
        interface, id, own_kbit, rate_kbit, kBurstBytes, queue_bytes);
  };
  queue("ffff");  // what routers themselves say
  for (size_t i = 0; i < from.size(); ++i) {
    const std::string id = fmt::format("{:x}", i + 1);
    queue(id);
    lines +=
        fmt::format("filter add dev {} parent 1: protocol ip u32 match ip src {} flowid 1:{}\n",
                    interface, from[i], id);
  }
  return lines;
}

}  // namespace

std::string why_no_fabric(const FabricSize& shape) {
  const auto within = [](int value, int high) { return value >= 1 && value <= high; };
  if (!within(shape.racks, kMaxRacks)) return fmt::format("expected 1 to {} racks", kMaxRacks);
  if (!within(shape.hosts, kMaxHosts)) return fmt::format("expected 1 to {} hosts", kMaxHosts);
  if (!within(shape.spines, kMaxSpines)) return fmt::format("expected 1 to {} spines", kMaxSpines);
  if (shape.uplink_mbit < 0 || shape.uplink_mbit > 100000) {
    return "expected uplinks of 0 (not capped) to 100000 Mbit/s";
  }
  return "";
}

std::string host_name(int rack, int host) { return fmt::format("h{}_{}", rack, host); }
std::string router_name(int rack) { return fmt::format("t{}", rack); }
std::string spine_name(int spine) { return fmt::format("s{}", spine); }
std::string host_address(int rack, int host) { return fmt::format("10.{}.{}.2", rack, host); }
std::string management_address(int rack, int host) {
  return fmt::format("172.31.{}.{}", rack, host + 1);
}
std::string spine_address(int rack, int spine) { return cable_network(rack, spine, 2); }

std::vector<std::string> spine_addresses(int rack, int spines) {
  std::vector<std::string> addresses;
  for (int spine = 0; spine < spines; ++spine) addresses.push_back(spine_address(rack, spine));
  return addresses;
}

std::string Fabric::missing() {
  if (geteuid() != 0) return "network namespaces need root";
  const absl::StatusOr<Fd> space = new_namespace();
  if (!space.ok()) return std::string(message_of(space.status()));
  const absl::Status cable = run_in(
      space->get(), {"ip", "link", "add", "here", "type", "veth", "peer", "name", "there"}, "");
  if (!cable.ok()) return fmt::format("no virtual cables: {}", message_of(cable));
  const absl::Status capped =
      run_in(space->get(), {"tc", "-batch", "-"},
             "qdisc add dev there root tbf rate 1mbit burst 64kb latency 20ms\n"
             "qdisc add dev here root handle 1: htb default 1\n"
             "filter add dev here parent 1: protocol ip u32 match ip src 10.0.0.1 flowid 1:1\n");
  if (!capped.ok()) return fmt::format("no capped interfaces: {}", message_of(capped));
  bool writable = false;
  const absl::Status entered = inside_namespace(space->get(), [&] {
    std::ofstream file("/proc/sys/net/ipv4/fib_multipath_hash_fields");
    writable = static_cast<bool>(file << "55" << std::flush);
  });
  if (!entered.ok() || !writable) return "the kernel's choice among routes cannot be set";
  return "";
}

absl::StatusOr<std::unique_ptr<Fabric>> Fabric::up(const FabricSize& shape) {
  const std::string why = why_no_fabric(shape);
  if (!why.empty()) return absl::InvalidArgumentError(why);
  std::unique_ptr<Fabric> fabric(new Fabric);
  fabric->shape_ = shape;
  fabric->holder_ = getpid();
  for (const std::string& name : fabric->names()) {
    const absl::Status added = fabric->add_namespace(name);
    if (!added.ok()) return with_context(added, name);
  }
  const absl::Status cabled = fabric->cable_up();
  if (!cabled.ok()) return with_context(cabled, "cables");
  const absl::Status routed = fabric->set_routes();
  if (!routed.ok()) return with_context(routed, "routes");
  return fabric;
}

absl::StatusOr<std::unique_ptr<Fabric>> Fabric::held_by(pid_t process) {
  std::unique_ptr<Fabric> fabric(new Fabric);
  fabric->holder_ = process;
  for (const std::string& path : held_namespaces(process)) {
    Fd space(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    const std::optional<Mark> mark = space.valid() ? mark_of(space.get()) : std::nullopt;
    if (!mark || mark->holder.process != process) continue;
    fabric->shape_ = mark->shape;
    fabric->spaces_[mark->name] = std::move(space);
  }
  if (fabric->spaces_.empty() || fabric->spaces_.size() != fabric->names().size()) {
    return absl::NotFoundError(fmt::format("process {} holds no fabric", process));
  }
  return fabric;
}

std::vector<std::string> Fabric::names() const {
  std::vector<std::string> names;
  for (int spine = 0; spine < shape_.spines; ++spine) names.push_back(spine_name(spine));
  for (int rack = 0; rack < shape_.racks; ++rack) {
    names.push_back(router_name(rack));
    for (int host = 0; host < shape_.hosts; ++host) names.push_back(host_name(rack, host));
  }
  if (shape_.management) names.emplace_back(kHead);
  return names;
}

std::string Fabric::path(const std::string& name) const {
  const auto space = spaces_.find(name);
  return space == spaces_.end() ? "" : fmt::format("/proc/{}/fd/{}", getpid(), space->second.get());
}

absl::Status Fabric::inside(const std::string& name, const std::function<void()>& what) const {
  const auto space = spaces_.find(name);
  if (space == spaces_.end()) {
    return absl::NotFoundError(fmt::format("the fabric has no {}", name));
  }
  return inside_namespace(space->second.get(), what);
}

absl::Status Fabric::add_namespace(const std::string& name) {
  absl::StatusOr<Fd> space = new_namespace();
  if (!space.ok()) return space.status();
  const uint32_t seed = 12345 + static_cast<uint32_t>(spaces_.size());
  absl::Status entered = inside_namespace(space->get(), [&] { write_settings(settings_of(seed)); });
  spaces_[name] = *std::move(space);
  return entered;
}

/// All cables at once, then the addresses at their ends.
absl::Status Fabric::cable_up() {
  std::string cables;
  const auto cable = [&](const std::string& a, const std::string& a_end, const std::string& b,
                         const std::string& b_end) {
    cables += fmt::format("link add {} netns {} type veth peer name {} netns {}\n", a_end, path(a),
                          b_end, path(b));
  };
  for (int rack = 0; rack < shape_.racks; ++rack) {
    for (int spine = 0; spine < shape_.spines; ++spine) {
      cable(router_name(rack), fmt::format("up{}", spine), spine_name(spine),
            fmt::format("dn{}", rack));
    }
    for (int host = 0; host < shape_.hosts; ++host) {
      cable(router_name(rack), fmt::format("h{}", host), host_name(rack, host), "eth0");
      if (shape_.management) {
        cable(kHead, fmt::format("m{}_{}", rack, host), host_name(rack, host), "mgmt0");
      }
    }
  }
  absl::Status done = run_in(spaces_.begin()->second.get(), {"ip", "-batch", "-"}, cables);
  for (int spine = 0; spine < shape_.spines && done.ok(); ++spine) {
    done = set_up(spine_name(spine), addresses_of_spine(spine));
  }
  for (int rack = 0; rack < shape_.racks && done.ok(); ++rack) {
    done = set_up(router_name(rack), addresses_of_rack(rack));
    for (int host = 0; host < shape_.hosts && done.ok(); ++host) done = set_up_host(rack, host);
  }
  if (done.ok() && shape_.uplink_mbit > 0) done = cap_uplinks();
  if (done.ok() && shape_.uplink_mbit > 0 && shape_.hosts_capped) done = cap_hosts();
  return done.ok() && shape_.management ? set_up_head() : done;
}

absl::Status Fabric::set_up_host(int rack, int host) {
  std::string lines =
      fmt::format("addr add {}/24 dev eth0\nlink set eth0 up\nroute add default via 10.{}.{}.1\n",
                  host_address(rack, host), rack, host);
  if (shape_.management) {
    lines += fmt::format("addr add {}/16 dev mgmt0\nlink set mgmt0 up\n",
                         management_address(rack, host));
  }
  return set_up(host_name(rack, host), lines);
}

/// A bridge over the cables to all hosts.
absl::Status Fabric::set_up_head() {
  std::string lines = fmt::format(
      "link add mgmt0 type bridge\naddr add {}/16 dev mgmt0\nlink set mgmt0 up\n", kHeadAddress);
  for (int rack = 0; rack < shape_.racks; ++rack) {
    for (int host = 0; host < shape_.hosts; ++host) {
      lines += fmt::format("link set m{0}_{1} master mgmt0 up\n", rack, host);
    }
  }
  return set_up(kHead, lines);
}

/// Marks the namespace and carries out lines of `ip -batch`.
absl::Status Fabric::set_up(const std::string& name, const std::string& lines) {
  const Mark mark{name_of_process(holder_), shape_, name};
  const std::string own =
      fmt::format("link set lo up\nlink set lo alias \"{}\"\n", text_of_mark(mark));
  return run_in(spaces_.at(name).get(), {"ip", "-batch", "-"}, own + lines);
}

std::string Fabric::addresses_of_rack(int rack) const {
  std::string lines;
  for (int spine = 0; spine < shape_.spines; ++spine) {
    lines += fmt::format("addr add {}/30 dev up{}\nlink set up{} up\n",
                         cable_network(rack, spine, 1), spine, spine);
  }
  for (int host = 0; host < shape_.hosts; ++host) {
    lines +=
        fmt::format("addr add 10.{}.{}.1/24 dev h{}\nlink set h{} up\n", rack, host, host, host);
  }
  return lines;
}

std::string Fabric::addresses_of_spine(int spine) const {
  std::string lines;
  for (int rack = 0; rack < shape_.racks; ++rack) {
    lines += fmt::format("addr add {}/30 dev dn{}\nlink set dn{} up\n",
                         cable_network(rack, spine, 2), rack, rack);
  }
  return lines;
}

/// Addresses of the hosts of racks [first, last).
std::vector<std::string> Fabric::sources(int first, int last) const {
  std::vector<std::string> addresses;
  for (int rack = first; rack < last; ++rack) {
    for (int host = 0; host < shape_.hosts; ++host) addresses.push_back(host_address(rack, host));
  }
  return addresses;
}

/// Both ends of the cables between racks and spines.
absl::Status Fabric::cap_uplinks() const {
  const std::vector<std::string> everybody = sources(0, shape_.racks);
  absl::Status done;
  for (int spine = 0; spine < shape_.spines && done.ok(); ++spine) {
    std::string lines;
    for (int rack = 0; rack < shape_.racks; ++rack) {
      lines += fair_queues(fmt::format("dn{}", rack), shape_.uplink_mbit, everybody);
    }
    done = run_in(spaces_.at(spine_name(spine)).get(), {"tc", "-batch", "-"}, lines);
  }
  for (int rack = 0; rack < shape_.racks && done.ok(); ++rack) {
    const std::vector<std::string> ours = sources(rack, rack + 1);
    std::string lines;
    for (int spine = 0; spine < shape_.spines; ++spine) {
      lines += fair_queues(fmt::format("up{}", spine), shape_.uplink_mbit, ours);
    }
    done = run_in(spaces_.at(router_name(rack)).get(), {"tc", "-batch", "-"}, lines);
  }
  return done;
}

/// Both ends of the cables of hosts; a host's flows are its own affair.
absl::Status Fabric::cap_hosts() const {
  const auto cap = [&](const std::string& name, const std::string& interface) {
    return run_in(spaces_.at(name).get(),
                  {"tc", "qdisc", "add", "dev", interface, "root", "tbf", "rate",
                   fmt::format("{}mbit", shape_.uplink_mbit), "burst",
                   fmt::format("{}", kBurstBytes), "latency", "20ms"},
                  "");
  };
  absl::Status done;
  for (int rack = 0; rack < shape_.racks && done.ok(); ++rack) {
    for (int host = 0; host < shape_.hosts && done.ok(); ++host) {
      done = cap(router_name(rack), fmt::format("h{}", host));
      if (done.ok()) done = cap(host_name(rack, host), "eth0");
    }
  }
  return done;
}

absl::Status Fabric::fail(int rack, int spine) { return set_link(rack, spine, false); }
absl::Status Fabric::repair(int rack, int spine) { return set_link(rack, spine, true); }

absl::Status Fabric::set_link(int rack, int spine, bool works) {
  if (rack < 0 || rack >= shape_.racks || spine < 0 || spine >= shape_.spines) {
    return absl::NotFoundError(fmt::format("the fabric has no uplink {} of rack {}", spine, rack));
  }
  absl::Status done =
      run_in(spaces_.at(router_name(rack)).get(),
             {"ip", "link", "set", fmt::format("up{}", spine), works ? "up" : "down"}, "");
  return done.ok() ? set_routes() : done;
}

bool Fabric::works(int rack, int spine) const {
  bool up = false;
  absl::Status entered = inside(router_name(rack), [&] {
    const Fd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    ifreq request{};
    const std::string name = fmt::format("up{}", spine);
    name.copy(request.ifr_name, IFNAMSIZ - 1);
    up = ioctl(socket.get(), SIOCGIFFLAGS, &request) == 0 && (request.ifr_flags & IFF_UP) != 0;
  });
  return entered.ok() && up;
}

/// What a routing protocol would settle on: a rack reaches another by the spines both reach.
absl::Status Fabric::set_routes() {
  std::vector<std::vector<bool>> up(static_cast<size_t>(shape_.racks));
  for (int rack = 0; rack < shape_.racks; ++rack) {
    for (int k = 0; k < shape_.spines; ++k) up[static_cast<size_t>(rack)].push_back(works(rack, k));
  }
  for (int from = 0; from < shape_.racks; ++from) {
    std::string lines;
    for (int to = 0; to < shape_.racks; ++to) {
      if (to == from) continue;
      std::string hops;
      for (int k = 0; k < shape_.spines; ++k) {
        if (!up[static_cast<size_t>(from)][static_cast<size_t>(k)]) continue;
        if (!up[static_cast<size_t>(to)][static_cast<size_t>(k)]) continue;
        hops += fmt::format(" nexthop via {} dev up{}", spine_address(from, k), k);
      }
      lines += hops.empty() ? fmt::format("route replace unreachable 10.{}.0.0/16\n", to)
                            : fmt::format("route replace 10.{}.0.0/16{}\n", to, hops);
    }
    absl::Status done = run_in(spaces_.at(router_name(from)).get(), {"ip", "-batch", "-"}, lines);
    if (!done.ok()) return done;
  }
  for (int k = 0; k < shape_.spines; ++k) {
    std::string lines;
    for (int rack = 0; rack < shape_.racks; ++rack) {
      lines += up[static_cast<size_t>(rack)][static_cast<size_t>(k)]
                   ? fmt::format("route replace 10.{}.0.0/16 via {} dev dn{}\n", rack,
                                 cable_network(rack, k, 1), rack)
                   : fmt::format("route replace unreachable 10.{}.0.0/16\n", rack);
    }
    absl::Status done = run_in(spaces_.at(spine_name(k)).get(), {"ip", "-batch", "-"}, lines);
    if (!done.ok()) return done;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<UplinkCount>> Fabric::counts() const {
  std::vector<UplinkCount> counts;
  for (int rack = 0; rack < shape_.racks; ++rack) {
    std::string text;
    const absl::Status entered = inside(router_name(rack), [&] {
      std::ifstream in("/proc/thread-self/net/dev");
      text.assign(std::istreambuf_iterator<char>(in), {});
    });
    if (!entered.ok()) return entered;
    const std::map<std::string, InterfaceCount> seen = parse_interface_counts(text);
    for (int spine = 0; spine < shape_.spines; ++spine) {
      const auto found = seen.find(fmt::format("up{}", spine));
      if (found == seen.end()) {
        return absl::InternalError(fmt::format("{} has no up{}", router_name(rack), spine));
      }
      const InterfaceCount& c = found->second;
      counts.push_back({rack, spine, works(rack, spine), c.sent_bytes, c.sent_packets,
                        c.received_bytes, c.received_packets});
    }
  }
  return counts;
}

int sweep_fabrics() {
  int ended = 0;
  std::map<ino_t, bool> abandoned;  // by the namespace's number
  abandoned[namespace_number("/proc/self/ns/net")] = false;
  for (const pid_t process : all_processes()) {
    const std::string path = fmt::format("/proc/{}/ns/net", process);
    const ino_t number = namespace_number(path);
    if (number == 0) continue;
    if (!abandoned.contains(number)) {
      const Fd space(open(path.c_str(), O_RDONLY | O_CLOEXEC));
      const std::optional<Mark> mark = space.valid() ? mark_of(space.get()) : std::nullopt;
      abandoned[number] = mark && name_of_process(mark->holder.process) != mark->holder;
    }
    if (!abandoned[number] || namespace_number(path) != number) continue;
    ended += kill(process, SIGKILL) == 0 ? 1 : 0;
  }
  return ended;
}

}  // namespace monkeytree
