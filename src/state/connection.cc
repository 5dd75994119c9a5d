#include "state/connection.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>

#include "state/checksum.h"

namespace monkeytree {
namespace {

using std::chrono::duration_cast;
using std::chrono::microseconds;
using std::chrono::milliseconds;

// A reader of chunks sleeps until so much has come: what a copy over sockets costs is mostly
// waking.
constexpr size_t kWakeBytes = size_t{512} << 10;

constexpr size_t kTlsGulp = size_t{128} << 10;  // a multiple of kChecksumBlock

absl::Status unavailable(std::string_view what, int error) {
  return absl::UnavailableError(fmt::format("{}: {}", what, std::strerror(error)));
}

struct Address {
  sockaddr_storage storage{};
  socklen_t bytes = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

absl::StatusOr<Address> resolve(const std::string& host, uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), fmt::format("{}", port).c_str(), &hints, &found);
  if (error != 0 || found == nullptr) {
    return absl::UnavailableError(fmt::format("host {}: {}", host, gai_strerror(error)));
  }
  Address address;
  address.bytes = found->ai_addrlen;
  std::memcpy(&address.storage, found->ai_addr, found->ai_addrlen);
  freeaddrinfo(found);
  return address;
}

Address unix_address(const std::string& path) {
  Address address;
  auto* unix = reinterpret_cast<sockaddr_un*>(&address.storage);
  unix->sun_family = AF_UNIX;
  std::memcpy(unix->sun_path, path.data(), std::min(path.size(), sizeof(unix->sun_path) - 1));
  if (path.starts_with('@')) unix->sun_path[0] = '\0';
  // An abstract name is as long as the address says, a path ends with a zero; "" takes a free one.
  const size_t zero = path.empty() || path.starts_with('@') ? 0 : 1;
  address.bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size() + zero);
  return address;
}

absl::StatusOr<Address> address_of(const Endpoint& endpoint) {
  if (endpoint.transport == Endpoint::Transport::kShm) return unix_address(endpoint.path);
  return resolve(endpoint.host, endpoint.port);
}

// What a broken network does to a quiet connection is noticed within some 20 s.
void tune(int fd) {
  const int on = 1;
  const int seconds = 5;
  const int probes = 3;
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &seconds, sizeof(seconds));
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &seconds, sizeof(seconds));
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

bool is_unix(int fd) {
  int domain = 0;
  socklen_t bytes = sizeof(domain);
  return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &bytes) == 0 && domain == AF_UNIX;
}

// A socket file that a killed process left behind.
void remove_stale(const std::string& path, const Address& address) {
  if (path.empty() || path.starts_with('@')) return;
  const Fd probe(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const bool refused =
      ::connect(probe.get(), address.get(), address.bytes) != 0 && errno == ECONNREFUSED;
  if (refused) unlink(path.c_str());
}

absl::Status finish_connect(int fd, std::string_view to, Deadline deadline, milliseconds idle) {
  const auto left = duration_cast<milliseconds>(deadline - Clock::now());
  pollfd entry{fd, POLLOUT, 0};
  const int ready =
      poll(&entry, 1, static_cast<int>(std::clamp(left, milliseconds(0), idle).count()));
  if (ready == 0) {
    if (left <= idle) return absl::DeadlineExceededError(fmt::format("connecting to {}", to));
    return absl::UnavailableError(fmt::format("{} does not answer", to));
  }
  int error = 0;
  socklen_t bytes = sizeof(error);
  if (ready < 0 || getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &bytes) != 0) error = errno;
  if (error != 0) return unavailable(to, error);
  fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
  return absl::OkStatus();
}

}  // namespace

Connection::Connection(Fd socket, milliseconds idle_timeout)
    : socket_(std::move(socket)), idle_timeout_(idle_timeout), local_(is_unix(socket_.get())) {
  if (!local_) tune(socket_.get());
}

