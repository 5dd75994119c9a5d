#include "inventory/emulated_socket.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "inventory/emulated_call.h"

namespace monkeytree {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr size_t kLongestMessage = size_t{256} << 20;
constexpr seconds kForPeople{5};  ///< describe() has no deadline of its own

int64_t milliseconds_until(Deadline deadline) {
  const auto left = std::chrono::ceil<milliseconds>(deadline - std::chrono::steady_clock::now());
  return std::clamp<int64_t>(left.count(), 0, int64_t{1} << 30);
}

absl::StatusOr<sockaddr_un> address_of(const std::string& socket) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (socket.empty() || socket.size() >= sizeof address.sun_path) {
    return absl::InvalidArgumentError(fmt::format("socket {}: expected a path of 1 to {} bytes",
                                                  socket, sizeof address.sun_path - 1));
  }
  std::memcpy(address.sun_path, socket.data(), socket.size());
  return address;
}

absl::Status failed(const std::string& socket, int error) {
  return absl::UnavailableError(fmt::format("{}: {}", socket, std::strerror(error)));
}

absl::Status wait_until_ready(int descriptor, short what, Deadline deadline) {
  pollfd end{descriptor, what, 0};
  while (true) {
    const int ready = poll(&end, 1, static_cast<int>(milliseconds_until(deadline)));
    if (ready > 0) return absl::OkStatus();
    if (ready == 0) return absl::DeadlineExceededError("the emulated cluster does not answer");
    if (errno != EINTR) return absl::UnavailableError(std::strerror(errno));
  }
}

absl::Status send_all(int connection, std::string_view text, Deadline deadline) {
  while (!text.empty()) {
    if (absl::Status ready = wait_until_ready(connection, POLLOUT, deadline); !ready.ok()) {
      return ready;
    }
    const ssize_t sent = send(connection, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) {
      text.remove_prefix(static_cast<size_t>(sent));
    } else if (errno != EAGAIN && errno != EINTR) {
      return absl::UnavailableError(std::strerror(errno));
    }
  }
  return absl::OkStatus();
}

/// Until the other side has said all.
absl::StatusOr<std::string> receive_all(int connection, Deadline deadline) {
  std::string out;
  std::array<char, 1 << 16> buffer{};
  while (true) {
    if (absl::Status ready = wait_until_ready(connection, POLLIN, deadline); !ready.ok()) {
      return ready;
    }
    const ssize_t got = recv(connection, buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got == 0) return out;
    if (got < 0) {
      if (errno == EAGAIN || errno == EINTR) continue;
      return absl::UnavailableError(std::strerror(errno));
    }
    out.append(buffer.data(), static_cast<size_t>(got));
    if (out.size() > kLongestMessage) return absl::ResourceExhaustedError("message too long");
  }
}

