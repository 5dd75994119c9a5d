#pragma once

#include <functional>
#include <string>
#include <vector>

#include "control/fake_world.h"

namespace monkeytree {

/// A cluster and moves to be carried out in it. For tests.
struct Scene {
  std::string name;
  Snapshot cluster;
  std::vector<Round> rounds;
  int staged = 0;  ///< moves by way of the staging server
};

/// The scene with the planner's moves.
Scene planned(std::string name, const Snapshot& cluster);

/// One direct move; two moves of a job in one round; a swap of two jobs and a cycle of three on
/// full clusters; two workers of a job staged at once; a job of which workers move while it is
/// paused.
const std::vector<Scene>& scenes();

/// How many controllers may follow one another, and how many calls one may make, before what has no
/// end is found out.
inline constexpr int kForEver = 3000;

/// Plays the scene once for every `stride`-th call that its controller makes, from `first` on, each
/// time in a new world in which `happens` before that call. Returns what was not as it must be, as
/// FakeWorld::faults(), with the call before it; ends with the first world in which something was.
std::vector<std::string> at_every_call(const Scene& scene,
                                       const std::function<void(FakeWorld&)>& happens,
                                       int first = 0, int stride = 1);

/// Ends what cannot go on, brings all agents back, and asks FakeWorld::faults().
std::vector<std::string> faults_at_the_end(FakeWorld& world, const FakeWorld::Outcome& outcome);

}  // namespace monkeytree
