#include "case_cluster.h"

#include <absl/status/statusor.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <numeric>
#include <sstream>
#include <utility>

#include "base/diagnostics.h"
#include "cluster/letters.h"
#include "cluster/snapshot_json.h"

namespace monkeytree::cases {
namespace {

void need(Words words, size_t least, std::string_view form) {
  if (words.size() < least) throw CaseError(fmt::format("expected `{}`", form));
}

void set_bound(Rack& rack, int uplinks) {
  rack.uplinks = uplinks;
  rack.spines.resize(static_cast<size_t>(uplinks));
  std::iota(rack.spines.begin(), rack.spines.end(), 0);
  rack.failed.clear();
}

}  // namespace

int number(std::string_view word) {
  int value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size()) {
    throw CaseError(fmt::format("'{}' is not a whole number", word));
  }
  return value;
}

std::vector<int> numbers(Words words) {
  std::vector<int> out;
  for (const std::string& word : words) out.push_back(number(word));
  return out;
}

void CaseCluster::add_row(Words words) {
  if (snapshot_) throw CaseError("racks come before all other lines");
  for (const std::string& word : words) rows_ += word + " ";
  rows_ += "\n";
  const absl::StatusOr<Snapshot> read = parse_letters(rows_);
  if (read.ok()) return;
  const std::string message(read.status().message());
  throw CaseError(message.substr(message.find(": ") + 2));  // without its count of lines
}

const Snapshot& CaseCluster::snapshot() {
  if (!snapshot_) snapshot_ = *parse_letters(rows_);
  return *snapshot_;
}

bool CaseCluster::change(Words words) {
  struct Directive {
    std::string_view name;
    void (CaseCluster::*act)(Words);
  };
  static constexpr Directive kDirectives[] = {
      {"snapshot", &CaseCluster::load},     {"uplinks", &CaseCluster::set_uplinks},
      {"spines", &CaseCluster::set_spines}, {"failed", &CaseCluster::set_failed},
      {"rings", &CaseCluster::set_rings},   {"fixed", &CaseCluster::fix},
      {"pin", &CaseCluster::pin},           {"state", &CaseCluster::set_state},
      {"class", &CaseCluster::set_class},   {"workers", &CaseCluster::set_workers},
      {"order", &CaseCluster::set_order},   {"mend", &CaseCluster::set_mend},
  };
  for (const Directive& directive : kDirectives) {
    if (words[0] != directive.name) continue;
    if (directive.name != "snapshot") snapshot();
    (this->*directive.act)(words.subspan(1));
    return true;
  }
  return false;
}

void CaseCluster::load(Words arguments) {
  need(arguments, 1, "snapshot FILE");
  if (snapshot_ || !rows_.empty()) throw CaseError("`snapshot` must be the first line");
  const std::string path = folder_ + "/" + arguments[0];
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  if (!in) throw CaseError(fmt::format("cannot read {}", path));
  Diagnostics diagnostics;
  snapshot_ = parse_snapshot(text.str(), path, diagnostics);
  if (!snapshot_) throw CaseError("\n" + diagnostics.text());
}

RackId CaseCluster::rack(std::string_view name) {
  const Snapshot& now = snapshot();
  for (RackId id : now.racks.keys()) {
    if (now.racks[id].name == name) return id;
  }
  throw CaseError(fmt::format("no rack is called '{}'", name));
}

GroupId CaseCluster::group(std::string_view job) {
  const Snapshot& now = snapshot();
  const size_t slash = job.find('/');
  const int index = slash == job.npos ? 0 : number(job.substr(slash + 1));
  for (const Job& candidate : now.jobs) {
    if (candidate.id != job.substr(0, slash)) continue;
    if (index >= candidate.group_count) throw CaseError(fmt::format("no group is '{}'", job));
    return GroupId(candidate.first_group.value + index);
  }
  throw CaseError(fmt::format("no job is called '{}'", job));
}

NodeId CaseCluster::node(std::string_view place) {
  const Snapshot& now = snapshot();
  for (NodeId id : now.nodes.keys()) {
    if (now.nodes[id].name == place) return id;
  }
  throw CaseError(fmt::format("no node is '{}'; the first place of rack R1 is R1/1", place));
}

void CaseCluster::set_uplinks(Words arguments) {
  need(arguments, 1, "uplinks N [RACK…]");
  const int uplinks = number(arguments[0]);
  if (uplinks < 0) throw CaseError("uplinks must be 0 or more");
  if (arguments.size() == 1) snapshot_->set_uplinks(uplinks);
  for (const std::string& name : arguments.subspan(1)) {
    set_bound(snapshot_->racks[rack(name)], uplinks);
  }
}

