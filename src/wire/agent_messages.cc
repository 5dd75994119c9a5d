#include "wire/agent_messages.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <charconv>

#include "base/json.h"

namespace monkeytree {
namespace {

constexpr std::string_view kSteps[kAgentSteps] = {
    "prepare", "announce", "pause",  "receive", "send",    "arrived", "restore", "retire",
    "resume",  "release",  "cancel", "undo",    "reserve", "stage",   "forward", "drop"};

bool is_loopback(const std::string& host) {
  if (host == "localhost") return true;
  in_addr four{};
  if (inet_pton(AF_INET, host.c_str(), &four) == 1) return (ntohl(four.s_addr) >> 24) == 127;
  in6_addr six{};
  return inet_pton(AF_INET6, host.c_str(), &six) == 1 && IN6_IS_ADDR_LOOPBACK(&six);
}

}  // namespace

std::string_view name_of(AgentStep step) { return kSteps[static_cast<size_t>(step)]; }

std::string staging_key(const std::string& migration, const WorkerName& worker) {
  return fmt::format("{}:{}", migration, to_string(worker));
}

std::pair<std::string, std::string> split_staging_key(std::string_view key) {
  const size_t colon = key.find(':');
  if (colon == std::string_view::npos) return {};
  return {std::string(key.substr(0, colon)), std::string(key.substr(colon + 1))};
}

bool is_state_of(std::string_view key, const WorkerName& worker, std::string_view except) {
  const auto [made_by, name] = split_staging_key(key);
  return name == to_string(worker) && made_by != except;
}

std::string HostPort::text() const {
  const bool six = host.find(':') != std::string::npos;
  return six ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
}

absl::StatusOr<HostPort> parse_host_port(std::string_view text) {
  const auto bad = [&] {
    return absl::InvalidArgumentError(fmt::format(
        "expected HOST:PORT, for example 127.0.0.1:7433 or [::1]:7433, found {}", quote(text)));
  };
  HostPort out;
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return bad();
  std::string_view host = text.substr(0, colon);
  if (host.size() > 1 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return bad();
  }
  const std::string_view port = text.substr(colon + 1);
  const auto [end, fault] = std::from_chars(port.data(), port.data() + port.size(), out.port);
  if (host.empty() || fault != std::errc() || end != port.data() + port.size()) return bad();
  if (out.port < 0 || out.port > 65535) return bad();
  for (char c : host) {
    if (c <= ' ' || c == '/' || c == '[' || c == ']' || c == 0x7F) return bad();
  }
  out.host = host;
  out.loopback = is_loopback(out.host);
  return out;
}

}  // namespace monkeytree
