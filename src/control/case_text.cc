#include "control/case_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <string_view>
#include <vector>

#include "cluster/picture.h"

namespace monkeytree {
namespace {

bool plain(std::string_view name) {
  return !name.empty() && std::isalnum(static_cast<unsigned char>(name[0])) != 0 &&
         std::all_of(name.begin(), name.end(), [](unsigned char c) {
           return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.';
         });
}

/// Words that begin another line of a case, and so cannot name a rack.
bool directive(std::string_view word) {
  for (const std::string_view name :
       {"snapshot", "uplinks", "spines", "failed", "rings", "fixed", "pin", "state", "class",
        "workers", "order", "mend", "apply", "expect"}) {
    if (word == name) return true;
  }
  return false;
}

bool drawable(const Snapshot& snapshot) {
  if (snapshot.islands.size() > 1) return false;
  const auto drawn_rack = [](const Rack& rack) {
    // A word that stands alone in its row would be read as letters.
    return plain(rack.name) && !directive(rack.name) && rack.nodes.size() != 1;
  };
  const auto one_group = [](const Job& job) { return job.group_count == 1 && plain(job.id); };
  return std::all_of(snapshot.racks.begin(), snapshot.racks.end(), drawn_rack) &&
         std::all_of(snapshot.nodes.begin(), snapshot.nodes.end(),
                     [](const Node& node) { return node.slots == 1; }) &&
         std::all_of(snapshot.jobs.begin(), snapshot.jobs.end(), one_group);
}

/// The racks as rows and the lines that say what rows do not.
class Drawing {
 public:
  explicit Drawing(const Snapshot& snapshot) : snapshot_(snapshot), places_(snapshot.nodes.size()) {
    for (const Rack& rack : snapshot.racks) {
      for (size_t i = 0; i < rack.nodes.size(); ++i) {
        places_[rack.nodes[i]] = fmt::format("{}/{}", rack.name, i + 1);
      }
    }
  }

  std::string text() {
    rows();
    out_ += "\n";
    for (const Rack& rack : snapshot_.racks) rack_lines(rack);
    for (const Group& group : snapshot_.groups) group_lines(group);
    node_lines();
    return std::move(out_);
  }

 private:
  void rows() {
    IdVector<NodeId, const Job*> on(snapshot_.nodes.size(), nullptr);
    for (const Group& group : snapshot_.groups) {
      for (const NodeId node : group.workers) on[node] = &snapshot_.jobs[group.job];
    }
    for (const Rack& rack : snapshot_.racks) {
      out_ += rack.name;
      for (const NodeId node : rack.nodes) {
        out_ += ' ';
        if (on[node] != nullptr) {
          out_ += on[node]->id;
        } else {
          out_ += free_cell(snapshot_.nodes[node].state);
        }
      }
      out_ += "\n";
    }
  }

  void rack_lines(const Rack& rack) {
    std::vector<int> reached = rack.spines;
    reached.insert(reached.end(), rack.failed.begin(), rack.failed.end());
    std::sort(reached.begin(), reached.end());
    const bool from_zero =
        reached.empty() || reached.back() + 1 == static_cast<int>(reached.size());
    if (!from_zero) {
      out_ += fmt::format("spines {} {}\n", rack.name, fmt::join(reached, " "));
    } else if (reached.size() != 2) {
      out_ += fmt::format("uplinks {} {}\n", reached.size(), rack.name);
    }
    if (!rack.failed.empty()) {
      out_ += fmt::format("failed {} {}\n", rack.name, fmt::join(rack.failed, " "));
    }
  }

  void group_lines(const Group& group) {
    const Job& job = snapshot_.jobs[group.job];
    if (group.rings != 1) out_ += fmt::format("rings {} {}\n", group.rings, job.id);
    if (!job.movable) out_ += fmt::format("fixed {}\n", job.id);
    if (!group.pinned.empty()) {
      out_ += fmt::format("pin {} {}\n", job.id, fmt::join(group.pinned, " "));
    }
    // Workers are numbered rack by rack, left to right, until it is said otherwise.
    const auto drawn_before = [&](NodeId one, NodeId other) {
      const RackId a = snapshot_.nodes[one].rack, b = snapshot_.nodes[other].rack;
      return a != b ? a < b : position(one) < position(other);
    };
    if (std::is_sorted(group.workers.begin(), group.workers.end(), drawn_before)) return;
    out_ += "workers " + job.id;
    for (const NodeId node : group.workers) out_ += " " + places_[node];
    out_ += "\n";
  }

  size_t position(NodeId node) const {
    const std::vector<NodeId>& nodes = snapshot_.racks[snapshot_.nodes[node].rack].nodes;
    return static_cast<size_t>(std::find(nodes.begin(), nodes.end(), node) - nodes.begin());
  }

  void node_lines() {
    std::map<NodeState, std::string> states;
    std::map<std::string, std::string> classes;
    for (const NodeId id : snapshot_.nodes.keys()) {
      const Node& node = snapshot_.nodes[id];
      if (node.state != NodeState::kUp) states[node.state] += " " + places_[id];
      const std::string& name = snapshot_.classes[node.node_class];
      if (name != "default") classes[name] += " " + places_[id];
    }
    for (const auto& [state, nodes] : states) {
      out_ += fmt::format("state {}{}\n", name_of(state), nodes);
    }
    for (const auto& [name, nodes] : classes) out_ += fmt::format("class {}{}\n", name, nodes);
  }

  const Snapshot& snapshot_;
  IdVector<NodeId, std::string> places_;
  std::string out_;
};

std::string expectations(const Snapshot& snapshot, const Plan& plan) {
  std::string out =
      fmt::format("expect degrees {}\n", fmt::join(plan.before.begin(), plan.before.end(), " "));
  if (plan.limited) return out + "# a limit was hit: the plan is not the last word\n";
  out +=
      fmt::format("expect {} {}", plan.best_effort ? "best-effort" : "plan", name_of(plan.status));
  if (plan.status == PlanStatus::kInfeasible) {
    out += " conflict";
    for (const RackId rack : plan.conflict) out += " " + snapshot.racks[rack].name;
    return out + "\n";
  }
  if (plan.best_effort) {
    out += fmt::format(" moves {} excess {}", plan.moves, plan.excess_after);
  } else if (plan.moves > 0) {
    out += fmt::format(" moves {}", plan.moves);
  }
  return out + "\n";
}

}  // namespace

std::string case_text(const Snapshot& snapshot, const Plan& plan) {
  const std::string wanted = expectations(snapshot, plan);
  if (drawable(snapshot)) return Drawing(snapshot).text() + "\n" + wanted;
  return "snapshot snapshot.json\n\n" + wanted;
}

}  // namespace monkeytree
