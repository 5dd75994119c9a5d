#pragma once

#include <cmath>
#include <cstdint>

/// Bytes at a rate. Both engines use these, so that they round alike.
namespace monkeytree {

/// First whole µs after which all bytes have passed; 0 for none.
inline int64_t time_to_move(int64_t bytes, double bytes_per_us) {
  return static_cast<int64_t>(std::ceil(static_cast<double>(bytes) / bytes_per_us));
}

/// Whole bytes that have passed.
inline int64_t bytes_moved(int64_t elapsed_us, double bytes_per_us) {
  return static_cast<int64_t>(std::floor(static_cast<double>(elapsed_us) * bytes_per_us));
}

}  // namespace monkeytree
