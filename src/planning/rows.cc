#include "planning/rows.h"

#include <fmt/format.h>

#include <map>
#include <string>

namespace monkeytree {

Snapshot snapshot_of_rows(const std::vector<std::string_view>& rows, int bound) {
  Snapshot s;
  s.classes.push_back("default");
  s.islands.push_back("");
  std::map<char, std::vector<NodeId>> jobs;
  for (size_t r = 0; r < rows.size(); ++r) {
    Rack rack;
    rack.name = fmt::format("r{}", r + 1);
    for (size_t i = 0; i < rows[r].size(); ++i) {
      Node node;
      node.name = fmt::format("r{}n{}", r + 1, i + 1);
      node.rack = RackId(r);
      rack.nodes.push_back(s.nodes.push_back(node));
      if (rows[r][i] != '.') jobs[rows[r][i]].push_back(rack.nodes.back());
    }
    s.racks.push_back(rack);
  }
  s.set_uplinks(bound);
  for (const auto& [letter, workers] : jobs) {
    Group group;
    group.job = JobId(s.jobs.size());
    group.workers = workers;
    Job job;
    job.id = std::string(1, letter);
    job.first_group = s.groups.push_back(std::move(group));
    job.group_count = 1;
    s.jobs.push_back(std::move(job));
  }
  return s;
}

GroupId group_of(const Snapshot& snapshot, char letter) {
  for (const Job& job : snapshot.jobs) {
    if (job.id == std::string(1, letter)) return job.first_group;
  }
  return GroupId();
}

}  // namespace monkeytree
