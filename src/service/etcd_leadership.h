#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "control/leadership.h"
#include "election/fenced_store.h"

namespace monkeytree {

/// Leadership by a lease in etcd. Under the prefix lie, beside the key of the leader:
///
///     last_plan                       the highest number given to a plan
///     paused                          the kill switch
///     token_base                      what tokens begin at, beyond what agents had seen before
///     plans/PLAN                      a plan that runs
///     migrations/PLAN/MIGRATION       one of its migrations, as of its last intent or outcome
///     past/PLAN                       a plan that has ended, with what moved, for two days
class EtcdLeadership final : public Leadership {
 public:
  struct Settings {
    ElectionSettings election;
    /// The highest token of which agents may have heard before there was an election.
    uint64_t known_token = 0;
    std::function<void()> changed;  ///< as of Election
  };
  /// `etcd` outlives it. It stands for election from start() on.
  EtcdLeadership(Etcd& etcd, Settings settings);
  void start() { election_.start(); }

  /// Agents are spoken to with it; 0 while this controller does not lead, and before read().
  uint64_t token() const;
  /// Lets another lead, at once.
  void resign() { election_.resign(); }

  LeadershipView view() const override;
  std::chrono::milliseconds longest_step() const override;
  absl::StatusOr<SharedBooks> read() override;
  absl::Status set_last_plan(int64_t plan) override;
  absl::Status put_plan(const PlanEntry& plan, std::string_view cancelled_by) override;
  absl::Status put_migration(const Migration& migration) override;
  absl::Status end_plan(const SharedPlan& plan, int64_t forget) override;
  absl::Status set_paused(std::string_view why) override;

 private:
  absl::Status set_base(int64_t term_token);

  const std::function<void()> changed_;
  const uint64_t known_token_;
  const std::string name_;
  mutable std::mutex mutex_;
  int64_t based_on_ = 0;  ///< the election's token for which base_ holds
  uint64_t base_ = 0;     ///< added to it
  Election election_;
  FencedStore store_;
};

/// A plan with its migrations as JSON, the value of `past/PLAN`; without migrations of
/// `plans/PLAN`.
std::string write_shared_plan(const SharedPlan& plan);
/// nullopt where the text is none of ours.
std::optional<SharedPlan> read_shared_plan(std::string_view text);

}  // namespace monkeytree
