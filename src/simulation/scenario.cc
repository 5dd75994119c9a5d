#include "simulation/scenario.h"

#include <algorithm>
#include <array>

namespace monkeytree {
namespace {

constexpr std::array kSystems = {
    System{"ecmp", RouteRule::kEcmp, PlacementCare::kNone},
    System{"crux", RouteRule::kCrux, PlacementCare::kNone},
    System{"sglb", RouteRule::kSglb, PlacementCare::kNone},
    System{"perfect", RouteRule::kPerfect, PlacementCare::kNone},
    System{"spray", RouteRule::kSpray, PlacementCare::kNone},
    System{"full-bisection", RouteRule::kSpray, PlacementCare::kNone},
    System{"repack", RouteRule::kPerfect, PlacementCare::kRepack},
    System{"monkeytree", RouteRule::kPerfect, PlacementCare::kFewestMoves},
    System{"monkeytree-ecmp", RouteRule::kEcmp, PlacementCare::kFewestMoves},
    System{"monkeytree-crux", RouteRule::kCrux, PlacementCare::kFewestMoves},
    System{"monkeytree-sglb", RouteRule::kSglb, PlacementCare::kFewestMoves},
};

}  // namespace

const System* System::find(std::string_view name) {
  const auto at = std::find_if(kSystems.begin(), kSystems.end(),
                               [&](const System& it) { return it.name == name; });
  return at == kSystems.end() ? nullptr : &*at;
}

std::span<const System> System::all() { return kSystems; }

}  // namespace monkeytree
