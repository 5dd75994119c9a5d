#include "utilisation.h"

#include <fmt/format.h>

#include <sstream>
#include <string>

namespace monkeytree {

std::map<std::string, InterfaceCount> parse_interface_counts(std::string_view text) {
  std::map<std::string, InterfaceCount> counts;
  std::istringstream lines{std::string(text)};
  std::string line;
  while (std::getline(lines, line)) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos) continue;  // the heading
    const std::string name = line.substr(line.find_first_not_of(' '));
    InterfaceCount count;
    std::istringstream numbers(line.substr(colon + 1));
    uint64_t skipped = 0;
    numbers >> count.received_bytes >> count.received_packets;
    for (int i = 0; i < 6; ++i) numbers >> skipped;  // errors, drops and the like
    numbers >> count.sent_bytes >> count.sent_packets;
    if (numbers) counts[name.substr(0, name.find(':'))] = count;
  }
  return counts;
}

std::vector<UplinkCount> difference(const std::vector<UplinkCount>& before,
                                    const std::vector<UplinkCount>& after) {
  std::vector<UplinkCount> carried = after;
  for (size_t i = 0; i < carried.size() && i < before.size(); ++i) {
    carried[i].up_bytes -= before[i].up_bytes;
    carried[i].up_packets -= before[i].up_packets;
    carried[i].down_bytes -= before[i].down_bytes;
    carried[i].down_packets -= before[i].down_packets;
  }
  return carried;
}

std::string utilisation_table(const std::vector<UplinkCount>& carried, double seconds, int mbit) {
  const auto rate = [&](uint64_t bytes) { return static_cast<double>(bytes) * 8e-6 / seconds; };
  const auto share = [&](uint64_t bytes) {
    return mbit == 0 ? std::string("-") : fmt::format("{:.0f}%", 100 * rate(bytes) / mbit);
  };
  std::string out = "rack  uplink  up Mbit/s  used  down Mbit/s  used\n";
  for (const UplinkCount& link : carried) {
    out += fmt::format("{:>4}  {:>6}  {:>9.1f}  {:>4}  {:>11.1f}  {:>4}{}\n", link.rack, link.spine,
                       rate(link.up_bytes), share(link.up_bytes), rate(link.down_bytes),
                       share(link.down_bytes), link.works ? "" : "  failed");
  }
  return out;
}

}  // namespace monkeytree
