#include "agent/packet_socket.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "base/file.h"

namespace monkeytree {
namespace {

absl::Status system_error(std::string_view what, int number) {
  return absl::InternalError(fmt::format("{}: {}", what, std::strerror(number)));
}

absl::StatusOr<sockaddr_un> address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(address.sun_path)) {
    return absl::InvalidArgumentError(fmt::format("{}: the path of a socket has 1 to {} bytes",
                                                  path, sizeof(address.sun_path) - 1));
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

const sockaddr* generic(const sockaddr_un& address) {
  return reinterpret_cast<const sockaddr*>(&address);
}

absl::Status make_room(const std::string& path, const sockaddr_un& address) {
  const std::string folder = folder_of(path);
  if (!folder.empty()) mkdir(folder.c_str(), 0755);  // bind() says what is wrong
  const Fd probe(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (connect(probe.get(), generic(address), sizeof(address)) == 0) {
    return absl::AlreadyExistsError(fmt::format("{}: another agent listens there", path));
  }
  struct stat info {};
  if (errno == ECONNREFUSED && lstat(path.c_str(), &info) == 0 && S_ISSOCK(info.st_mode)) {
    unlink(path.c_str());
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Fd> listen_packets(const std::string& path) {
  const absl::StatusOr<sockaddr_un> address = address_of(path);
  if (!address.ok()) return address.status();
  if (absl::Status status = make_room(path, *address); !status.ok()) return status;
  Fd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.valid()) return system_error("socket", errno);
  if (bind(socket.get(), generic(*address), sizeof(*address)) != 0) {
    return system_error(path, errno);
  }
  // Workers run as their jobs' users. Who they are the kernel tells.
  if (chmod(path.c_str(), 0666) != 0) return system_error(path, errno);
  if (listen(socket.get(), 128) != 0) return system_error(path, errno);
  return socket;
}

absl::StatusOr<Fd> connect_packets(const std::string& path) {
  const absl::StatusOr<sockaddr_un> address = address_of(path);
  if (!address.ok()) return address.status();
  Fd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!socket.valid()) return system_error("socket", errno);
  if (connect(socket.get(), generic(*address), sizeof(*address)) != 0) {
    return absl::UnavailableError(fmt::format("{}: {}", path, std::strerror(errno)));
  }
  return socket;
}

absl::StatusOr<PeerProcess> peer_process(int socket) {
  ucred credentials{};
  socklen_t size = sizeof(credentials);
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) {
    return system_error("SO_PEERCRED", errno);
  }
  return PeerProcess{credentials.pid, credentials.uid};
}

absl::Status send_packet(int socket, std::string_view bytes, int attached) {
  iovec piece{const_cast<char*>(bytes.data()), bytes.size()};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  if (attached >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &attached, sizeof(int));
  }
  ssize_t sent = 0;
  do {
    sent = sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (sent < 0 && errno == EINTR);
  if (sent >= 0) return absl::OkStatus();
  return absl::UnavailableError(fmt::format("sending a packet: {}", std::strerror(errno)));
}

absl::StatusOr<Packet> receive_packet(int socket, size_t limit) {
  Packet packet;
  packet.bytes.resize(limit);
  iovec piece{packet.bytes.data(), packet.bytes.size()};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  constexpr size_t kTaken = 8;
  alignas(cmsghdr) char control[CMSG_SPACE(kTaken * sizeof(int))] = {};
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  ssize_t got = 0;
  do {
    got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return absl::NotFoundError("nothing");
  if (got < 0) return absl::UnavailableError(std::strerror(errno));
  std::vector<Fd> attached;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof(int));
      attached.emplace_back(fd);
    }
  }
  if (got == 0) return absl::UnavailableError("closed");
  if ((message.msg_flags & MSG_TRUNC) != 0) {
    return absl::InvalidArgumentError(fmt::format("a packet of more than {} bytes", limit));
  }
  if (attached.size() > 1 || (message.msg_flags & MSG_CTRUNC) != 0) {
    return absl::InvalidArgumentError("more than one descriptor in a packet");
  }
  packet.bytes.resize(static_cast<size_t>(got));
  if (!attached.empty()) packet.attached = std::move(attached.front());
  return packet;
}

}  // namespace monkeytree
