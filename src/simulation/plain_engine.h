#pragma once

#include <memory>

#include "simulation/engine.h"

namespace monkeytree {

/// Where the plain engine has its rates from.
enum class PlainRates : uint8_t {
  kAnew,  ///< all rates from scratch at each change: the referee
  kKept,  ///< Network: the same rates, for traces on which the other takes too long
};

std::unique_ptr<Engine> make_plain_engine(const EngineOptions& options, PlainRates rates);

}  // namespace monkeytree
