#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "control/journal.h"
#include "control/migration.h"

/// Several controllers, of which one acts. The service carries it over etcd; tests put a fake
/// behind it.
namespace monkeytree {

/// What is known of who leads.
struct LeadershipView {
  bool leads = false;                 ///< this controller, at this moment
  uint64_t term = 0;                  ///< ascends each time this controller begins to lead
  uint64_t token = 0;                 ///< that agents check; 0 while it does not lead
  std::string name;                   ///< of this controller
  std::string leader;                 ///< the name of the one that leads; "": none is known
  std::string address;                ///< where that one answers people
  std::string trouble;                ///< why nobody can be asked who leads, or ""
  std::chrono::milliseconds left{0};  ///< of the lease, while it leads
};

/// A plan that runs, or has ended lately, with its migrations by round and number.
struct SharedPlan {
  PlanEntry entry;           ///< without the snapshot
  std::string cancelled_by;  ///< a person, or ""
  std::vector<Migration> migrations;
};

/// What all controllers know of what is under way.
struct SharedBooks {
  std::vector<SharedPlan> running, ended;  ///< each ascending
  std::string paused;                      ///< the kill switch, or ""
  int64_t last_plan = 0;                   ///< the highest number given to a plan
};

/// Thread-safe. Changing calls are refused (FailedPrecondition) from the moment on in which this
/// controller leads no more, whatever it believes; Unavailable: it is not known whether the change
/// has come about, and it may be repeated.
class Leadership {
 public:
  virtual ~Leadership() = default;

  virtual LeadershipView view() const = 0;
  /// The longest that a step may take which nobody but the leader's own clock can stop.
  virtual std::chrono::milliseconds longest_step() const = 0;

  /// By who has just begun to lead, before anything else.
  virtual absl::StatusOr<SharedBooks> read() = 0;
  virtual absl::Status set_last_plan(int64_t plan) = 0;
  virtual absl::Status put_plan(const PlanEntry& plan, std::string_view cancelled_by) = 0;
  /// The intent, before it is acted on, and what has become of it.
  virtual absl::Status put_migration(const Migration& migration) = 0;
  /// The plan is over. Those that ended before number `forget` are forgotten.
  virtual absl::Status end_plan(const SharedPlan& plan, int64_t forget) = 0;
  virtual absl::Status set_paused(std::string_view why) = 0;
};

/// "this controller does not lead; b at 10.0.0.2:7460 does, ask it".
std::string why_not_leading(const LeadershipView& view);

}  // namespace monkeytree
