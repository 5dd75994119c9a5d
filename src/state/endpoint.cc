#include <fmt/format.h>
#include <sys/random.h>

#include <array>
#include <charconv>

#include "base/json.h"
#include "state/transfer.h"

namespace monkeytree {
namespace {

absl::StatusOr<Endpoint> parse_host(std::string_view text, std::string_view rest) {
  const size_t colon = rest.rfind(':');
  const auto bad = [&] {
    return absl::InvalidArgumentError(fmt::format(
        "address {}: expected {}:HOST:PORT, port 0 to 65535", quote(text), text.substr(0, 3)));
  };
  if (colon == std::string_view::npos || colon == 0) return bad();
  Endpoint endpoint;
  std::string_view host = rest.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return bad();
  }
  endpoint.host = host;
  const std::string_view port = rest.substr(colon + 1);
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), endpoint.port);
  if (error != std::errc() || end != port.data() + port.size()) return bad();
  return endpoint;
}

}  // namespace

absl::StatusOr<Endpoint> Endpoint::parse(std::string_view text) {
  if (text.starts_with("tcp:")) return parse_host(text, text.substr(4));
  if (text.starts_with("ucx:")) {
    absl::StatusOr<Endpoint> endpoint = parse_host(text, text.substr(4));
    if (endpoint.ok()) endpoint->transport = Transport::kUcx;
    return endpoint;
  }
  if (!text.starts_with("shm:")) {
    return absl::InvalidArgumentError(
        fmt::format("address {}: expected tcp:HOST:PORT, ucx:HOST:PORT or shm:PATH", quote(text)));
  }
  constexpr size_t kMaxPath = 107;  // of sockaddr_un
  Endpoint endpoint;
  endpoint.transport = Transport::kShm;
  endpoint.path = text.substr(4);
  if (endpoint.path.size() > kMaxPath || endpoint.path.find('\0') != std::string::npos) {
    return absl::InvalidArgumentError(
        fmt::format("address {}: a path has at most {} bytes", quote(text), kMaxPath));
  }
  return endpoint;
}

std::string Endpoint::text() const {
  if (transport == Transport::kShm) return "shm:" + path;
  const std::string_view kind = transport == Transport::kUcx ? "ucx" : "tcp";
  if (host.find(':') != std::string::npos) return fmt::format("{}:[{}]:{}", kind, host, port);
  return fmt::format("{}:{}:{}", kind, host, port);
}

Token random_token() {
  std::array<unsigned char, 16> bytes{};
  size_t have = 0;
  while (have < bytes.size()) {
    const ssize_t got = getrandom(bytes.data() + have, bytes.size() - have, 0);
    if (got > 0) have += static_cast<size_t>(got);
  }
  Token token;
  for (const unsigned char byte : bytes) token += fmt::format("{:02x}", byte);
  return token;
}

}  // namespace monkeytree
