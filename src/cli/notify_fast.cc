#include "cli/notify_fast.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include "service/address.h"

namespace monkeytree {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kBudget{20};
constexpr size_t kMaxWhy = 200;

void remark(std::string_view text) {
  const std::string line = fmt::format("monkeytree: notify: {}\n", text);
  std::fwrite(line.data(), 1, line.size(), stderr);
}

bool wait_for(int socket, short events, Clock::time_point deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
  if (left <= 0) return false;
  pollfd ready{socket, events, 0};
  return poll(&ready, 1, static_cast<int>(left)) > 0;
}

/// A short text as a JSON string; what could need care is left out.
std::string in_json(std::string_view text) {
  std::string out;
  for (const char c : text.substr(0, kMaxWhy)) {
    const bool plain = c >= ' ' && c < 0x7f && c != '"' && c != '\\';
    out += plain ? c : '?';
  }
  return out;
}

void tell(const ListenAddress& address, std::string_view why) {
  const Clock::time_point deadline = Clock::now() + kBudget;
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* raw = nullptr;
  const std::string host = address.host == "localhost" ? "127.0.0.1" : address.host;
  if (getaddrinfo(host.c_str(), std::to_string(address.port).c_str(), &hints, &raw) != 0) {
    return remark("expected an address of numbers, or localhost");
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> found(raw, &freeaddrinfo);
  const int socket = ::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (socket < 0) return;
  const bool connected = connect(socket, found->ai_addr, found->ai_addrlen) == 0 ||
                         (errno == EINPROGRESS && wait_for(socket, POLLOUT, deadline));
  if (connected) {
    const std::string body = fmt::format("{{\"why\": \"{}\"}}", in_json(why));
    const std::string request = fmt::format(
        "POST /api/v1/notify HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n"
        "Content-Length: {}\r\n\r\n{}",
        to_string(address), body.size(), body);
    // So little fits into the socket's buffer at once, or the connection is broken anyway.
    // The kernel delivers it after we have gone; the answer is nothing to us.
    [[maybe_unused]] const ssize_t sent =
        send(socket, request.data(), request.size(), MSG_NOSIGNAL);
  }
  close(socket);
}

/// TLS takes longer, and more libraries, than a prolog should wait for: the whole program does it
/// in a session of its own, which outlives us.
void tell_by_tls(const std::string& address, const std::string& ca, const std::string& why) {
  std::array<char, 4096> self{};
  const ssize_t length = readlink("/proc/self/exe", self.data(), self.size());
  if (length <= 0) return;
  std::string program(self.data(), static_cast<size_t>(length));
  program = program.substr(0, program.rfind('/')) + "/monkeytree";
  const std::array<const char*, 10> arguments = {"monkeytree",    "notify", "--wait",   "--address",
                                                 address.c_str(), "--ca",   ca.c_str(), "--",
                                                 why.c_str(),     nullptr};
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&files, 1, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_adddup2(&files, 1, 2);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID);
  pid_t child = 0;
  const int fault = posix_spawn(&child, program.c_str(), &files, &attributes,
                                const_cast<char* const*>(arguments.data()), environ);
  if (fault != 0) remark("cannot start " + program);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
}

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

bool is_notify(int argc, char** argv) {
  if (argc < 2 || std::string_view(argv[1]) != "notify") return false;
  return std::none_of(argv + 2, argv + argc, [](const char* argument) {
    const std::string_view text = argument;
    return text == "--help" || text == "-h" || text == "--wait";
  });
}

int notify_fast(int argc, char** argv, int first) {
  std::string address = environment("MONKEYTREE_ADDRESS"), ca = environment("MONKEYTREE_CA_FILE");
  if (address.empty()) address = "127.0.0.1:7460";
  std::string why;
  for (int i = first; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--address" && i + 1 < argc) {
      address = argv[++i];
    } else if (argument.starts_with("--address=")) {
      address = argument.substr(std::string_view("--address=").size());
    } else if (argument == "--ca" && i + 1 < argc) {
      ca = argv[++i];
    } else if (argument.starts_with("--ca=")) {
      ca = argument.substr(std::string_view("--ca=").size());
    } else if (argument.starts_with("--")) {
      remark("passed over an option that is not known");
    } else {
      why += (why.empty() ? "" : " ") + std::string(argument);
    }
  }
  const std::optional<ListenAddress> where = parse_address(address);
  if (!where) {
    remark("--address: expected HOST:PORT such as 127.0.0.1:7460");
    return 0;
  }
  if (ca.empty()) {
    tell(*where, why);
  } else {
    tell_by_tls(address, ca, why);
  }
  return 0;
}

}  // namespace monkeytree