class Connection {
 public:
  explicit Connection(int descriptor) : descriptor_(descriptor) {}
  ~Connection() { close(descriptor_); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  int get() const { return descriptor_; }

 private:
  int descriptor_;
};

absl::StatusOr<EmulatedReply> ask(const std::string& socket, const EmulatedCall& call,
                                  Deadline deadline) {
  const absl::StatusOr<sockaddr_un> address = address_of(socket);
  if (!address.ok()) return address.status();
  const Connection connection(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (connection.get() < 0) return failed(socket, errno);
  if (connect(connection.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address) !=
      0) {
    return failed(socket, errno);
  }
  const std::string text = write_emulated_call(call, milliseconds_until(deadline));
  if (absl::Status sent = send_all(connection.get(), text, deadline); !sent.ok()) return sent;
  shutdown(connection.get(), SHUT_WR);
  // The cluster itself keeps to the deadline; its word for that is better than ours.
  const absl::StatusOr<std::string> reply =
      receive_all(connection.get(), deadline + milliseconds(200));
  if (!reply.ok()) return reply.status();
  if (reply->empty()) return absl::UnavailableError(socket + ": the emulated cluster has ended");
  return read_emulated_reply(*reply);
}

}  // namespace

absl::StatusOr<std::unique_ptr<EmulatedServer>> EmulatedServer::open(Scheduler& cluster,
                                                                     const std::string& socket) {
  const absl::StatusOr<sockaddr_un> address = address_of(socket);
  if (!address.ok()) return address.status();
  const sockaddr* where = reinterpret_cast<const sockaddr*>(&*address);
  const int listening = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (listening < 0) return failed(socket, errno);
  {
    // What a server left that was killed is in the way; one that lives is not touched.
    const Connection probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (connect(probe.get(), where, sizeof *address) != 0 && errno == ECONNREFUSED) {
      unlink(socket.c_str());
    }
  }
  const mode_t before = umask(0177);
  const bool bound = bind(listening, where, sizeof *address) == 0;
  const int error = errno;
  umask(before);
  if (!bound || listen(listening, 64) != 0) {
    close(listening);
    return failed(socket, bound ? errno : error);
  }
  return std::unique_ptr<EmulatedServer>(new EmulatedServer(cluster, socket, listening));
}

EmulatedServer::EmulatedServer(Scheduler& cluster, std::string socket, int listening)
    : cluster_(cluster), socket_(std::move(socket)), listening_(listening) {
  thread_ = std::thread([this] { accept_calls(); });
}

EmulatedServer::~EmulatedServer() {
  ending_ = true;
  shutdown(listening_, SHUT_RDWR);  // accept() returns
  thread_.join();
  close(listening_);
  unlink(socket_.c_str());
  std::unique_lock lock(mutex_);
  fewer_.wait(lock, [this] { return calls_ == 0; });
}

void EmulatedServer::accept_calls() {
  while (!ending_) {
    const int connection = accept4(listening_, nullptr, nullptr, SOCK_CLOEXEC);
    if (connection < 0) {
      if (!ending_ && errno != EINTR) std::this_thread::sleep_for(milliseconds(10));
      continue;
    }
    {
      const std::lock_guard lock(mutex_);
      ++calls_;
    }
    std::thread([this, connection] { serve(connection); }).detach();
  }
}

void EmulatedServer::serve(int connection) {
  {
    const Connection closed_at_end(connection);
    const Deadline deadline = std::chrono::steady_clock::now() + seconds(60);
    const absl::StatusOr<std::string> request = receive_all(connection, deadline);
    if (request.ok()) {
      send_all(connection, answer_emulated_call(cluster_, *request), deadline + seconds(3600))
          .IgnoreError();
    }
  }
  const std::lock_guard lock(mutex_);
  --calls_;
  fewer_.notify_all();
}

namespace {

EmulatedCall call_named(const char* name) {
  EmulatedCall call;
  call.name = name;
  return call;
}

EmulatedCall call_about(const char* name, const WorkerName& worker, const std::string& node) {
  EmulatedCall call = call_named(name);
  call.hold.worker = worker;
  call.hold.node = node;
  return call;
}

}  // namespace

EmulatedProxy::EmulatedProxy(std::string socket) : socket_(std::move(socket)) {}

std::string EmulatedProxy::describe() const {
  const absl::StatusOr<EmulatedReply> reply =
      ask(socket_, call_named("describe"), std::chrono::steady_clock::now() + kForPeople);
  return reply.ok() ? reply->text : "emulated cluster at " + socket_ + ", which does not answer";
}

std::string EmulatedProxy::why_read_only() const {
  const absl::StatusOr<EmulatedReply> reply =
      ask(socket_, call_named("why_read_only"), std::chrono::steady_clock::now() + kForPeople);
  return reply.ok() ? reply->text : std::string(reply.status().message());
}

absl::StatusOr<Observation> EmulatedProxy::observe(Deadline deadline) {
  absl::StatusOr<EmulatedReply> reply = ask(socket_, call_named("observe"), deadline);
  if (!reply.ok()) return reply.status();
  return std::move(reply->seen);
}

absl::StatusOr<Hold> EmulatedProxy::hold(const WorkerName& worker, const std::string& node,
                                         const std::string& reservation, Deadline deadline) {
  EmulatedCall call = call_about("hold", worker, node);
  call.reservation = reservation;
  const absl::StatusOr<EmulatedReply> reply = ask(socket_, call, deadline);
  if (!reply.ok()) return reply.status();
  if (reply->seen.holds.size() != 1) return absl::InternalError("a reply without a hold");
  return reply->seen.holds[0];
}

absl::Status EmulatedProxy::start(const Hold& hold, const WorkerCommand& command,
                                  Deadline deadline) {
  EmulatedCall call = call_named("start");
  call.hold = hold;
  call.command = command;
  return ask(socket_, call, deadline).status();
}

absl::Status EmulatedProxy::give_back(const WorkerName& worker, const std::string& node,
                                      const std::vector<std::string>& order, Deadline deadline) {
  EmulatedCall call = call_about("give_back", worker, node);
  call.nodes = order;
  return ask(socket_, call, deadline).status();
}

absl::Status EmulatedProxy::cancel(const Hold& hold, Deadline deadline) {
  EmulatedCall call = call_named("cancel");
  call.hold = hold;
  return ask(socket_, call, deadline).status();
}

absl::Status EmulatedProxy::reserve(const std::string& name, const std::vector<std::string>& nodes,
                                    Deadline deadline) {
  EmulatedCall call = call_named("reserve");
  call.reservation = name;
  call.nodes = nodes;
  return ask(socket_, call, deadline).status();
}

absl::Status EmulatedProxy::unreserve(const std::string& name, Deadline deadline) {
  EmulatedCall call = call_named("unreserve");
  call.reservation = name;
  return ask(socket_, call, deadline).status();
}

absl::StatusOr<std::vector<std::string>> EmulatedProxy::booked(const std::string& job,
                                                               Deadline deadline) {
  absl::StatusOr<EmulatedReply> reply =
      ask(socket_, call_about("booked", {job, 0, 0}, ""), deadline);
  if (!reply.ok()) return reply.status();
  return std::move(reply->nodes);
}

}  // namespace monkeytree