absl::StatusOr<std::unique_ptr<Connection>> Connection::connect(const Endpoint& endpoint,
                                                                const std::string& from_address,
                                                                Deadline deadline,
                                                                milliseconds idle_timeout) {
  const absl::StatusOr<Address> to = address_of(endpoint);
  if (!to.ok()) return to.status();
  const bool local = endpoint.transport == Endpoint::Transport::kShm;
  Fd socket(
      ::socket(to->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | (local ? 0 : SOCK_NONBLOCK), 0));
  if (!socket.valid()) return unavailable("socket", errno);
  if (!from_address.empty() && !local) {
    const absl::StatusOr<Address> from = resolve(from_address, 0);
    if (!from.ok()) return from.status();
    if (bind(socket.get(), from->get(), from->bytes) != 0) {
      return unavailable(fmt::format("local address {}", from_address), errno);
    }
  }
  if (local) {
    const timeval longest{idle_timeout.count() / 1000, idle_timeout.count() % 1000 * 1000};
    setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &longest, sizeof(longest));
  }
  if (::connect(socket.get(), to->get(), to->bytes) != 0) {
    if (errno != EINPROGRESS) return unavailable(endpoint.text(), errno);
  }
  if (!local) {
    const absl::Status status =
        finish_connect(socket.get(), endpoint.text(), deadline, idle_timeout);
    if (!status.ok()) return status;
  }
  auto connection = std::make_unique<Connection>(std::move(socket), idle_timeout);
  connection->set_deadline(deadline);
  return connection;
}

absl::Status Connection::start_tls(const TlsFiles& files, TlsSession::Side side) {
  for (const Direction direction : {Direction::kRead, Direction::kWrite}) {
    if (absl::Status status = arm(direction, false); !status.ok()) return status;
  }
  absl::StatusOr<std::unique_ptr<TlsSession>> session =
      TlsSession::start(socket_.get(), files, side);
  if (!session.ok()) return session.status();
  tls_ = *std::move(session);
  return side == TlsSession::Side::kCalls ? tls_->peer() : absl::OkStatus();
}

bool Connection::begins_tls() {
  constexpr unsigned char kHandshake = 22;
  unsigned char first = 0;
  if (!arm(Direction::kRead, false).ok()) return false;
  return recv(socket_.get(), &first, 1, MSG_PEEK) == 1 && first == kHandshake;
}

absl::Status Connection::timed_out() const {
  if (Clock::now() >= deadline_) return absl::DeadlineExceededError("the deadline of a transfer");
  return absl::UnavailableError(
      fmt::format("the peer showed no progress for {} ms", idle_timeout_.count()));
}

// The kernel ends a call after the socket's timeout, however slowly bytes trickle meanwhile, so a
// call never outlasts it.
absl::Status Connection::arm(Direction direction, bool patient) {
  const auto left = deadline_ == Deadline::max()
                        ? microseconds::max()
                        : duration_cast<microseconds>(deadline_ - Clock::now());
  if (left <= microseconds(0)) return timed_out();
  const microseconds longest = patient ? std::chrono::hours(1) : microseconds(idle_timeout_);
  const microseconds timeout = std::clamp(left, microseconds(1000), longest);
  microseconds& armed = armed_[static_cast<size_t>(direction)];
  if (timeout == armed) return absl::OkStatus();
  armed = timeout;
  const timeval value{timeout.count() / 1000000, timeout.count() % 1000000};
  const int option = direction == Direction::kRead ? SO_RCVTIMEO : SO_SNDTIMEO;
  setsockopt(socket_.get(), SOL_SOCKET, option, &value, sizeof(value));
  return absl::OkStatus();
}

ssize_t Connection::send_some(std::span<const std::byte> first, std::span<const std::byte> second,
                              bool more) {
  if (tls_) return tls_->write(first.empty() ? second : first);
  iovec pieces[2] = {{const_cast<std::byte*>(first.data()), first.size()},
                     {const_cast<std::byte*>(second.data()), second.size()}};
  msghdr message{};
  message.msg_iov = pieces;
  message.msg_iovlen = second.empty() ? 1 : 2;
  return sendmsg(socket_.get(), &message, MSG_NOSIGNAL | (more ? MSG_MORE : 0));
}

ssize_t Connection::receive_some(std::span<std::byte> bytes) {
  if (tls_) return tls_->read(bytes);
  return recv(socket_.get(), bytes.data(), bytes.size(), MSG_WAITALL);
}