void CaseCluster::set_spines(Words arguments) {
  need(arguments, 1, "spines RACK S…");
  Rack& target = snapshot_->racks[rack(arguments[0])];
  target.spines = numbers(arguments.subspan(1));
  std::sort(target.spines.begin(), target.spines.end());
  target.uplinks = target.bound();
  target.failed.clear();
}

void CaseCluster::set_failed(Words arguments) {
  need(arguments, 2, "failed RACK S…");
  Rack& target = snapshot_->racks[rack(arguments[0])];
  for (int spine : numbers(arguments.subspan(1))) {
    const auto at = std::find(target.spines.begin(), target.spines.end(), spine);
    if (at == target.spines.end()) {
      throw CaseError(fmt::format("rack '{}' has no uplink to spine {}", target.name, spine));
    }
    target.spines.erase(at);
    target.failed.push_back(spine);
  }
  std::sort(target.failed.begin(), target.failed.end());
}

void CaseCluster::set_rings(Words arguments) {
  need(arguments, 1, "rings N [JOB…]");
  const int rings = number(arguments[0]);
  if (rings < 1) throw CaseError("rings must be 1 or more");
  if (arguments.size() == 1) {
    for (Group& each : snapshot_->groups) each.rings = rings;
  }
  for (const std::string& job : arguments.subspan(1)) snapshot_->groups[group(job)].rings = rings;
}

void CaseCluster::fix(Words arguments) {
  need(arguments, 1, "fixed JOB…");
  for (const std::string& job : arguments) {
    snapshot_->jobs[snapshot_->groups[group(job)].job].movable = false;
  }
}

void CaseCluster::pin(Words arguments) {
  need(arguments, 2, "pin JOB W…");
  Group& target = snapshot_->groups[group(arguments[0])];
  for (int worker : numbers(arguments.subspan(1))) {
    if (worker < 0 || worker >= static_cast<int>(target.workers.size())) {
      throw CaseError(fmt::format("job '{}' has no worker {}", arguments[0], worker));
    }
    if (!target.is_pinned(worker)) target.pinned.push_back(worker);
    std::sort(target.pinned.begin(), target.pinned.end());
  }
}

void CaseCluster::set_state(Words arguments) {
  need(arguments, 2, "state up|drain|down|reserved NODE…");
  for (NodeState state :
       {NodeState::kUp, NodeState::kDrain, NodeState::kDown, NodeState::kReserved}) {
    if (name_of(state) != arguments[0]) continue;
    for (const std::string& place : arguments.subspan(1)) {
      snapshot_->nodes[node(place)].state = state;
    }
    return;
  }
  throw CaseError(fmt::format("'{}' is no node state", arguments[0]));
}

void CaseCluster::set_class(Words arguments) {
  need(arguments, 2, "class NAME NODE…");
  auto& classes = snapshot_->classes;
  const auto at = std::find(classes.begin(), classes.end(), arguments[0]);
  const ClassId id = at != classes.end() ? ClassId(static_cast<size_t>(at - classes.begin()))
                                         : classes.push_back(arguments[0]);
  for (const std::string& place : arguments.subspan(1)) {
    snapshot_->nodes[node(place)].node_class = id;
  }
}

void CaseCluster::set_workers(Words arguments) {
  need(arguments, 2, "workers JOB NODE…");
  Group& target = snapshot_->groups[group(arguments[0])];
  if (arguments.size() - 1 != target.workers.size()) {
    throw CaseError(fmt::format("job '{}' has {} workers", arguments[0], target.workers.size()));
  }
  std::vector<NodeId> workers;
  for (const std::string& place : arguments.subspan(1)) workers.push_back(node(place));
  std::vector<NodeId> before = target.workers, after = workers;
  std::sort(before.begin(), before.end());
  std::sort(after.begin(), after.end());
  if (before != after) {
    throw CaseError(fmt::format("job '{}' stands on other nodes", arguments[0]));
  }
  target.workers = std::move(workers);
}

void CaseCluster::set_order(Words arguments) {
  need(arguments, 2, "order JOB W…");
  const GroupId target = group(arguments[0]);
  std::vector<int> order = numbers(arguments.subspan(1)), sorted = order;
  std::sort(sorted.begin(), sorted.end());
  std::vector<int> all(snapshot_->groups[target].workers.size());
  std::iota(all.begin(), all.end(), 0);
  if (sorted != all) {
    throw CaseError(fmt::format("expected each of 0 … {} once", all.size() - 1));
  }
  orders_[target] = std::move(order);
}

void CaseCluster::set_mend(Words arguments) {
  mend_.emplace();
  for (const std::string& name : arguments) mend_->push_back(rack(name));
  std::sort(mend_->begin(), mend_->end());
}

}  // namespace monkeytree::cases
