#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace monkeytree {

/// `count` of a thing: "1 rack", "3 racks".
inline std::string counted(long long count, std::string_view thing) {
  return fmt::format("{} {}{}", count, thing, count == 1 ? "" : "s");
}

}  // namespace monkeytree
