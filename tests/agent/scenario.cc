#include "scenario.h"

#include <fmt/format.h>
#include <signal.h>

#include <fstream>
#include <sstream>

#include "../worker/worker_state.h"
#include "base/eventually.h"
#include "worker_log.h"

namespace monkeytree {
namespace {

constexpr int64_t kStateBytes = 200'000;

}  // namespace

const char* name_of(ScenarioStep step) {
  constexpr const char* kNames[] = {"prepare", "pause", "transfer", "restore", "resume", "release"};
  return kNames[static_cast<size_t>(step)];
}

Scenario::Scenario(const std::vector<std::string>& nodes, int64_t staging_quota)
    : world_(make_world()) {
  for (const std::string& node : nodes) world_->start_agent(node, staging_quota);
  for (const std::string& node : nodes) {
    EXPECT_TRUE(eventually([&] { return world_->connected(node); })) << node;
  }
}

Scenario::~Scenario() {
  if (testing::Test::HasFailure()) {
    for (const auto& [key, process] : processes_) {
      std::ifstream in(fmt::format("{}/{}.{}.out", world_->folder(), key.first, key.second));
      std::stringstream text;
      text << in.rdbuf();
      fmt::print("worker {} on {}: {}\n", key.first, key.second, text.str());
    }
    for (const AgentReport& agent : executor().agents()) {
      std::ifstream in(fmt::format("{}/{}.agent.log", world_->folder(), agent.node));
      std::stringstream text;
      text << in.rdbuf();
      fmt::print("agent {}, connected {}:\n{}\n", agent.node, agent.connected, text.str());
    }
  }
  processes_.clear();
}

void Scenario::start_worker(int index, const std::string& node, const std::string& successor_of,
                            const std::string& fault) {
  std::map<std::string, std::string> environment = {
      {"MONKEYTREE_AGENT_SOCKET", world_->socket(node)}};
  if (!successor_of.empty()) {
    environment["MONKEYTREE_SUCCESSOR_OF"] = successor_of;
    environment["MONKEYTREE_JOB"] = "j7";
    environment["MONKEYTREE_GROUP"] = "0";
    environment["MONKEYTREE_WORKER"] = std::to_string(index);
  }
  std::vector<std::string> arguments = {MONKEYTREE_WORKER_PROGRAM,
                                        "--job",
                                        "j7",
                                        "--worker",
                                        std::to_string(index),
                                        "--workers",
                                        std::to_string(workers_),
                                        "--folder",
                                        world_->folder(),
                                        "--interval-ms",
                                        "2",
                                        "--state-bytes",
                                        std::to_string(kStateBytes),
                                        "--address",
                                        "127.0.0.1",
                                        "--node",
                                        node};
  if (!fault.empty()) arguments.insert(arguments.end(), {"--fault", fault});
  processes_[{index, node}] =
      Process(arguments, environment, fmt::format("{}/{}.{}.out", world_->folder(), index, node));
}

void Scenario::start_job(const std::vector<std::string>& nodes, int faulty,
                         const std::string& fault) {
  workers_ = static_cast<int>(nodes.size());
  for (int i = 0; i < workers_; ++i) {
    places_[i] = nodes[static_cast<size_t>(i)];
    start_worker(i, places_[i], "", i == faulty ? fault : "");
  }
  EXPECT_TRUE(eventually([&] {
    size_t count = 0;
    for (const AgentReport& agent : executor().agents()) count += agent.workers.size();
    return count == nodes.size();
  }));
  goes_on();
}

Scenario::Migration Scenario::plan(const std::string& id, const std::map<int, std::string>& to) {
  Migration out;
  out.id = id;
  for (const auto& [worker, node] : places_) {
    if (node != kStagingNode) out.before[worker] = node;
  }
  std::map<int, std::string> after = places_;
  for (const auto& [worker, node] : to) {
    out.moves.push_back({worker, places_.at(worker), node});
    after[worker] = node;
  }
  for (const auto& [worker, node] : after) {
    if (node == kStagingNode) {
      out.stays_paused = true;
    } else {
      out.after[worker] = node;
    }
  }
  return out;
}

void Scenario::start_successors(const Migration& migration, const std::string& fault) {
  for (const Move& move : migration.moves) {
    if (move.to != kStagingNode) start_worker(move.worker, move.to, migration.id, fault);
  }
}

absl::Status Scenario::perform(const Migration& migration, ScenarioStep step) {
  std::map<WorkerName, std::string> before, after;
  for (const auto& [worker, node] : migration.before) before[name(worker)] = node;
  for (const auto& [worker, node] : migration.after) after[name(worker)] = node;
  if (step == ScenarioStep::kPause) {
    return executor().pause(migration.id, "j7", before, deadline()).status();
  }
  if (step == ScenarioStep::kResume) {
    if (migration.stays_paused) return absl::OkStatus();
    return executor().resume(migration.id, "j7", after, deadline());
  }
  for (const Move& move : migration.moves) {
    absl::Status status;
    const WorkerName worker = name(move.worker);
    if (step == ScenarioStep::kPrepare) {
      status = executor().prepare(migration.id, worker, move.to, kStateBytes, deadline());
    } else if (step == ScenarioStep::kTransfer) {
      status = executor().transfer(migration.id, worker, move.from, move.to, deadline());
    } else if (step == ScenarioStep::kRestore && move.to != kStagingNode) {
      status = executor().restore(migration.id, worker, move.to, deadline());
    } else if (step == ScenarioStep::kRelease) {
      status = executor().release(migration.id, worker, move.from, deadline());
      if (absl::IsNotFound(status)) status = absl::OkStatus();
    }
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

bool Scenario::insist(const Migration& migration, ScenarioStep step) {
  absl::Status last;
  const bool done = eventually([&] {
    last = perform(migration, step);
    return last.ok();
  });
  EXPECT_TRUE(done) << name_of(step) << ": " << last;
  return done;
}

void Scenario::move(const Migration& migration,
                    const std::function<void(ScenarioStep)>& before_step) {
  start_successors(migration);
  for (ScenarioStep step : kScenarioSteps) {
    before_step(step);
    if (!insist(migration, step)) return;
  }
  for (const Move& move : migration.moves) {
    places_[move.worker] = move.to;
    if (move.from == kStagingNode) continue;
    const auto old = processes_.find({move.worker, move.from});
    if (old == processes_.end()) continue;
    old->second.wait();
    processes_.erase(old);
  }
}

absl::Status Scenario::roll_back(const Migration& migration) {
  std::map<WorkerName, std::string> before;
  for (const auto& [worker, node] : migration.before) before[name(worker)] = node;
  const bool was_paused = before.size() < static_cast<size_t>(workers_);
  return executor().roll_back(migration.id, "j7", before, !was_paused, deadline());
}

void Scenario::insist_on_roll_back(const Migration& migration) {
  absl::Status last;
  EXPECT_TRUE(eventually([&] {
    last = roll_back(migration);
    return last.ok();
  })) << last;
  for (const Move& move : migration.moves) {
    const auto successor = processes_.find({move.worker, move.to});
    if (successor == processes_.end()) continue;
    EXPECT_TRUE(eventually([&] { return !successor->second.running(); })) << "successor lives";
    processes_.erase(successor);
  }
}

std::string Scenario::log_file(int worker) const {
  return fmt::format("{}/j7.0.{}.log", world_->folder(), worker);
}

std::vector<int64_t> Scenario::iterations() const {
  std::vector<int64_t> out;
  for (int i = 0; i < workers_; ++i) {
    const std::vector<WorkerLogLine> lines = read_worker_log(log_file(i));
    out.push_back(lines.empty() ? 0 : lines.back().iteration);
  }
  return out;
}

void Scenario::goes_on(int more) {
  const std::vector<int64_t> then = iterations();
  EXPECT_TRUE(eventually([&] {
    const std::vector<int64_t> now = iterations();
    for (size_t i = 0; i < now.size(); ++i) {
      if (now[i] < then[i] + more) return false;
    }
    return true;
  })) << "the job does not go on";
}

void Scenario::check_logs() const {
  std::vector<std::vector<WorkerLogLine>> logs;
  size_t longest = 0;
  for (int i = 0; i < workers_; ++i) {
    logs.push_back(read_worker_log(log_file(i)));
    longest = std::max(longest, logs.back().size());
  }
  std::vector<TrainingState> states;
  for (int i = 0; i < workers_; ++i) states.push_back(TrainingState::create(name(i), 16).value());
  for (size_t at = 0; at < longest; ++at) {
    uint64_t sum = 0;
    for (TrainingState& state : states) sum += state.contribution();
    for (size_t i = 0; i < states.size(); ++i) {
      states[i].step(sum);
      if (at >= logs[i].size()) continue;
      const WorkerLogLine& line = logs[i][at];
      ASSERT_EQ(line.iteration, static_cast<int64_t>(at) + 1) << "worker " << i;
      ASSERT_EQ(line.sum, fmt::format("{:016x}", states[i].sum()))
          << "worker " << i << ", iteration " << at + 1;
      // Once a process has been followed by another it does nothing any more.
      if (at > 0 && line.process != logs[i][at - 1].process) {
        for (size_t later = at; later < logs[i].size(); ++later) {
          ASSERT_NE(logs[i][later].process, logs[i][at - 1].process);
        }
      }
    }
  }
}

}  // namespace monkeytree
