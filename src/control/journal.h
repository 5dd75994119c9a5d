#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "control/database.h"
#include "control/migration.h"

/// What the controller decided and did, on disk before it is done: one intent before each step of a
/// migration, one outcome after it. A controller that was killed reads here where it was.
namespace monkeytree {

enum class PlanState : uint8_t {
  kProposed,  ///< nothing is done with it: mode observe, or policy held it back
  kWaiting,   ///< for a person to approve it
  kRunning,
  kDone,
  kFailed,      ///< some move was undone; what moved stays
  kCancelled,   ///< by a person
  kSuperseded,  ///< the cluster changed before it began
};
std::string_view name_of(PlanState state);  ///< "proposed", "waiting", …
std::optional<PlanState> plan_state(std::string_view name);

/// A plan with all that explains it.
struct PlanEntry {
  int64_t id = 0;
  double made_s = 0;  ///< Unix time
  std::optional<double> ended_s;
  PlanState state = PlanState::kProposed;
  std::string reason;  ///< why it is not (or no longer) running
  std::string approved_by;
  int moves = 0;
  std::string snapshot;  ///< JSON, `monkeytree/snapshot/v1`
  std::string plan;      ///< JSON, `monkeytree/plan/v1`
  std::string decision;  ///< JSON: gain, cost, jobs that could not move and why (policy.h)
};

/// One step of a migration as it was tried.
struct StepEntry {
  std::string migration;
  Step step = Step::kHold;
  int attempt = 1;
  double began_s = 0;
  std::optional<double> ended_s;  ///< none: it was under way when the journal was last written
  std::string outcome;            ///< "OK" or a status: "UNAVAILABLE: agent of n3 …"
};

/// Something that happened, for `monkeytree history` and the event stream.
struct Event {
  int64_t id = 0;  ///< ascending, never used twice
  double time_s = 0;
  std::string kind;  ///< "plan", "step", "over", "within", "mode", "approve", …
  std::string text;  ///< a line for people
  std::string data;  ///< JSON for programs
};

/// A changing call: who asked for what from where, and what came of it.
struct AuditEntry {
  int64_t id = 0;
  double time_s = 0;
  std::string who;                ///< the token's name; "" where there was none that counts
  std::string role;               ///< its role; ""
  std::string from;               ///< numeric address
  std::string call;               ///< "POST /api/v1/plans/12/approve"
  std::string said;               ///< what the call said for itself: a name, a reason
  std::string outcome = "begun";  ///< "OK", or why not; "begun" where a controller died meanwhile
  friend bool operator==(const AuditEntry&, const AuditEntry&) = default;
};

/// Thread-safe. Every call that writes has written, and the disk has it, when it returns OK. Errors
/// are Database's.
class Journal {
 public:
  /// Version of the tables. An older file is brought up to date, a newer one refused.
  static constexpr int kVersion = 2;

  static absl::StatusOr<Journal> open(const std::string& file);

  /// The number given to the new plan: its own, where it has one.
  absl::StatusOr<int64_t> add_plan(const PlanEntry& plan);
  /// The highest number that was ever given to a plan.
  absl::StatusOr<int64_t> last_plan() const;
  absl::Status set_plan_state(int64_t plan, PlanState state, std::string_view reason,
                              std::optional<double> ended_s);
  absl::Status set_approved(int64_t plan, std::string_view by);
  absl::StatusOr<std::optional<PlanEntry>> plan(int64_t id) const;
  /// Newest first, without snapshots; `state` narrows it.
  absl::StatusOr<std::vector<PlanEntry>> plans(std::optional<PlanState> state, int limit) const;

  /// How many plans of each state there are.
  absl::StatusOr<std::map<PlanState, int64_t>> count_plans() const;

