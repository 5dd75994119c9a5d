#include "control/decision.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace monkeytree {
namespace {

using Json = nlohmann::ordered_json;

/// Links listed; a cluster in a bad state shares thousands.
constexpr size_t kMostLinks = 50;

/// Groups with a worker in the rack and one outside, as they count in its degree.
Json groups_in(const Snapshot& snapshot, RackId rack) {
  Json list = Json::array();
  for (size_t g = 0; g < snapshot.groups.size(); ++g) {
    const Group& group = snapshot.groups[GroupId(g)];
    int inside = 0;
    for (const NodeId node : group.workers) inside += snapshot.nodes[node].rack == rack;
    if (inside == 0 || static_cast<size_t>(inside) == group.workers.size()) continue;
    list.push_back({{"job", snapshot.jobs[group.job].id},
                    {"group", snapshot.group_index(GroupId(g))},
                    {"rings", group.rings},
                    {"workers_here", inside},
                    {"workers", group.workers.size()}});
  }
  return list;
}

Json racks_over(const Snapshot& snapshot, const Plan& plan) {
  Json list = Json::array();
  for (size_t r = 0; r < snapshot.racks.size(); ++r) {
    const RackId rack(r);
    if (plan.before[rack] <= plan.bounds[rack]) continue;
    list.push_back({{"rack", snapshot.racks[rack].name},
                    {"bound", plan.bounds[rack]},
                    {"degree_before", plan.before[rack]},
                    {"degree_after", plan.after[rack]},
                    {"groups", groups_in(snapshot, rack)}});
  }
  return list;
}

Json links_shared(const Snapshot& snapshot, const std::optional<Routes>& routed) {
  Json list = Json::array();
  if (!routed) return list;
  for (const Shared& link : routed->shared) {
    if (list.size() == kMostLinks) break;
    Json flows = Json::array();
    for (const int index : link.flows) {
      const Flow& flow = routed->flows[static_cast<size_t>(index)].flow;
      flows.push_back({{"job", snapshot.jobs[snapshot.groups[flow.group].job].id},
                       {"group", snapshot.group_index(flow.group)},
                       {"ring", flow.ring},
                       {"from_rack", snapshot.racks[flow.from_rack].name},
                       {"to_rack", snapshot.racks[flow.to_rack].name}});
    }
    list.push_back({{"rack", snapshot.racks[link.rack].name},
                    {"uplink", link.uplink},
                    {"direction", link.up ? "up" : "down"},
                    {"flows", flows}});
  }
  return list;
}

Json gain_json(const Snapshot& snapshot, const Gain& gain) {
  Json jobs = Json::array();
  for (const JobGain& job : gain.jobs) {
    jobs.push_back({{"job", snapshot.jobs[job.job].id},
                    {"user", snapshot.jobs[job.job].user},
                    {"moves", job.moves},
                    {"gpus", job.gpus},
                    {"left_s", job.left_s},
                    {"flows_on_fullest_link_before", job.sharing_before},
                    {"flows_on_fullest_link_after", job.sharing_after},
                    {"regained_gpu_h", job.regained_gpu_h},
                    {"paused_gpu_h", job.paused_gpu_h}});
  }
  return {
      {"regained_gpu_h", gain.regained_gpu_h}, {"paused_gpu_h", gain.paused_gpu_h}, {"jobs", jobs}};
}

}  // namespace

std::string decision_json(const Snapshot& snapshot, const Plan& plan, const PlanRoutes& routed,
                          const Gain& gain, const std::map<std::string, std::string>& held_back,
                          const std::vector<std::string>& objections) {
  const Json json = {{"racks_over", racks_over(snapshot, plan)},
                     {"links_shared", links_shared(snapshot, routed.before)},
                     {"gain", gain_json(snapshot, gain)},
                     {"held_back", held_back},
                     {"objections", objections}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace monkeytree
