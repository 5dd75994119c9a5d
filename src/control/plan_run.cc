#include "control/plan_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "base/status.h"
#include "control/gain.h"

namespace monkeytree {
namespace {

constexpr int kReservationTries = 3;

std::string node_name(const Snapshot& snapshot, NodeId node) {
  return node == kStaging ? kStagingNode : snapshot.nodes[node].name;
}

WorkerName name_of_worker(const Snapshot& snapshot, GroupId group, int worker) {
  return {snapshot.jobs[snapshot.groups[group].job].id, snapshot.group_index(group), worker};
}

/// Where the workers of one job are, while rounds are played.
std::map<WorkerName, std::string> nodes_of_job(const Snapshot& snapshot, JobId job) {
  std::map<WorkerName, std::string> nodes;
  for (int g = 0; g < snapshot.jobs[job].group_count; ++g) {
    const GroupId group{snapshot.jobs[job].first_group.value + g};
    const std::vector<NodeId>& workers = snapshot.groups[group].workers;
    for (size_t w = 0; w < workers.size(); ++w) {
      nodes[name_of_worker(snapshot, group, static_cast<int>(w))] = snapshot.nodes[workers[w]].name;
    }
  }
  return nodes;
}

/// What a job's moves of one round do to where its workers are.
void play(Migration& migration, std::map<WorkerName, std::string>& nodes,
          const std::map<WorkerName, std::string>& everyone) {
  migration.before = nodes;
  migration.was_paused = nodes.size() < everyone.size();
  for (const auto& [worker, home] : everyone) {
    if (!nodes.contains(worker)) migration.staged.insert(worker);
  }
  for (const WorkerMove& move : migration.moves) {
    if (is_staging(move.to)) {
      nodes.erase(move.worker);
    } else {
      nodes[move.worker] = move.to;
      migration.staged.erase(move.worker);
    }
  }
  migration.after = nodes;
  migration.stays_paused = nodes.size() < everyone.size();
}

}  // namespace

std::vector<Round> staged_rounds(const Snapshot& snapshot, const std::vector<Round>& rounds) {
  std::vector<Round> out;
  for (const Round& round : rounds) {
    // One worker of a job after the other: the others stay where they are, and so does its name.
    std::map<JobId, std::vector<Move>> left;
    for (const Move& move : round) left[snapshot.groups[move.group].job].push_back(move);
    while (!left.empty()) {
      Round away, back;
      for (auto& [job, moves] : left) {
        const Move move = moves.front();
        moves.erase(moves.begin());
        if (move.from != kStaging) {
          away.push_back(move);
          away.back().to = kStaging;
        }
        if (move.to != kStaging) {
          back.push_back(move);
          back.back().from = kStaging;
        }
      }
      std::erase_if(left, [](const auto& entry) { return entry.second.empty(); });
      if (!away.empty()) out.push_back(std::move(away));
      if (!back.empty()) out.push_back(std::move(back));
    }
  }
  return out;
}

std::vector<Migration> migrations_of(int64_t plan, const Snapshot& snapshot,
                                     const std::vector<Round>& rounds,
                                     const WorkerReports& reports) {
  std::vector<Migration> all;
  std::map<JobId, std::map<WorkerName, std::string>> nodes;
  std::map<WorkerName, std::string> staged_by;
  for (size_t round = 0; round < rounds.size(); ++round) {
    std::map<JobId, Migration> by_job;
    for (const Move& move : rounds[round]) {
      const JobId job = snapshot.groups[move.group].job;
      Migration& migration = by_job[job];
      WorkerMove one;
      one.worker = name_of_worker(snapshot, move.group, move.worker);
      one.from = node_name(snapshot, move.from);
      one.to = node_name(snapshot, move.to);
      one.state_bytes = snapshot.jobs[job].state_bytes;
      if (const auto report = reports.find(one.worker); report != reports.end()) {
        one.command = report->second.command;
        if (report->second.state_bytes > 0) one.state_bytes = report->second.state_bytes;
      }
      migration.moves.push_back(std::move(one));
    }
    int number = 0;
    for (auto& [job, migration] : by_job) {
      auto [known, fresh] = nodes.try_emplace(job);
      if (fresh) known->second = nodes_of_job(snapshot, job);
      const std::map<WorkerName, std::string> everyone = nodes_of_job(snapshot, job);
      migration.id = fmt::format("{}.{}.{}", plan, round, number++);
      migration.plan = plan;
      migration.round = static_cast<int>(round);
      migration.job = snapshot.jobs[job].id;
      migration.gpus = gpus_of(snapshot, job);
      if (rounds.size() > 1) migration.reservation = PlanRun::reservation_of(plan);
      for (WorkerMove& move : migration.moves) {
        if (is_staging(move.from)) move.staged_by = staged_by[move.worker];
        if (is_staging(move.to)) staged_by[move.worker] = migration.id;
      }
      play(migration, known->second, everyone);
      all.push_back(std::move(migration));
    }
  }
  return all;
}

std::vector<std::string> nodes_of(const std::vector<Migration>& migrations) {
  std::set<std::string> nodes;
  for (const Migration& migration : migrations) {
    for (const WorkerMove& move : migration.moves) {
      if (!is_staging(move.from)) nodes.insert(move.from);
      if (!is_staging(move.to)) nodes.insert(move.to);
    }
  }
  return {nodes.begin(), nodes.end()};
}

PlanRun::PlanRun(int64_t plan, std::vector<Migration> migrations, Mover& mover,
                 Scheduler& scheduler, Journal& journal, std::function<double()> wall_s,
                 Hooks hooks)
    : plan_(plan),
      migrations_(std::move(migrations)),
      mover_(mover),
      scheduler_(scheduler),
      journal_(journal),
      wall_s_(std::move(wall_s)),
      hooks_(std::move(hooks)) {}

std::string PlanRun::reservation_of(int64_t plan) { return fmt::format("plan-{}", plan); }

PlanRun::End PlanRun::run(const std::stop_token& stop) {
  if (!reserve(stop)) return End::kStopped;
  int last = -1;
  for (const Migration& migration : migrations_) last = std::max(last, migration.round);
  for (int round = 0; round <= last && dropped_why_.empty(); ++round) {
    if (!run_round(round, stop)) return End::kStopped;
    const bool undone = std::any_of(
        migrations_.begin(), migrations_.end(),
        [](const Migration& migration) { return migration.state == MigrationState::kRolledBack; });
    if (undone) dropped_why_ = "an earlier move of the plan was undone";
    if (give_up_) dropped_why_ = "cancelled";
  }
  if (!drop_later(stop) || !return_staged(stop)) return End::kStopped;
  if (!unreserve(stop)) return End::kStopped;
  const bool all_done = std::all_of(
      migrations_.begin(), migrations_.end(),
      [](const Migration& migration) { return migration.state != MigrationState::kRolledBack; });
  return all_done ? End::kDone : End::kFailed;
}

PlanRun::Reservation PlanRun::reservation() const {
  Reservation reservation;
  std::vector<Migration> under_it;
  for (const Migration& migration : migrations_) {
    if (migration.reservation.empty()) continue;
    reservation.name = migration.reservation;
    under_it.push_back(migration);
  }
  reservation.nodes = nodes_of(under_it);
  return reservation;
}

absl::Status PlanRun::try_to_reserve() {
  const Reservation wanted = reservation();
  if (wanted.name.empty()) return absl::OkStatus();
  absl::Status status = scheduler_.reserve(wanted.name, wanted.nodes,
                                           std::chrono::steady_clock::now() + mover_.limits().hold);
  reserved_ = status.ok();
  return status;
}

bool PlanRun::reserve(const std::stop_token& stop) {
  const bool over = std::all_of(migrations_.begin(), migrations_.end(), ended);
  if (over && staged().empty()) return true;
  Patience patience(mover_.limits());
  for (int attempt = 1;; ++attempt) {
    const absl::Status status = try_to_reserve();
    if (status.ok()) return true;
    if (attempt == kReservationTries) {
      dropped_why_ = fmt::format("its nodes cannot be reserved: {}", message_of(status));
      hooks_.trouble(fmt::format("plan {}: {}", plan_, dropped_why_));
      return true;
    }
    if (!patience.wait(stop)) return false;
  }
}

bool PlanRun::unreserve(const std::stop_token& stop) {
  const std::string name = reservation().name;
  if (name.empty()) return true;
  Patience patience(mover_.limits());
  while (true) {
    const absl::Status status =
        scheduler_.unreserve(name, std::chrono::steady_clock::now() + mover_.limits().hold);
    if (status.ok()) return true;
    hooks_.trouble(
        fmt::format("plan {}: reservation {} does not end: {}", plan_, name, message_of(status)));
    if (!patience.wait(stop)) return false;
  }
}

bool PlanRun::run_round(int round, const std::stop_token& stop) {
  std::atomic<bool> all_ended = true;
  {
    std::vector<std::jthread> threads;
    for (Migration& migration : migrations_) {
      if (migration.round != round || ended(migration)) continue;
      threads.emplace_back([&] {
        if (mover_.run(migration, stop, give_up_)) {
          hooks_.ended(migration);
        } else {
          all_ended = false;
        }
      });
    }
  }
  return all_ended;
}

bool PlanRun::drop_later(const std::stop_token& stop) {
  for (Migration& migration : migrations_) {
    if (ended(migration)) continue;
    // Begun already, before a restart for example: that one comes to its end as it must.
    if (migration.state == MigrationState::kPlanned && migration.heading == Heading::kForward) {
      migration.heading = Heading::kBack;
      migration.reason = dropped_why_;
    }
    if (!mover_.run(migration, stop, give_up_)) return false;
    hooks_.ended(migration);
  }
  return true;
}

std::map<WorkerName, PlanRun::Whereabouts> PlanRun::moved() const {
  std::map<WorkerName, Whereabouts> moved;
  for (const Migration& migration : migrations_) {
    if (migration.state == MigrationState::kAbandoned) {
      for (const WorkerMove& move : migration.moves) moved.erase(move.worker);
    }
    if (migration.state != MigrationState::kReleased) continue;
    for (const WorkerMove& move : migration.moves) {
      moved.try_emplace(move.worker, Whereabouts{move.from, ""}).first->second.now = move.to;
    }
  }
  return moved;
}

std::set<WorkerName> PlanRun::staged() const {
  std::set<WorkerName> workers;
  for (const auto& [worker, place] : moved()) {
    if (is_staging(place.now)) workers.insert(worker);
  }
  return workers;
}

std::vector<std::string> PlanRun::places_for(const WorkerName& worker) const {
  std::vector<std::string> places;
  const auto add = [&](const std::string& node) {
    if (!is_staging(node) && std::find(places.begin(), places.end(), node) == places.end()) {
      places.push_back(node);
    }
  };
  for (const Migration& migration : migrations_) {
    for (const WorkerMove& move : migration.moves) {
      if (move.worker != worker) continue;
      add(move.from);
      add(move.to);
    }
  }
  for (const std::string& node : hooks_.find_nodes(worker, moved().at(worker).home)) add(node);
  return places;
}

Migration PlanRun::further(const WorkerName& worker, const std::string& to) const {
  Migration one;
  WorkerMove move;
  for (const Migration& migration : migrations_) {
    one.round = std::max(one.round, migration.round + 1);
    if (migration.job != worker.job || migration.state != MigrationState::kReleased) continue;
    // Where the job's workers are is what the last one that was carried out says.
    one.before = one.after = migration.after;
    one.gpus = migration.gpus;
    for (const WorkerMove& past : migration.moves) {
      if (past.worker != worker) continue;
      move = past;
      move.staged_by = is_staging(past.to) ? migration.id : "";
    }
  }
  one.plan = plan_;
  one.id = fmt::format("{}.{}.0", plan_, one.round);
  one.job = worker.job;
  // A node outside of the reservation is not got under it.
  const Reservation reserved = reservation();
  if (reserved_ && std::binary_search(reserved.nodes.begin(), reserved.nodes.end(), to)) {
    one.reservation = reserved.name;
  }
  move.from = move.to;
  move.to = to;
  move.hold.clear();
  for (const WorkerName& other : staged()) {
    if (other.job == worker.job && other != worker) one.staged.insert(other);
  }
  one.was_paused = !one.staged.empty() || is_staging(move.from);
  one.stays_paused = !one.staged.empty();
  one.after[worker] = to;
  one.moves = {std::move(move)};
  return one;
}

PlanRun::Went PlanRun::move_further(const WorkerName& worker, const std::string& to,
                                    const std::stop_token& stop) {
  const std::atomic<bool> no = false;
  Patience patience(mover_.limits());
  Migration migration = further(worker, to);
  // No intent on disk, no step.
  while (!journal_.add_migrations({migration}, wall_s_()).ok()) {
    if (!patience.wait(stop)) return Went::kStopped;
  }
  migrations_.push_back(std::move(migration));
  if (!mover_.run(migrations_.back(), stop, no)) return Went::kStopped;
  hooks_.ended(migrations_.back());
  return migrations_.back().state == MigrationState::kRolledBack ? Went::kNot : Went::kWell;
}

PlanRun::Went PlanRun::clear(const std::string& node, const std::stop_token& stop) {
  // A chain, from the node to one that was left and not taken: undone from its end.
  std::vector<std::pair<WorkerName, std::string>> chain;
  const std::map<WorkerName, Whereabouts> all = moved();
  std::string wanted = node;
  while (chain.size() < all.size()) {
    const auto taker = std::find_if(all.begin(), all.end(), [&](const auto& entry) {
      return entry.second.now == wanted && entry.second.home != wanted;
    });
    if (taker == all.end()) break;
    wanted = taker->second.home;
    chain.emplace_back(taker->first, wanted);
  }
  if (chain.empty()) return Went::kNot;
  for (auto link = chain.rbegin(); link != chain.rend(); ++link) {
    const Went went = move_further(link->first, link->second, stop);
    if (went != Went::kWell) return went;
  }
  return Went::kWell;
}

bool PlanRun::return_staged(const std::stop_token& stop) {
  for (const WorkerName& worker : staged()) {
    if (!return_worker(worker, stop)) return false;
  }
  return true;
}

bool PlanRun::return_worker(const WorkerName& worker, const std::stop_token& stop) {
  Patience patience(mover_.limits());
  while (true) {
    if (!reserved_) try_to_reserve().IgnoreError();
    for (const std::string& node : places_for(worker)) {
      const Went went = move_further(worker, node, stop);
      if (went != Went::kNot) return went == Went::kWell;
    }
    const Went cleared = clear(moved().at(worker).home, stop);
    if (cleared == Went::kStopped) return false;
    if (cleared == Went::kWell) continue;
    // Why the last try turned back: a state that no staging server has is lost.
    hooks_.trouble(
        fmt::format("worker {}: its state is staged and no node takes it ({}); trying again",
                    to_string(worker), migrations_.back().reason));
    if (!patience.wait(stop)) return false;
  }
}

}  // namespace monkeytree