  /// The migrations of a round, before any of them begins.
  absl::Status add_migrations(const std::vector<Migration>& migrations, double now_s);
  /// About to try the next step, as the migration now is. Returns the number of the attempt.
  absl::StatusOr<int> begin_step(const Migration& migration, Step step, double now_s);
  /// The step ended with `outcome`; the migration is now as given.
  absl::Status end_step(const Migration& migration, Step step, int attempt,
                        const absl::Status& outcome, double now_s);
  /// Those that have not ended, by plan, round, number.
  absl::StatusOr<std::vector<Migration>> unfinished() const;
  absl::StatusOr<std::vector<Migration>> migrations(int64_t plan) const;
  absl::StatusOr<std::vector<StepEntry>> steps(int64_t plan) const;

  /// `put` is called before a migration is written, each time: where several controllers share what
  /// is under way it goes there first, and is written here only if that succeeds.
  void share_migrations(std::function<absl::Status(const Migration&)> put);
  /// Takes up a plan of another controller as it is, in place of what is known of it here; for
  /// migrations that have ended, `ended_s`.
  absl::Status adopt(const PlanEntry& plan, const std::vector<Migration>& migrations,
                     double ended_s);
  /// The next plan gets a higher number than `last`.
  absl::Status raise_plan_number(int64_t last);
  /// The lowest number of the plans that have not ended, or not before then.
  absl::StatusOr<int64_t> oldest_plan_since(double since_s) const;

  struct PastMove {
    WorkerName worker;
    std::string from, to;  ///< nodes; a staged move is one, from where it was
    double ended_s = 0;    ///< where under way: when it began
    bool under_way = false;
  };
  /// Moves carried out since then, and those under way, in the order in which they began. Read
  /// from the disk only where a migration was written since the last call, or for a longer time.
  absl::StatusOr<std::vector<PastMove>> moves_since(double since_s) const;

  absl::Status add_event(double time_s, std::string_view kind, std::string_view text,
                         std::string_view data);
  /// Those after `id`, oldest first.
  absl::StatusOr<std::vector<Event>> events_after(int64_t id, int limit) const;
  /// The newest, oldest first.
  absl::StatusOr<std::vector<Event>> newest_events(int limit) const;

  /// Before the call does anything. Returns the entry's number.
  absl::StatusOr<int64_t> add_audit(const AuditEntry& entry);
  absl::Status set_audit_outcome(int64_t id, std::string_view outcome);
  /// The newest, oldest first.
  absl::StatusOr<std::vector<AuditEntry>> newest_audit(int limit) const;

  /// A value that outlives restarts: the fence, the kill switch.
  absl::Status set(std::string_view key, std::string_view value);
  absl::StatusOr<std::optional<std::string>> get(std::string_view key) const;

  /// Asked before each write; false refuses it, as a disk that has failed would. For tests.
  void set_gate(std::function<bool()> may_write);

  /// Drops snapshots of plans beyond the newest `keep`, and events beyond the newest `events`, as
  /// well as that many calls refused for want of a token. What people did is kept for good.
  absl::Status prune(int keep, int events);

 private:
  explicit Journal(Database database) : database_(std::move(database)) {}
  absl::StatusOr<std::vector<Migration>> read_migrations(Statement statement) const;
  absl::Status shared(const Migration& migration) const {
    return share_ ? share_(migration) : absl::OkStatus();
  }
  // With the mutex held.
  absl::StatusOr<Statement> change(std::string_view sql) const;
  absl::StatusOr<Transaction> begin() const;
  absl::Status write_state(const Migration& migration, double now_s);
  absl::Status insert_migration(const Migration& migration, int64_t number, double now_s) const;
  absl::StatusOr<std::vector<PastMove>> read_moves(double since_s) const;

  mutable std::unique_ptr<std::mutex> mutex_ = std::make_unique<std::mutex>();
  Database database_;
  std::function<bool()> may_write_;
  std::function<absl::Status(const Migration&)> share_;

  /// What moves_since() read last; good until a migration is written.
  struct Recent {
    double since_s = 0;
    std::vector<PastMove> moves;
  };
  mutable std::optional<Recent> recent_;
};

}  // namespace monkeytree
