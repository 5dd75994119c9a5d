#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <string_view>
#include <vector>

namespace monkeytree {

/// One address of this machine.
struct InterfaceAddress {
  std::string interface;  ///< "eth1"
  std::string address;    ///< "10.1.0.7" or "fd00::7"
  bool up = true;
};

/// Addresses of this machine, in the kernel's order.
std::vector<InterfaceAddress> interface_addresses();

/// The address of this machine that reaches the fabric, from what an operator wrote: an address
/// ("10.1.0.7"), a prefix ("10.1.0.0/16"), or an interface ("eth1": its first IPv4 address, else
/// its first IPv6 address that is not link-local). InvalidArgument: nothing here fits, with what
/// there is.
absl::StatusOr<std::string> resolve_data_address(std::string_view wanted,
                                                 const std::vector<InterfaceAddress>& have);

}  // namespace monkeytree
