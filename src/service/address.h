#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace monkeytree {

/// An address to listen on: "127.0.0.1:7460", "[::1]:7460", "host:0" (any free port).
struct ListenAddress {
  std::string host;  ///< without brackets
  int port = 0;
  friend bool operator==(const ListenAddress&, const ListenAddress&) = default;
};
/// nullopt where the text is none.
std::optional<ListenAddress> parse_address(std::string_view text);
std::string to_string(const ListenAddress& address);
/// Only processes of this machine reach it: 127.0.0.0/8, ::1, localhost.
bool is_loopback(std::string_view host);

}  // namespace monkeytree
