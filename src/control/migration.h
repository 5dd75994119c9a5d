#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/worker_name.h"
#include "inventory/scheduler.h"

/// A job's moves in one round of a plan, from the first hold to the last node given back, as a
/// state machine. Pure: what to do next follows from what the journal holds; mover.h does it.
///
///     planned → held → prepared → paused → transferred → restored → resumed → released
///
/// `restored` is the point of no return. Before it, whatever fails, everything is undone and the
/// job goes on from where it was; after it the job goes on at the new place, however long that
/// takes. A source lets go (released) only after every worker has done one good iteration.
///
/// A job of which a worker is staged stays paused: nobody does an iteration. Then `resumed` says
/// that the successors have confirmed their state once more, and only that is the point of no
/// return.
namespace monkeytree {

enum class MigrationState : uint8_t {
  kPlanned,
  kHeld,         ///< the scheduler keeps the destinations for us
  kPrepared,     ///< successors stand ready, with memory for the state; staging has granted room
  kPaused,       ///< every worker of the job stands still after the same iteration
  kTransferred,  ///< the state is at both ends, checksums compared
  kRestored,     ///< the successors have taken it up
  kResumed,      ///< every worker of the job has done a good iteration, or stays paused
  kReleased,     ///< sources gone, nodes given back: done
  kRolledBack,   ///< done, and nothing has changed
  kAbandoned,    ///< the job ended meanwhile; what was held for it is given back
};

/// What is done to get from one state to the next, or back.
enum class Step : uint8_t {
  kHold,
  kPrepare,
  kPause,
  kTransfer,
  kRestore,
  kResume,
  kRelease,
  kRollBack,
  kAbandon,
};

std::string_view name_of(MigrationState state);  ///< "planned", "held", …
std::string_view name_of(Step step);             ///< "hold", "prepare", …, "roll back"
std::optional<MigrationState> migration_state(std::string_view name);
std::optional<Step> migration_step(std::string_view name);

/// Where a migration is going.
enum class Heading : uint8_t { kForward, kBack, kAbandon };
std::string_view name_of(Heading heading);  ///< "forward", "back", "abandon"
std::optional<Heading> heading_named(std::string_view name);

/// One worker's part. `from` or `to` is kStagingNode where its state goes by the staging server.
struct WorkerMove {
  WorkerName worker;
  std::string from, to;
  int64_t state_bytes = 0;
  std::string hold;       ///< the scheduler's id of the hold on `to`; "" before and for staging
  WorkerCommand command;  ///< starts the successor
  std::string staged_by;  ///< the migration that brought the state to staging, if it is there
  friend bool operator==(const WorkerMove&, const WorkerMove&) = default;
};

struct Migration {
  std::string id;  ///< unique in a journal: "12.0.1", the plan's number, its round, which of it
  int64_t plan = 0;
  int round = 0;
  std::string job;
  double gpus = 0;          ///< of the whole job: it stands still
  std::string reservation;  ///< nodes that change hands stand in it; "" for none
  std::vector<WorkerMove> moves;
  /// Every worker of the job that is on a node, before and after; a staged one is in neither.
  std::map<WorkerName, std::string> before, after;
  /// Workers of the job whose state lies with the staging server from before the migration until
  /// after it.
  std::set<WorkerName> staged;
  bool was_paused = false;    ///< an earlier round has a worker of the job staged
  bool stays_paused = false;  ///< some worker of it is staged when this one has ended

  MigrationState state = MigrationState::kPlanned;
  Heading heading = Heading::kForward;
  std::string reason;                ///< why it turned back or was abandoned
  std::optional<int64_t> iteration;  ///< after which the job paused
  friend bool operator==(const Migration&, const Migration&) = default;
};

/// Nothing is left to do.
bool ended(const Migration& migration);

/// May still be undone: the point of no return is not reached.
bool can_turn_back(const Migration& migration);

/// The next step, or nullopt where the migration has ended. A migration whose heading is back
/// rolls back, whatever it has reached.
std::optional<Step> next_step(const Migration& migration);

/// The migration after the step has succeeded.
void advance(Migration& migration, Step done);

/// JSON, one object; read_migration() gives it back, nullopt where the text is none of ours.
std::string write_migration(const Migration& migration);
std::optional<Migration> read_migration(std::string_view text);

}  // namespace monkeytree
