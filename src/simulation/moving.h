#pragma once

#include <cstdint>

#include "network/network.h"

/// Bytes at a quantized rate (network/network.h), exactly: so both engines round alike, and what is
/// left does not depend on when it was looked at.
namespace monkeytree {

/// First whole µs after which all bytes have passed; 0 for none. Up to 2^51 bytes.
inline int64_t time_to_move(int64_t bytes, double bytes_per_us) {
  const auto quanta = static_cast<int64_t>(bytes_per_us * kRateQuanta);
  return (bytes * static_cast<int64_t>(kRateQuanta) + quanta - 1) / quanta;
}

/// Whole bytes that have passed. Up to 2^51 of them.
inline int64_t bytes_moved(int64_t elapsed_us, double bytes_per_us) {
  return elapsed_us * static_cast<int64_t>(bytes_per_us * kRateQuanta) /
         static_cast<int64_t>(kRateQuanta);
}

}  // namespace monkeytree
