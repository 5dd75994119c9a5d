#include "control/fake_scenes.h"

#include <fmt/format.h>

#include <array>
#include <utility>

namespace monkeytree {
namespace {

int staged_moves(const std::vector<Round>& rounds) {
  int count = 0;
  for (const Round& round : rounds) {
    for (const Move& move : round) count += move.to == kStaging;
  }
  return count;
}

/// {"A2", "r1n0", "r0n2"}: worker 2 of job A, from, to; "-" is the staging server.
Round round_of(const Snapshot& cluster, const std::vector<std::array<std::string, 3>>& moves) {
  const auto node = [&](const std::string& name) {
    for (const NodeId id : cluster.nodes.keys()) {
      if (cluster.nodes[id].name == name) return id;
    }
    return kStaging;
  };
  Round round;
  for (const auto& [worker, from, to] : moves) {
    for (const Job& job : cluster.jobs) {
      if (job.id != worker.substr(0, 1)) continue;
      round.push_back({job.first_group, std::stoi(worker.substr(1)), node(from), node(to)});
    }
  }
  return round;
}

Scene two_staged() {
  Scene scene{"two workers of a job staged", drawn_cluster({"AABB", "BBAA"}, 0), {}, 2};
  scene.rounds = {round_of(scene.cluster, {{"A2", "r1n2", "-"}, {"A3", "r1n3", "-"}}),
                  round_of(scene.cluster, {{"B0", "r0n2", "r1n2"}, {"B1", "r0n3", "r1n3"}}),
                  round_of(scene.cluster, {{"A2", "-", "r0n2"}}),
                  round_of(scene.cluster, {{"A3", "-", "r0n3"}})};
  return scene;
}

Scene moves_while_paused() {
  Scene scene{"a job moves while it is paused", drawn_cluster({"AAB.", "ABB."}, 0), {}, 1};
  scene.rounds = {
      round_of(scene.cluster, {{"A2", "r1n0", "-"}}),
      round_of(scene.cluster, {{"A0", "r0n0", "r0n3"}, {"B0", "r0n2", "r1n0"}}),
      round_of(scene.cluster, {{"A2", "-", "r0n2"}, {"A1", "r0n1", "r0n0"}}),
  };
  return scene;
}

}  // namespace

Scene planned(std::string name, const Snapshot& cluster) {
  Scene scene{std::move(name), cluster, plan(cluster).rounds, 0};
  scene.staged = staged_moves(scene.rounds);
  return scene;
}

const std::vector<Scene>& scenes() {
  static const std::vector<Scene> kScenes = {
      planned("one direct move", drawn_cluster({"AA.", "AB.", "BB."}, 1)),
      planned("two moves of a job", drawn_cluster({"AAA..", "ABB..", "ACC.."}, 0)),
      planned("a swap on a full cluster", drawn_cluster({"AAB", "ABB"}, 0)),
      planned("a cycle of three", drawn_cluster({"AAC", "ABB", "BCC"}, 1)),
      two_staged(),
      moves_while_paused(),
  };
  return kScenes;
}

std::vector<std::string> at_every_call(const Scene& scene,
                                       const std::function<void(FakeWorld&)>& happens, int first,
                                       int stride) {
  for (int k = first;; k += stride) {
    FakeWorld world(scene.cluster);
    const int64_t plan = world.add_plan(scene.rounds);
    world.kill_at(kForEver);
    bool happened = false;
    world.at(k, [&] {
      happened = true;
      happens(world);
    });
    const FakeWorld::Outcome outcome = world.run(plan);
    if (!happened) return k > first ? std::vector<std::string>() : std::vector{std::string("?")};
    std::vector<std::string> faults = faults_at_the_end(world, outcome);
    if (faults.empty()) continue;
    faults.insert(faults.begin(), fmt::format("before call {} of {}", k, scene.name));
    return faults;
  }
}

std::vector<std::string> faults_at_the_end(FakeWorld& world, const FakeWorld::Outcome& outcome) {
  world.workers().all_agents_up();
  for (const std::string& job : world.scheduler().running()) {
    if (world.workers().broken(job)) world.end_job(job);
  }
  std::vector<std::string> faults = world.faults(outcome.migrations);
  if (outcome.end == PlanRun::End::kStopped) faults.emplace_back("the plan has not ended");
  return faults;
}

}  // namespace monkeytree
