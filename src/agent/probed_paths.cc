#include "agent/probed_paths.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <linux/errqueue.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <netinet/ip_icmp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>

namespace monkeytree {
namespace {

using Clock = std::chrono::steady_clock;

sockaddr_in socket_address(uint32_t address, uint16_t port) {
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(address);
  at.sin_port = htons(port);
  return at;
}

absl::Status failed(std::string_view what, const PacketHeader& header) {
  return absl::UnavailableError(fmt::format("{} {}:{}: {}", what, ipv4_text(header.source),
                                            header.source_port, std::strerror(errno)));
}

/// The first bytes of a TCP header: source and destination port.
std::array<uint8_t, 4> ports_of(const PacketHeader& header) {
  return {static_cast<uint8_t>(header.source_port >> 8), static_cast<uint8_t>(header.source_port),
          static_cast<uint8_t>(header.destination_port >> 8),
          static_cast<uint8_t>(header.destination_port)};
}

/// The checksum of a TCP segment of 20 bytes from one address to another.
uint16_t tcp_checksum(const PacketHeader& header, const std::array<uint8_t, 20>& segment) {
  uint32_t sum = (header.source >> 16) + (header.source & 0xffff) + (header.destination >> 16) +
                 (header.destination & 0xffff) + IPPROTO_TCP +
                 static_cast<uint32_t>(segment.size());
  for (size_t i = 0; i < segment.size(); i += 2) {
    sum += uint32_t{segment[i]} << 8 | segment[i + 1];
  }
  while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<uint16_t>(~sum);
}

/// The address that says that a packet's time to live has ended; nullopt: nothing says so yet.
/// `ports`, where given, are those of the packet in question.
std::optional<uint32_t> who_answered(int socket, const std::array<uint8_t, 4>* ports) {
  std::array<char, 512> control{};
  std::array<char, 64> packet{};
  iovec bytes{packet.data(), packet.size()};
  msghdr message{};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t size = recvmsg(socket, &message, MSG_ERRQUEUE | MSG_DONTWAIT);
  if (size < 0) return std::nullopt;
  const bool ours = ports == nullptr || (size >= static_cast<ssize_t>(ports->size()) &&
                                         std::memcmp(packet.data(), ports->data(), 4) == 0);
  if (!ours) return std::nullopt;
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr;
       part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != IPPROTO_IP || part->cmsg_type != IP_RECVERR) continue;
    sock_extended_err error{};
    std::memcpy(&error, CMSG_DATA(part), sizeof error);
    if (error.ee_origin != SO_EE_ORIGIN_ICMP || error.ee_type != ICMP_TIME_EXCEEDED) continue;
    sockaddr_in offender{};  // stands behind the error
    std::memcpy(&offender, CMSG_DATA(part) + sizeof error, sizeof offender);
    return ntohl(offender.sin_addr.s_addr);
  }
  return std::nullopt;
}

}  // namespace

std::optional<uint32_t> own_address_towards(uint32_t destination) {
  const Fd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const sockaddr_in far = socket_address(destination, 9);
  sockaddr_in own{};
  socklen_t size = sizeof own;
  if (connect(socket.get(), reinterpret_cast<const sockaddr*>(&far), sizeof far) != 0 ||
      getsockname(socket.get(), reinterpret_cast<sockaddr*>(&own), &size) != 0) {
    return std::nullopt;
  }
  return ntohl(own.sin_addr.s_addr);
}

