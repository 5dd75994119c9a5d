#include "agent/share.h"

#include <algorithm>
#include <numeric>

namespace monkeytree {

bool is_replicated(std::string_view buffer) {
  buffer.remove_prefix(std::min(buffer.find_first_not_of("0123456789"), buffer.size()));
  if (buffer.starts_with('/')) buffer.remove_prefix(1);
  return buffer.starts_with("model/") || buffer.starts_with("optimizer/");
}

std::vector<size_t> share_of(const Layout& layout, int share, int shares) {
  std::vector<uint64_t> loads(static_cast<size_t>(shares));
  std::vector<size_t> by_size, own;
  for (size_t i = 0; i < layout.size(); ++i) {
    if (is_replicated(layout[i].name)) {
      by_size.push_back(i);
    } else {
      loads[0] += layout[i].bytes;
      if (share == 0) own.push_back(i);
    }
  }
  std::stable_sort(by_size.begin(), by_size.end(),
                   [&](size_t a, size_t b) { return layout[a].bytes > layout[b].bytes; });
  for (const size_t buffer : by_size) {
    const auto least = std::min_element(loads.begin(), loads.end());
    *least += layout[buffer].bytes;
    if (least - loads.begin() == share) own.push_back(buffer);
  }
  std::sort(own.begin(), own.end());
  return own;
}

}  // namespace monkeytree