absl::Status Connection::write(std::span<const std::byte> first, std::span<const std::byte> second,
                               bool more) {
  while (!first.empty() || !second.empty()) {
    if (absl::Status status = arm(Direction::kWrite, false); !status.ok()) return status;
    const ssize_t sent = send_some(first, second, more);
    if (sent < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN) return timed_out();
      const bool hung_up = errno == EPIPE || errno == ECONNRESET;
      absl::Status failed = unavailable("connection", errno);
      return hung_up ? last_word(failed) : failed;
    }
    const size_t of_first = std::min(first.size(), static_cast<size_t>(sent));
    first = first.subspan(of_first);
    second = second.subspan(static_cast<size_t>(sent) - of_first);
  }
  return absl::OkStatus();
}

absl::Status Connection::read(std::span<std::byte> bytes, bool patient) {
  while (!bytes.empty()) {
    if (absl::Status status = arm(Direction::kRead, patient); !status.ok()) return status;
    const ssize_t got = receive_some(bytes);
    if (got == 0) return absl::UnavailableError("the peer closed the connection");
    if (got < 0) {
      if (errno == EINTR) continue;
      if (errno != EAGAIN) return unavailable("connection", errno);
      if (patient && Clock::now() < deadline_) continue;
      return timed_out();
    }
    bytes = bytes.subspan(static_cast<size_t>(got));
    patient = false;
  }
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> Connection::write_chunk(uint64_t chunk, std::span<const std::byte> bytes) {
  const auto header = encode_header({FrameType::kChunk, bytes.size(), chunk, 0});
  if (absl::Status status = write(header, bytes, true); !status.ok()) return status;
  const uint64_t sum = checksum(bytes);
  // Goes with the frame that follows, the next chunk or the end of the stream.
  const absl::Status status = write(std::as_bytes(std::span(&sum, 1)), {}, true);
  if (!status.ok()) return status;
  return sum;
}

absl::StatusOr<Connection::Chunk> Connection::read_chunk(std::span<std::byte> bytes) {
  Checksum sum;
  if (tls_) {
    // TLS hands out what it has deciphered; here it is still near.
    for (std::span<std::byte> rest = bytes; !rest.empty();) {
      const std::span<std::byte> piece = rest.first(std::min(kTlsGulp, rest.size()));
      if (absl::Status status = read(piece, false); !status.ok()) return status;
      sum.add(piece);
      rest = rest.subspan(piece.size());
    }
  } else if (absl::Status status = read_in_gulps(bytes, sum); !status.ok())
    return status;
  uint64_t told = 0;
  if (absl::Status status = read(std::as_writable_bytes(std::span(&told, 1)), false);
      !status.ok()) {
    return status;
  }
  return Chunk{told == sum.value(), told};
}

void Connection::wake_at(size_t bytes) {
  const int value = static_cast<int>(bytes);
  if (value == wakes_at_) return;
  wakes_at_ = value;
  setsockopt(socket_.get(), SOL_SOCKET, SO_RCVLOWAT, &value, sizeof(value));
}

// Never asks to be woken by more than what is still to come, so the last byte always wakes.
absl::Status Connection::read_in_gulps(std::span<std::byte> bytes, Checksum& sum) {
  absl::Status status;
  std::span<const std::byte> unsummed = bytes;
  while (status.ok() && !bytes.empty()) {
    if (Clock::now() >= deadline_) {
      status = timed_out();
      break;
    }
    wake_at(std::min(kWakeBytes, bytes.size()));
    const auto left = duration_cast<milliseconds>(deadline_ - Clock::now());
    const milliseconds longest = std::clamp(left, milliseconds(0), idle_timeout_);
    pollfd entry{socket_.get(), POLLIN, 0};
    const int ready = poll(&entry, 1, static_cast<int>(longest.count()));
    if (ready < 0 && errno == EINTR) continue;
    // Whatever has come is progress, also where it is too little to wake.
    const ssize_t got = recv(socket_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (got > 0) bytes = bytes.subspan(static_cast<size_t>(got));
    // What the kernel has just copied is still near.
    const size_t came = unsummed.size() - bytes.size();
    const size_t whole = bytes.empty() ? came : came / kChecksumBlock * kChecksumBlock;
    sum.add(unsummed.first(whole));
    unsummed = unsummed.subspan(whole);
    if (got == 0) status = absl::UnavailableError("the peer closed the connection");
    if (got < 0 && errno != EINTR && errno != EAGAIN) status = unavailable("connection", errno);
    if (got < 0 && ready == 0 && status.ok()) status = timed_out();
  }
  wake_at(1);
  return status;
}

absl::Status Connection::write_frame(FrameType type, uint64_t argument, std::string_view body) {
  const auto bytes = std::as_bytes(std::span(body));
  return write(encode_header({type, bytes.size(), argument, checksum(bytes)}), bytes);
}

absl::Status Connection::write_reply(const absl::Status& status, uint64_t argument) {
  return write_frame(FrameType::kReply, argument, encode_status(status));
}

absl::StatusOr<FrameHeader> Connection::read_header(bool patient) {
  std::array<std::byte, FrameHeader::kBytes> bytes;
  if (absl::Status status = read(bytes, patient); !status.ok()) return status;
  return decode_header(bytes);
}

absl::StatusOr<FrameHeader> Connection::read_header_of(FrameType type, bool patient) {
  absl::StatusOr<FrameHeader> header = read_header(patient);
  if (header.ok() && header->type != type) {
    return absl::InvalidArgumentError(fmt::format("the peer sent frame {}, expected {}",
                                                  static_cast<uint32_t>(header->type),
                                                  static_cast<uint32_t>(type)));
  }
  return header;
}

absl::StatusOr<std::string> Connection::read_body(const FrameHeader& header) {
  // Grows as bytes come, so that a header alone costs no memory.
  constexpr uint64_t kStep = uint64_t{1} << 20;
  std::string body;
  while (body.size() < header.body_bytes) {
    const size_t have = body.size();
    body.resize(have + std::min(kStep, header.body_bytes - have));
    const auto rest = std::as_writable_bytes(std::span(body)).subspan(have);
    if (absl::Status status = read(rest, false); !status.ok()) return status;
  }
  if (checksum(std::as_bytes(std::span(body))) != header.body_sum) {
    return absl::DataLossError("a frame was damaged on the way");
  }
  return body;
}

absl::StatusOr<std::string> Connection::read_frame(FrameType type, bool patient) {
  const absl::StatusOr<FrameHeader> header = read_header_of(type, patient);
  if (!header.ok()) return header.status();
  return read_body(*header);
}

// A peer that refuses does not wait for what it will not read, so writing to it may break. What it
// wrote before it hung up is still here: the kernel drops only what waits to be sent.
absl::Status Connection::last_word(const absl::Status& failed) {
  const absl::StatusOr<FrameHeader> header = read_header_of(FrameType::kReply);
  if (!header.ok()) return failed;
  const absl::StatusOr<std::string> body = read_body(*header);
  if (!body.ok()) return failed;
  const absl::Status reply = decode_status(*body);
  return reply.ok() ? failed : reply;
}

absl::Status Connection::read_reply(uint64_t* argument, bool patient) {
  while (true) {
    const absl::StatusOr<FrameHeader> header = read_header(patient);
    if (!header.ok()) return header.status();
    if (header->type == FrameType::kProgress) continue;
    if (header->type != FrameType::kReply) {
      return absl::InvalidArgumentError(fmt::format("the peer sent frame {}, expected a reply",
                                                    static_cast<uint32_t>(header->type)));
    }
    if (argument != nullptr) *argument = header->argument;
    const absl::StatusOr<std::string> body = read_body(*header);
    if (!body.ok()) return body.status();
    return decode_status(*body);
  }
}

absl::Status Connection::write_descriptor(int fd) {
  if (absl::Status status = arm(Direction::kWrite, false); !status.ok()) return status;
  auto header = encode_header({FrameType::kMemory, 0, 0, checksum({})});
  iovec piece{header.data(), header.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  cmsghdr* attached = CMSG_FIRSTHDR(&message);
  attached->cmsg_level = SOL_SOCKET;
  attached->cmsg_type = SCM_RIGHTS;
  attached->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(attached), &fd, sizeof(int));
  const ssize_t sent = sendmsg(socket_.get(), &message, MSG_NOSIGNAL);
  if (sent == static_cast<ssize_t>(header.size())) return absl::OkStatus();
  return unavailable("passing memory", sent < 0 ? errno : EIO);
}

absl::StatusOr<Fd> Connection::read_descriptor() {
  if (absl::Status status = arm(Direction::kRead, false); !status.ok()) return status;
  std::array<std::byte, FrameHeader::kBytes> header;
  iovec piece{header.data(), header.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  const ssize_t got = recvmsg(socket_.get(), &message, MSG_CMSG_CLOEXEC | MSG_WAITALL);
  Fd fd;
  for (cmsghdr* at = CMSG_FIRSTHDR(&message); got > 0 && at != nullptr;
       at = CMSG_NXTHDR(&message, at)) {
    if (at->cmsg_level != SOL_SOCKET || at->cmsg_type != SCM_RIGHTS) continue;
    // All are ours to close, the first is the one.
    const size_t count = (at->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = count; i-- > 0;) {
      int value = -1;
      std::memcpy(&value, CMSG_DATA(at) + i * sizeof(int), sizeof(int));
      fd = Fd(value);
    }
  }
  if (got < 0) return errno == EAGAIN ? timed_out() : unavailable("connection", errno);
  if (got == 0) return absl::UnavailableError("the peer closed the connection");
  if (got != static_cast<ssize_t>(header.size())) {
    return absl::UnavailableError("the peer passed half a frame");
  }
  const absl::StatusOr<FrameHeader> decoded = decode_header(header);
  if (!decoded.ok()) return decoded.status();
  if (decoded->type != FrameType::kMemory || !fd.valid()) {
    return absl::InvalidArgumentError("the peer passed no memory");
  }
  return fd;
}

std::string Connection::own_host() const {
  Address own;
  own.bytes = sizeof(own.storage);
  char host[INET6_ADDRSTRLEN + 32] = "";
  if (getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&own.storage), &own.bytes) != 0 ||
      getnameinfo(own.get(), own.bytes, host, sizeof(host), nullptr, 0, NI_NUMERICHOST) != 0) {
    return "";
  }
  return host;
}

void Connection::shutdown() { ::shutdown(socket_.get(), SHUT_RDWR); }

absl::StatusOr<Listener> listen_at(const Endpoint& endpoint) {
  const absl::StatusOr<Address> address = address_of(endpoint);
  if (!address.ok()) return address.status();
  Listener listener{
      Fd(socket(address->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)),
      endpoint};
  const auto failed = [&](std::string_view what) {
    return unavailable(fmt::format("{} {}", what, endpoint.text()), errno);
  };
  if (!listener.socket.valid()) return failed("socket for");
  const bool local = endpoint.transport == Endpoint::Transport::kShm;
  const int on = 1;
  if (!local) setsockopt(listener.socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (local) remove_stale(endpoint.path, *address);
  if (bind(listener.socket.get(), address->get(), address->bytes) != 0) {
    return failed("listening at");
  }
  if (listen(listener.socket.get(), 256) != 0) return failed("listening at");
  Address bound;
  bound.bytes = sizeof(bound.storage);
  if (getsockname(listener.socket.get(), reinterpret_cast<sockaddr*>(&bound.storage),
                  &bound.bytes) != 0) {
    return failed("listening at");
  }
  if (bound.storage.ss_family == AF_INET) {
    listener.endpoint.port = ntohs(reinterpret_cast<const sockaddr_in*>(&bound.storage)->sin_port);
  } else if (bound.storage.ss_family == AF_INET6) {
    listener.endpoint.port =
        ntohs(reinterpret_cast<const sockaddr_in6*>(&bound.storage)->sin6_port);
  } else if (endpoint.path.empty()) {
    const auto* name = reinterpret_cast<const sockaddr_un*>(&bound.storage)->sun_path;
    listener.endpoint.path =
        "@" + std::string(name + 1, bound.bytes - offsetof(sockaddr_un, sun_path) - 1);
  }
  return listener;
}

}  // namespace monkeytree
