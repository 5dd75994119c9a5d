#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace monkeytree {

/// What an interface has carried since it was made.
struct InterfaceCount {
  uint64_t received_bytes = 0, received_packets = 0;
  uint64_t sent_bytes = 0, sent_packets = 0;
};

/// The counters in the text of /proc/net/dev, by interface.
std::map<std::string, InterfaceCount> parse_interface_counts(std::string_view text);

/// One uplink of a rack, seen from the rack.
struct UplinkCount {
  int rack = 0, spine = 0;
  bool works = true;
  uint64_t up_bytes = 0, up_packets = 0;      ///< to the spine
  uint64_t down_bytes = 0, down_packets = 0;  ///< from the spine
};

/// What was carried between two readings of the same uplinks.
std::vector<UplinkCount> difference(const std::vector<UplinkCount>& before,
                                    const std::vector<UplinkCount>& after);

/// A line for each uplink: Mbit/s up and down, and percent of `mbit` where that is not 0.
std::string utilisation_table(const std::vector<UplinkCount>& carried, double seconds, int mbit);

}  // namespace monkeytree
