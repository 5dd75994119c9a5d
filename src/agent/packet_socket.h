#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <sys/types.h>

#include <string>
#include <string_view>

#include "state/fd.h"

/// Unix sockets of type SOCK_SEQPACKET: one message a packet, a descriptor may come with it.
namespace monkeytree {

/// Listens at `path`, which all users of the machine may reach. A socket that nobody listens to any
/// more is replaced; AlreadyExists where somebody does. Not blocking.
absl::StatusOr<Fd> listen_packets(const std::string& path);

/// Connects; blocking. Unavailable where nobody listens.
absl::StatusOr<Fd> connect_packets(const std::string& path);

/// The process at the other end, as of when it connected. `process` is 0 where it lives in another
/// namespace.
struct PeerProcess {
  pid_t process = 0;
  uid_t user = 0;
};
absl::StatusOr<PeerProcess> peer_process(int socket);

/// Sends one packet without waiting. Unavailable: the peer is gone, or does not read.
absl::Status send_packet(int socket, std::string_view bytes, int attached = -1);

struct Packet {
  std::string bytes;
  Fd attached;
};

/// Takes one packet; what stands on a blocking socket waits for it. Unavailable: the peer has
/// closed; NotFound: nothing there (not blocking); InvalidArgument: longer than `limit`, or more
/// than one descriptor.
absl::StatusOr<Packet> receive_packet(int socket, size_t limit);

}  // namespace monkeytree