absl::StatusOr<std::optional<ProbedPaths::Probe>> ProbedPaths::send_probe(
    const PacketHeader& header) {
  const bool tcp = header.protocol == Protocol::kTcp;
  Probe probe;
  probe.socket =
      Fd(socket(AF_INET, (tcp ? SOCK_STREAM : SOCK_DGRAM) | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!probe.socket.valid()) return failed("no socket for", header);
  const int on = 1;
  setsockopt(probe.socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  setsockopt(probe.socket.get(), IPPROTO_IP, IP_RECVERR, &on, sizeof on);
  setsockopt(probe.socket.get(), IPPROTO_IP, IP_TTL, &options_.hops, sizeof options_.hops);
  const sockaddr_in own = socket_address(header.source, header.source_port);
  if (bind(probe.socket.get(), reinterpret_cast<const sockaddr*>(&own), sizeof own) != 0) {
    if (errno == EADDRINUSE) return send_raw_probe(header);  // another program's
    return failed("cannot send from", header);
  }
  const sockaddr_in far = socket_address(header.destination, header.destination_port);
  const int connected =
      connect(probe.socket.get(), reinterpret_cast<const sockaddr*>(&far), sizeof far);
  if (connected != 0 && errno == EADDRNOTAVAIL) return send_raw_probe(header);
  const bool going = connected == 0 || errno == EINPROGRESS;
  if (!going || (!tcp && send(probe.socket.get(), "", 1, MSG_NOSIGNAL) < 0)) {
    return failed("cannot send from", header);
  }
  ++sent_;
  probe.until = Clock::now() + options_.patience;
  return probe;
}

std::optional<ProbedPaths::Probe> ProbedPaths::send_raw_probe(const PacketHeader& header) {
  if (header.protocol != Protocol::kTcp) return std::nullopt;
  Probe probe;
  probe.raw = true;
  probe.socket = Fd(socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP));
  if (!probe.socket.valid()) return std::nullopt;
  const int on = 1;
  sock_filter nothing = BPF_STMT(BPF_RET | BPF_K, 0);  // what the hosts say to each other
  const sock_fprog filter{1, &nothing};
  const sockaddr_in own = socket_address(header.source, 0);
  const sockaddr_in far = socket_address(header.destination, 0);
  const int at = probe.socket.get();
  setsockopt(at, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter);
  setsockopt(at, IPPROTO_IP, IP_RECVERR, &on, sizeof on);
  setsockopt(at, IPPROTO_IP, IP_TTL, &options_.hops, sizeof options_.hops);
  std::array<uint8_t, 20> segment{};
  const std::array<uint8_t, 4> ports = ports_of(header);
  std::copy(ports.begin(), ports.end(), segment.begin());
  segment[12] = 5 << 4;  // words of header; no flag is set, so that it means nothing to anybody
  const uint16_t checksum = tcp_checksum(header, segment);
  segment[16] = static_cast<uint8_t>(checksum >> 8);
  segment[17] = static_cast<uint8_t>(checksum);
  if (bind(at, reinterpret_cast<const sockaddr*>(&own), sizeof own) != 0 ||
      connect(at, reinterpret_cast<const sockaddr*>(&far), sizeof far) != 0 ||
      send(at, segment.data(), segment.size(), MSG_NOSIGNAL) < 0) {
    return std::nullopt;
  }
  ++sent_;
  probe.until = Clock::now() + options_.patience;
  return probe;
}

void ProbedPaths::hear(std::span<const PacketHeader> headers, std::vector<Probe>& probes,
                       std::vector<int>& uplinks, std::vector<size_t>& unanswered) {
  std::vector<pollfd> ends;
  Clock::time_point until = probes.front().until;
  for (const Probe& probe : probes) {
    ends.push_back({probe.socket.get(), 0, 0});  // errors are told in any case
    until = std::min(until, probe.until);
  }
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
  poll(ends.data(), ends.size(), static_cast<int>(std::max<int64_t>(left.count(), 0)));
  for (size_t k = probes.size(); k-- > 0;) {
    const Probe& probe = probes[k];
    const std::array<uint8_t, 4> ports = ports_of(headers[probe.header]);
    const std::optional<uint32_t> spine =
        who_answered(probe.socket.get(), probe.raw ? &ports : nullptr);
    if (spine) {
      const auto known = options_.spines.find(*spine);
      if (known == options_.spines.end()) {
        ++strangers_[*spine];
      } else {
        uplinks[probe.header] = known->second;
      }
    } else if ((probe.raw || (ends[k].revents & (POLLERR | POLLHUP)) == 0) &&
               Clock::now() < probe.until) {
      continue;
    } else {
      unanswered.push_back(probe.header);
    }
    probes.erase(probes.begin() + static_cast<std::ptrdiff_t>(k));
  }
}

absl::StatusOr<std::vector<int>> ProbedPaths::uplinks(std::span<const PacketHeader> headers) {
  std::vector<int> uplinks(headers.size(), kUnknownPath);
  std::vector<size_t> open(headers.size());
  for (size_t i = 0; i < open.size(); ++i) open[i] = i;
  for (int round = 0; round < options_.tries && !open.empty(); ++round) {
    std::vector<size_t> unanswered;
    const size_t most = static_cast<size_t>(std::max(options_.at_once, 1));
    for (size_t from = 0; from < open.size(); from += most) {
      std::vector<Probe> probes;
      for (size_t k = from; k < std::min(from + most, open.size()); ++k) {
        absl::StatusOr<std::optional<Probe>> probe = send_probe(headers[open[k]]);
        if (!probe.ok()) return probe.status();
        if (!probe->has_value()) {
          uplinks[open[k]] = kPortInUse;
          continue;
        }
        (*probe)->header = open[k];
        probes.push_back(*std::move(*probe));
      }
      while (!probes.empty()) hear(headers, probes, uplinks, unanswered);
    }
    open = std::move(unanswered);
  }
  return uplinks;
}

}  // namespace monkeytree
