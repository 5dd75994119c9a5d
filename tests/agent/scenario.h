#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "world.h"

namespace monkeytree {

enum class ScenarioStep : uint8_t { kPrepare, kPause, kTransfer, kRestore, kResume, kRelease };
inline constexpr ScenarioStep kScenarioSteps[] = {ScenarioStep::kPrepare,  ScenarioStep::kPause,
                                                  ScenarioStep::kTransfer, ScenarioStep::kRestore,
                                                  ScenarioStep::kResume,   ScenarioStep::kRelease};
const char* name_of(ScenarioStep step);

/// One job of stand-in workers in a world, and its moves, made as the controller makes them.
class Scenario {
 public:
  struct Move {
    int worker = 0;
    std::string from, to;
  };
  struct Migration {
    std::string id;
    std::vector<Move> moves;
    std::map<int, std::string> before, after;  ///< nodes of workers that are on one
    bool stays_paused = false;
  };

  explicit Scenario(const std::vector<std::string>& nodes, int64_t staging_quota = 0);
  ~Scenario();

  World& world() { return *world_; }
  Executor& executor() { return world_->executor(); }

  /// Worker i on the i-th of `nodes`; extra arguments for one of them, for faults.
  void start_job(const std::vector<std::string>& nodes, int faulty = -1,
                 const std::string& fault = "");
  Process& worker(int index, const std::string& node) { return processes_.at({index, node}); }

  /// A migration of workers to nodes or kStagingNode, from where they are.
  Migration plan(const std::string& id, const std::map<int, std::string>& to);
  void start_successors(const Migration& migration, const std::string& fault = "");

  absl::Status perform(const Migration& migration, ScenarioStep step);
  /// Again and again, as the controller does, until it is done.
  bool insist(const Migration& migration, ScenarioStep step);
  /// All steps, each insisted on; `before_step` may do harm.
  void move(
      const Migration& migration,
      const std::function<void(ScenarioStep)>& before_step = [](ScenarioStep) {});
  absl::Status roll_back(const Migration& migration);
  void insist_on_roll_back(const Migration& migration);

  /// Every worker does a few more iterations.
  void goes_on(int iterations = 5);
  /// Every worker stands still: no log grows any more after the answer to a pause.
  std::vector<int64_t> iterations() const;
  /// Each iteration of each worker was done once, in order, by one process after the other, with
  /// the sums that a job that never moved has.
  void check_logs() const;
  std::string log_file(int worker) const;

  WorkerName name(int worker) const { return {"j7", 0, worker}; }
  Deadline deadline() const { return std::chrono::steady_clock::now() + std::chrono::seconds(80); }

 private:
  void start_worker(int index, const std::string& node, const std::string& successor_of,
                    const std::string& fault);

  std::unique_ptr<World> world_;
  int workers_ = 0;
  std::map<int, std::string> places_;
  std::map<std::pair<int, std::string>, Process> processes_;
};

}  // namespace monkeytree
