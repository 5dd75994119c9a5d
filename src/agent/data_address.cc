#include "agent/data_address.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <charconv>
#include <optional>

#include "base/json.h"

namespace monkeytree {
namespace {

/// An address as bits; IPv4 and IPv6 differ in length.
struct Bits {
  std::array<unsigned char, 16> bytes{};
  int length = 0;

  bool begins_like(const Bits& other, int bits) const {
    for (int i = 0; i < bits; ++i) {
      const int mask = 0x80 >> (i % 8);
      const size_t at = static_cast<size_t>(i / 8);
      if ((bytes[at] & mask) != (other.bytes[at] & mask)) return false;
    }
    return true;
  }
  bool link_local() const { return length == 128 && bytes[0] == 0xfe && (bytes[1] & 0xc0) == 0x80; }
};

std::optional<Bits> bits_of(std::string_view text) {
  const std::string copy(text);
  Bits bits;
  if (inet_pton(AF_INET, copy.c_str(), bits.bytes.data()) == 1) {
    bits.length = 32;
    return bits;
  }
  if (inet_pton(AF_INET6, copy.c_str(), bits.bytes.data()) == 1) {
    bits.length = 128;
    return bits;
  }
  return std::nullopt;
}

/// The first address here that `fits`, IPv4 before IPv6.
template <class Fits>
std::optional<std::string> first(const std::vector<InterfaceAddress>& have, Fits fits) {
  for (int length : {32, 128}) {
    for (const InterfaceAddress& one : have) {
      const std::optional<Bits> bits = bits_of(one.address);
      if (one.up && bits && bits->length == length && fits(one, *bits)) return one.address;
    }
  }
  return std::nullopt;
}

std::optional<std::string> by_prefix(std::string_view wanted, size_t slash,
                                     const std::vector<InterfaceAddress>& have) {
  const std::optional<Bits> prefix = bits_of(wanted.substr(0, slash));
  const std::string_view digits = wanted.substr(slash + 1);
  int length = -1;
  const auto [end, fault] = std::from_chars(digits.data(), digits.data() + digits.size(), length);
  const bool number = fault == std::errc() && end == digits.data() + digits.size();
  if (!prefix || !number || length < 0 || length > prefix->length) return std::nullopt;
  return first(have, [&](const InterfaceAddress&, const Bits& bits) {
    return bits.length == prefix->length && bits.begins_like(*prefix, length);
  });
}

}  // namespace

std::vector<InterfaceAddress> interface_addresses() {
  std::vector<InterfaceAddress> out;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return out;
  for (const ifaddrs* one = list; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr) continue;
    char text[INET6_ADDRSTRLEN] = {};
    const void* bytes = nullptr;
    if (one->ifa_addr->sa_family == AF_INET) {
      bytes = &reinterpret_cast<const sockaddr_in*>(one->ifa_addr)->sin_addr;
    } else if (one->ifa_addr->sa_family == AF_INET6) {
      bytes = &reinterpret_cast<const sockaddr_in6*>(one->ifa_addr)->sin6_addr;
    } else {
      continue;
    }
    inet_ntop(one->ifa_addr->sa_family, bytes, text, sizeof(text));
    out.push_back({one->ifa_name, text, (one->ifa_flags & IFF_UP) != 0});
  }
  freeifaddrs(list);
  return out;
}

absl::StatusOr<std::string> resolve_data_address(std::string_view wanted,
                                                 const std::vector<InterfaceAddress>& have) {
  std::optional<std::string> found;
  const size_t slash = wanted.find('/');
  if (slash != std::string_view::npos) {
    found = by_prefix(wanted, slash, have);
  } else if (const std::optional<Bits> address = bits_of(wanted)) {
    found = first(have, [&](const InterfaceAddress&, const Bits& bits) {
      return bits.length == address->length && bits.begins_like(*address, bits.length);
    });
  } else {
    found = first(have, [&](const InterfaceAddress& one, const Bits& bits) {
      return one.interface == wanted && !bits.link_local();
    });
  }
  if (found) return *found;
  std::vector<std::string> there;
  for (const InterfaceAddress& one : have) {
    if (one.up) there.push_back(fmt::format("{} {}", one.interface, one.address));
  }
  return absl::InvalidArgumentError(
      fmt::format("expected an interface, a prefix or an address of this machine, found {}; there "
                  "are {}",
                  quote(wanted), fmt::join(there, ", ")));
}

}  // namespace monkeytree
