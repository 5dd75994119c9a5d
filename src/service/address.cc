#include "service/address.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace monkeytree {
namespace {

constexpr int kMaxPort = 65535;

}  // namespace

std::optional<ListenAddress> parse_address(std::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return std::nullopt;
  ListenAddress address;
  std::string_view host = text.substr(0, colon);
  if (host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return std::nullopt;
  }
  const bool sound = std::all_of(host.begin(), host.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '-' || c == ':' || c == '_';
  });
  if (host.empty() || host.size() > 253 || !sound) return std::nullopt;
  address.host = host;
  const std::string_view port = text.substr(colon + 1);
  const auto [end, fault] = std::from_chars(port.data(), port.data() + port.size(), address.port);
  if (fault != std::errc() || end != port.data() + port.size() || address.port < 0 ||
      address.port > kMaxPort) {
    return std::nullopt;
  }
  return address;
}

std::string to_string(const ListenAddress& address) {
  return address.host.find(':') == std::string::npos
             ? fmt::format("{}:{}", address.host, address.port)
             : fmt::format("[{}]:{}", address.host, address.port);
}

bool is_loopback(std::string_view host) {
  if (host == "localhost" || host == "::1") return true;
  // A name such as 127.evil.example is none: four numbers and nothing else.
  if (!host.starts_with("127.")) return false;
  int parts = 1;
  size_t digits = 0;
  for (const char c : host) {
    if (c == '.') {
      if (digits == 0) return false;
      ++parts;
      digits = 0;
    } else if (c < '0' || c > '9' || ++digits > 3) {
      return false;
    }
  }
  return parts == 4 && digits > 0;
}

}  // namespace monkeytree
