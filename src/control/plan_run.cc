#include "control/plan_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "base/status.h"

namespace monkeytree {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kReservationLimit{20'000};
constexpr milliseconds kFirstRetry{500};
constexpr milliseconds kLongestRetry{30'000};
constexpr int kReservationTries = 3;

bool is_staging(const std::string& node) { return node == kStagingNode; }

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

double gpus_of(const std::map<WorkerName, std::string>& nodes, const Snapshot& snapshot) {
  double gpus = 0;
  std::map<std::string_view, int> by_name;
  for (const Node& node : snapshot.nodes) by_name[node.name] = std::max(node.gpus, 1);
  for (const auto& [worker, node] : nodes) {
    const auto found = by_name.find(node);
    if (found != by_name.end()) gpus += found->second;
  }
  return gpus;
}

/// What a job's moves of one round do to where its workers are.
void play(Migration& migration, std::map<WorkerName, std::string>& nodes, size_t workers) {
  migration.before = nodes;
  migration.was_paused = nodes.size() < workers;
  for (const WorkerMove& move : migration.moves) {
    if (is_staging(move.to)) {
      nodes.erase(move.worker);
    } else {
      nodes[move.worker] = move.to;
    }
  }
  migration.after = nodes;
  migration.stays_paused = nodes.size() < workers;
}

milliseconds longer(milliseconds wait) { return std::min(2 * wait, kLongestRetry); }

}  // namespace

std::vector<Migration> migrations_of(int64_t plan, const Snapshot& snapshot,
                                     const std::vector<Round>& rounds,
                                     const WorkerReports& reports) {
  std::vector<Migration> all;
  std::map<JobId, std::map<WorkerName, std::string>> nodes;
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
      migration.gpus = gpus_of(everyone, snapshot);
      if (rounds.size() > 1) migration.reservation = PlanRun::reservation_of(plan);
      play(migration, known->second, everyone.size());
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
  if (!reserve(stop)) {
    if (stop.stop_requested()) return End::kStopped;
    give_up_ = true;
  }
  int last = -1;
  for (const Migration& migration : migrations_) last = std::max(last, migration.round);
  for (int round = 0; round <= last && !give_up_; ++round) {
    if (!run_round(round, stop)) return End::kStopped;
    const bool undone = std::any_of(
        migrations_.begin(), migrations_.end(),
        [](const Migration& migration) { return migration.state == MigrationState::kRolledBack; });
    if (undone) break;
  }
  if (!drop_later(stop) || !return_staged(stop)) return End::kStopped;
  if (!unreserve(stop)) return End::kStopped;
  const bool all_done = std::all_of(
      migrations_.begin(), migrations_.end(),
      [](const Migration& migration) { return migration.state != MigrationState::kRolledBack; });
  return all_done ? End::kDone : End::kFailed;
}

bool PlanRun::reserve(const std::stop_token& stop) {
  std::string name;
  for (const Migration& migration : migrations_) {
    if (!migration.reservation.empty()) name = migration.reservation;
  }
  const bool over = std::all_of(migrations_.begin(), migrations_.end(), ended);
  if (name.empty() || over) return true;
  milliseconds wait = kFirstRetry;
  for (int attempt = 1;; ++attempt) {
    const absl::Status status = scheduler_.reserve(
        name, nodes_of(migrations_), std::chrono::steady_clock::now() + kReservationLimit);
    if (status.ok()) return true;
    if (attempt == kReservationTries) {
      hooks_.trouble(
          fmt::format("plan {}: its nodes cannot be reserved: {}", plan_, message_of(status)));
      return false;
    }
    if (sleep_or_stop(stop, wait)) return false;
    wait = longer(wait);
  }
}

bool PlanRun::unreserve(const std::stop_token& stop) {
  std::string name;
  for (const Migration& migration : migrations_) {
    if (!migration.reservation.empty()) name = migration.reservation;
  }
  if (name.empty()) return true;
  milliseconds wait = kFirstRetry;
  while (true) {
    const absl::Status status =
        scheduler_.unreserve(name, std::chrono::steady_clock::now() + kReservationLimit);
    if (status.ok()) return true;
    hooks_.trouble(
        fmt::format("plan {}: reservation {} does not end: {}", plan_, name, message_of(status)));
    if (sleep_or_stop(stop, wait)) return false;
    wait = longer(wait);
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
  const std::atomic<bool> no = false;
  for (Migration& migration : migrations_) {
    if (ended(migration)) continue;
    // Begun already, before a restart for example: that one comes to its end as it must.
    if (migration.state == MigrationState::kPlanned && migration.heading == Heading::kForward) {
      migration.heading = Heading::kBack;
      migration.reason = "an earlier move of the plan was undone";
    }
    if (!mover_.run(migration, stop, no)) return false;
    hooks_.ended(migration);
  }
  return true;
}

std::set<WorkerName> PlanRun::staged() const {
  std::set<WorkerName> workers;
  for (const Migration& migration : migrations_) {
    if (migration.state != MigrationState::kReleased) {
      if (migration.state != MigrationState::kAbandoned) continue;
      for (const WorkerMove& move : migration.moves) workers.erase(move.worker);
      continue;
    }
    for (const WorkerMove& move : migration.moves) {
      if (is_staging(move.to)) {
        workers.insert(move.worker);
      } else {
        workers.erase(move.worker);
      }
    }
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
  std::string from;
  for (const Migration& migration : migrations_) {
    for (const WorkerMove& move : migration.moves) {
      if (move.worker != worker) continue;
      if (is_staging(move.to)) from = move.from;
      add(move.from);
      add(move.to);
    }
  }
  for (const std::string& node : hooks_.find_nodes(worker, from)) add(node);
  return places;
}

std::optional<Migration> PlanRun::way_back(const WorkerName& worker, const std::string& to) const {
  // Where the job's workers are is what its last finished migration of this plan says.
  const Migration* last = nullptr;
  const WorkerMove* unload = nullptr;
  int round = 0;
  for (const Migration& migration : migrations_) {
    round = std::max(round, migration.round);
    if (migration.job != worker.job || migration.state != MigrationState::kReleased) continue;
    last = &migration;
    for (const WorkerMove& move : migration.moves) {
      if (move.worker == worker && is_staging(move.to)) unload = &move;
    }
  }
  if (!last || !unload) return std::nullopt;
  Migration back;
  back.plan = plan_;
  back.round = round + 1;
  back.id = fmt::format("{}.{}.0", plan_, back.round);
  back.job = worker.job;
  back.gpus = last->gpus;
  back.reservation = last->reservation;
  back.moves = {{worker, kStagingNode, to, unload->state_bytes, "", unload->command}};
  back.before = back.after = last->after;
  back.after[worker] = to;
  back.was_paused = true;
  const std::set<WorkerName> waiting = staged();
  back.stays_paused = std::any_of(waiting.begin(), waiting.end(), [&](const WorkerName& other) {
    return other.job == worker.job && other != worker;
  });
  return back;
}

bool PlanRun::return_staged(const std::stop_token& stop) {
  for (const WorkerName& worker : staged()) {
    if (!return_worker(worker, stop)) return false;
  }
  return true;
}

bool PlanRun::return_worker(const WorkerName& worker, const std::stop_token& stop) {
  const std::atomic<bool> no = false;
  milliseconds wait = kFirstRetry;
  while (true) {
    for (const std::string& node : places_for(worker)) {
      std::optional<Migration> back = way_back(worker, node);
      if (!back) return true;
      // The state must not depend on the disk of the controller: without the journal, wait.
      while (!journal_.add_migrations({*back}, wall_s_()).ok()) {
        if (sleep_or_stop(stop, wait)) return false;
        wait = longer(wait);
      }
      migrations_.push_back(*back);
      if (!mover_.run(migrations_.back(), stop, no)) return false;
      hooks_.ended(migrations_.back());
      if (migrations_.back().state != MigrationState::kRolledBack) return true;
    }
    hooks_.trouble(fmt::format("worker {}: its state is staged and no node takes it; trying again",
                               to_string(worker)));
    if (sleep_or_stop(stop, wait)) return false;
    wait = longer(wait);
  }
}

}  // namespace monkeytree
