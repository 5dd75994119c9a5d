#include "ring.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/file.h"
#include "wire/agent_messages.h"
#include "worker_state.h"

namespace monkeytree {
namespace {

using std::chrono::milliseconds;

/// Says at a new connection who has come.
struct Greeting {
  uint64_t job = 0, generation = 0;
  int32_t group = 0, worker = 0;
};

struct Message {
  uint64_t generation = 0;
  int64_t iteration = 0;
  Ring::Word word;
};

absl::Status system_error(std::string_view what) {
  return absl::InternalError(fmt::format("{}: {}", what, std::strerror(errno)));
}

sockaddr_in ip_address(const std::string& host, int port) {
  sockaddr_in out{};
  out.sin_family = AF_INET;
  out.sin_port = htons(static_cast<uint16_t>(port));
  inet_pton(AF_INET, host.c_str(), &out.sin_addr);
  return out;
}

}  // namespace

absl::StatusOr<Ring> Ring::listen(Hook& hook, std::string folder, std::string address,
                                  int workers) {
  Ring ring(hook);
  ring.folder_ = std::move(folder);
  ring.address_ = std::move(address);
  ring.workers_ = workers;
  ring.listening_ = Fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_in own = ip_address(ring.address_, 0);
  socklen_t size = sizeof(own);
  if (bind(ring.listening_.get(), reinterpret_cast<sockaddr*>(&own), size) != 0 ||
      ::listen(ring.listening_.get(), 16) != 0 ||
      getsockname(ring.listening_.get(), reinterpret_cast<sockaddr*>(&own), &size) != 0) {
    return system_error("listening at " + ring.address_);
  }
  ring.port_ = ntohs(own.sin_port);
  return ring;
}

std::string Ring::card(const std::string& generation, int worker) const {
  const WorkerName& name = hook_->now().name;
  return fmt::format("{}/{}-{}-{}.{}", folder_, name.job, generation.empty() ? "0" : generation,
                     name.group, worker);
}

absl::Status Ring::publish(const std::string& generation) {
  return write_file(card(generation, hook_->now().name.worker),
                    HostPort{address_, port_}.text() + "\n");
}

absl::StatusOr<Fd> Ring::connect_right(const std::string& generation) {
  const WorkerName& name = hook_->now().name;
  const int right = (name.worker + 1) % workers_;
  while (true) {
    if (hook_->released()) return absl::CancelledError("released");
    absl::StatusOr<std::string> text = read_file(card(generation, right), 256);
    if (text.ok()) {
      const absl::StatusOr<HostPort> at = parse_host_port(text->substr(0, text->find('\n')));
      Fd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      if (at.ok()) {
        const sockaddr_in to = ip_address(at->host, at->port);
        const Greeting greeting{hash_text(name.job), hash_text(generation), name.group,
                                name.worker};
        if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&to), sizeof(to)) == 0 &&
            send(fd.get(), &greeting, sizeof(greeting), MSG_NOSIGNAL) == sizeof(greeting)) {
          return fd;
        }
      }
    }
    hook_->serve(milliseconds(10));
  }
}

absl::StatusOr<Fd> Ring::accept_left(const std::string& generation) {
  const WorkerName& name = hook_->now().name;
  const int left = (name.worker + workers_ - 1) % workers_;
  while (true) {
    if (hook_->released()) return absl::CancelledError("released");
    if (!hook_->serve(milliseconds(200), listening_.get(), POLLIN)) continue;
    Fd fd(accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    Greeting greeting;
    if (!fd.valid()) continue;
    const timeval patience{5, 0};
    setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    if (recv(fd.get(), &greeting, sizeof(greeting), MSG_WAITALL) != sizeof(greeting)) continue;
    if (greeting.job == hash_text(name.job) && greeting.generation == hash_text(generation) &&
        greeting.group == name.group && greeting.worker == left) {
      return fd;
    }
  }
}

absl::Status Ring::set_up(const std::string& generation) {
  left_.reset();
  right_.reset();
  if (workers_ == 1) return absl::OkStatus();
  if (absl::Status status = publish(generation); !status.ok()) return status;
  absl::StatusOr<Fd> right = connect_right(generation);
  if (!right.ok()) return right.status();
  right_ = *std::move(right);
  absl::StatusOr<Fd> left = accept_left(generation);
  if (!left.ok()) return left.status();
  left_ = *std::move(left);
  const int one = 1;
  setsockopt(right_.get(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
  return absl::OkStatus();
}

absl::Status Ring::exchange(const void* out, void* in, size_t bytes) {
  // A message is far smaller than a socket's buffer: sending does not wait.
  if (send(right_.get(), out, bytes, MSG_NOSIGNAL) != static_cast<ssize_t>(bytes)) {
    return system_error("the right neighbour is gone");
  }
  size_t got = 0;
  while (got < bytes) {
    if (!hook_->serve(milliseconds(200), left_.get(), POLLIN)) continue;
    const ssize_t more = recv(left_.get(), static_cast<char*>(in) + got, bytes - got, MSG_DONTWAIT);
    if (more < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (more <= 0) return absl::InternalError("the left neighbour is gone");
    got += static_cast<size_t>(more);
  }
  return absl::OkStatus();
}

absl::StatusOr<Ring::Word> Ring::reduce(int64_t iteration, Word own) {
  Message message{hash_text(hook_->now().generation), iteration, own};
  Word total = own;
  for (int step = 1; step < workers_; ++step) {
    Message from_left;
    if (absl::Status status = exchange(&message, &from_left, sizeof(message)); !status.ok()) {
      return status;
    }
    if (from_left.iteration != iteration || from_left.generation != message.generation) {
      return absl::FailedPreconditionError(fmt::format(
          "a neighbour is at iteration {}, this one at {}", from_left.iteration, iteration));
    }
    total.sum += from_left.word.sum;
    total.largest = std::max(total.largest, from_left.word.largest);
    message = from_left;
  }
  return total;
}

}  // namespace monkeytree
