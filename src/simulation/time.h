#pragma once

#include <cstdint>
#include <limits>

namespace monkeytree {

using Time = int64_t;  ///< µs since the start of the simulation
inline constexpr Time kNever = std::numeric_limits<Time>::max();

}  // namespace monkeytree
