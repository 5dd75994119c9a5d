#include "control/journal.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "base/status.h"
#include "planning/plan_json.h"

namespace monkeytree {
namespace {

constexpr std::array<std::string_view, 7> kPlanStates = {
    "proposed", "waiting", "running", "done", "failed", "cancelled", "superseded"};

/// What brings a file from one version of the tables to the next, the first from none at all.
constexpr std::array<std::string_view, Journal::kVersion> kUpgrades = {R"sql(
CREATE TABLE plans(
  id INTEGER PRIMARY KEY AUTOINCREMENT, made_s REAL NOT NULL, ended_s REAL, state TEXT NOT NULL,
  reason TEXT NOT NULL, approved_by TEXT NOT NULL, moves INTEGER NOT NULL, snapshot TEXT NOT NULL,
  plan TEXT NOT NULL, decision TEXT NOT NULL);
CREATE INDEX plans_by_state ON plans(state);
CREATE TABLE migrations(
  id TEXT PRIMARY KEY, plan INTEGER NOT NULL REFERENCES plans(id), number INTEGER NOT NULL,
  job TEXT NOT NULL, workers INTEGER NOT NULL, state TEXT NOT NULL, ended INTEGER NOT NULL,
  began_s REAL NOT NULL, ended_s REAL, document TEXT NOT NULL);
CREATE INDEX migrations_by_plan ON migrations(plan, number);
CREATE INDEX migrations_by_end ON migrations(ended, ended_s);
CREATE TABLE steps(
  id INTEGER PRIMARY KEY AUTOINCREMENT, migration TEXT NOT NULL REFERENCES migrations(id),
  step TEXT NOT NULL, attempt INTEGER NOT NULL, began_s REAL NOT NULL, ended_s REAL,
  outcome TEXT NOT NULL);
CREATE INDEX steps_by_migration ON steps(migration);
CREATE TABLE events(
  id INTEGER PRIMARY KEY AUTOINCREMENT, time_s REAL NOT NULL, kind TEXT NOT NULL,
  text TEXT NOT NULL, data TEXT NOT NULL);
CREATE TABLE settings(key TEXT PRIMARY KEY, value TEXT NOT NULL);
)sql",
                                                                       R"sql(
CREATE TABLE audit(
  id INTEGER PRIMARY KEY AUTOINCREMENT, time_s REAL NOT NULL, who TEXT NOT NULL, role TEXT NOT NULL,
  address TEXT NOT NULL, call TEXT NOT NULL, said TEXT NOT NULL, outcome TEXT NOT NULL);
)sql"};

absl::StatusOr<int64_t> read_version(const Database& database) {
  absl::StatusOr<Statement> query = database.prepare("PRAGMA user_version");
  if (!query.ok()) return query.status();
  const absl::StatusOr<bool> row = query->step();
  if (!row.ok()) return row.status();
  return query->integer(0);
}

/// All or nothing: a disk that is full leaves the file as it was.
absl::Status bring_up_to_date(const Database& database, int64_t version) {
  absl::StatusOr<Transaction> transaction = Transaction::begin(database);
  if (!transaction.ok()) return transaction.status();
  for (auto v = static_cast<size_t>(version); v < kUpgrades.size(); ++v) {
    if (absl::Status status = database.run(kUpgrades[v]); !status.ok()) return status;
  }
  const std::string now = fmt::format("PRAGMA user_version={}", Journal::kVersion);
  if (absl::Status status = database.run(now); !status.ok()) return status;
  return transaction->commit();
}

PlanEntry read_plan(const Statement& row, bool with_documents) {
  PlanEntry plan;
  plan.id = row.integer(0);
  plan.made_s = row.real(1);
  if (!row.null(2)) plan.ended_s = row.real(2);
  plan.state = plan_state(row.text(3)).value_or(PlanState::kFailed);
  plan.reason = row.text(4);
  plan.approved_by = row.text(5);
  plan.moves = static_cast<int>(row.integer(6));
  plan.decision = row.text(7);
  plan.plan = row.text(8);
  if (with_documents) plan.snapshot = row.text(9);
  return plan;
}

constexpr std::string_view kPlanColumns =
    "SELECT id, made_s, ended_s, state, reason, approved_by, moves, decision, plan, snapshot "
    "FROM plans ";

template <class T, class Read>
absl::StatusOr<std::vector<T>> rows(absl::StatusOr<Statement>& query, Read read) {
  if (!query.ok()) return query.status();
  std::vector<T> all;
  while (true) {
    const absl::StatusOr<bool> row = query->step();
    if (!row.ok()) return row.status();
    if (!*row) return all;
    all.push_back(read(*query));
  }
}

Event read_event(const Statement& row) {
  return {row.integer(0), row.real(1), row.text(2), row.text(3), row.text(4)};
}

/// Workers that come to rest on another node; of a staged move the second half counts.
int workers_moved(const Migration& migration) {
  return static_cast<int>(
      std::count_if(migration.moves.begin(), migration.moves.end(),
                    [](const WorkerMove& move) { return move.to != kStagingName; }));
}

}  // namespace

std::string_view name_of(PlanState state) { return kPlanStates[static_cast<size_t>(state)]; }
std::optional<PlanState> plan_state(std::string_view name) {
  const auto* found = std::find(kPlanStates.begin(), kPlanStates.end(), name);
  if (found == kPlanStates.end()) return std::nullopt;
  return static_cast<PlanState>(found - kPlanStates.begin());
}

absl::StatusOr<Journal> Journal::open(const std::string& file) {
  absl::StatusOr<Database> database = Database::open(file);
  if (!database.ok()) return database.status();
  const absl::StatusOr<int64_t> version = read_version(*database);
  if (!version.ok()) return version.status();
  if (*version > kVersion) {
    return absl::FailedPreconditionError(
        fmt::format("written by a newer MonkeyTree (version {} of the journal; this program knows "
                    "up to {}); use that program, or another file",
                    *version, kVersion));
  }
  if (*version < kVersion) {
    absl::Status status = bring_up_to_date(*database, *version);
    if (!status.ok()) return status;
  }
  return Journal(std::move(*database));
}

void Journal::set_gate(std::function<bool()> may_write) {
  const std::lock_guard lock(*mutex_);
  may_write_ = std::move(may_write);
}

absl::StatusOr<Statement> Journal::change(std::string_view sql) const {
  if (may_write_ && !may_write_()) return absl::UnavailableError("writes are refused");
  return database_.prepare(sql);
}

absl::StatusOr<Transaction> Journal::begin() const {
  if (may_write_ && !may_write_()) return absl::UnavailableError("writes are refused");
  return Transaction::begin(database_);
}

absl::StatusOr<int64_t> Journal::add_plan(const PlanEntry& plan) {
  const std::lock_guard lock(*mutex_);
  absl::StatusOr<Statement> insert = change(
      "INSERT INTO plans(id, made_s, ended_s, state, reason, approved_by, moves, snapshot, plan, "
      "decision) VALUES(nullif(?,0),?,?,?,?,?,?,?,?,?)");
  if (!insert.ok()) return insert.status();
  insert->bind(plan.id);
  insert->bind(plan.made_s).bind(plan.ended_s).bind(name_of(plan.state)).bind(plan.reason);
  insert->bind(plan.approved_by).bind(int64_t{plan.moves}).bind(plan.snapshot).bind(plan.plan);
  insert->bind(plan.decision);
  if (absl::Status status = insert->run(); !status.ok()) return status;
  return database_.last_row();
}

absl::Status Journal::set_plan_state(int64_t plan, PlanState state, std::string_view reason,
                                     std::optional<double> ended_s) {
  const std::lock_guard lock(*mutex_);
  absl::StatusOr<Statement> update =
      change("UPDATE plans SET state=?, reason=?, ended_s=? WHERE id=?");
  if (!update.ok()) return update.status();
  return update->bind(name_of(state)).bind(reason).bind(ended_s).bind(plan).run();
}

absl::Status Journal::set_approved(int64_t plan, std::string_view by) {
  const std::lock_guard lock(*mutex_);
  absl::StatusOr<Statement> update = change("UPDATE plans SET approved_by=? WHERE id=?");
  if (!update.ok()) return update.status();
  return update->bind(by).bind(plan).run();
}

absl::StatusOr<std::optional<PlanEntry>> Journal::plan(int64_t id) const {
  const std::lock_guard lock(*mutex_);
  absl::StatusOr<Statement> query = database_.prepare(std::string(kPlanColumns) + "WHERE id=?");
  if (!query.ok()) return query.status();
  const absl::StatusOr<bool> row = query->bind(id).step();
  if (!row.ok()) return row.status();
  if (!*row) return std::optional<PlanEntry>();
  return std::optional<PlanEntry>(read_plan(*query, true));
}

absl::StatusOr<std::vector<PlanEntry>> Journal::plans(std::optional<PlanState> state,
                                                      int limit) const {
  const std::lock_guard lock(*mutex_);
  absl::StatusOr<Statement> query = database_.prepare(
      std::string(kPlanColumns) + "WHERE ?1 IS NULL OR state=?1 ORDER BY id DESC LIMIT ?2");
  if (!query.ok()) return query.status();
  if (state) {
    query->bind(name_of(*state));
  } else {
    query->bind_null();
  }
  query->bind(int64_t{limit});
  return rows<PlanEntry>(query, [](const Statement& row) { return read_plan(row, false); });
}

absl::StatusOr<std::map<PlanState, int64_t>> Journal::count_plans() const {
  const std::lock_guard lock(*mutex_);
  absl::StatusOr<Statement> query =
      database_.prepare("SELECT state, count(*) FROM plans GROUP BY state");
  if (!query.ok()) return query.status();
  std::map<PlanState, int64_t> counts;
  while (true) {
    const absl::StatusOr<bool> row = query->step();
    if (!row.ok()) return row.status();
    if (!*row) return counts;
    if (const std::optional<PlanState> state = plan_state(query->text(0))) {
      counts[*state] = query->integer(1);
    }
  }
}

absl::Status Journal::add_migrations(const std::vector<Migration>& migrations, double now_s) {
  for (const Migration& migration : migrations) {
    if (absl::Status status = shared(migration); !status.ok()) return status;
  }
  const std::lock_guard lock(*mutex_);
  absl::StatusOr<Transaction> transaction = begin();
  if (!transaction.ok()) return transaction.status();
  recent_.reset();
  int64_t number = 0;
  for (const Migration& migration : migrations) {
    absl::Status status = insert_migration(migration, number++, now_s);
    if (!status.ok()) return status;
  }
  return transaction->commit();
}

absl::Status Journal::insert_migration(const Migration& migration, int64_t number,
                                       double now_s) const {
  absl::StatusOr<Statement> insert = database_.prepare(
      "INSERT INTO migrations(id, plan, number, job, workers, state, ended, began_s, document) "
      "VALUES(?,?,?,?,?,?,0,?,?)");
  if (!insert.ok()) return insert.status();
  insert->bind(migration.id).bind(migration.plan);
  insert->bind(int64_t{migration.round} * 1'000'000 + number).bind(migration.job);
  insert->bind(int64_t{workers_moved(migration)}).bind(name_of(migration.state)).bind(now_s);
  return insert->bind(write_migration(migration)).run();
}

absl::Status Journal::write_state(const Migration& migration, double now_s) {
  recent_.reset();
  absl::StatusOr<Statement> update =
      database_.prepare("UPDATE migrations SET state=?, ended=?, ended_s=?, document=? WHERE id=?");
  if (!update.ok()) return update.status();
  const bool is_over = ended(migration);
  update->bind(name_of(migration.state)).bind(int64_t{is_over});
  update->bind(is_over ? std::optional(now_s) : std::nullopt).bind(write_migration(migration));
  return update->bind(migration.id).run();
}

absl::StatusOr<int> Journal::begin_step(const Migration& migration, Step step, double now_s) {
  if (absl::Status status = shared(migration); !status.ok()) return status;
  const std::lock_guard lock(*mutex_);
  absl::StatusOr<Transaction> transaction = begin();
  if (!transaction.ok()) return transaction.status();
  // With the intent goes where the migration is heading: a step back that was forgotten would be
  // followed by steps forward.
  if (absl::Status status = write_state(migration, now_s); !status.ok()) return status;
  absl::StatusOr<Statement> count =
      database_.prepare("SELECT 1 + count(*) FROM steps WHERE migration=? AND step=?");
  if (!count.ok()) return count.status();
  const absl::StatusOr<bool> row = count->bind(migration.id).bind(name_of(step)).step();
  if (!row.ok()) return row.status();
  const int64_t attempt = count->integer(0);
  absl::StatusOr<Statement> insert = database_.prepare(
      "INSERT INTO steps(migration, step, attempt, began_s, outcome) VALUES(?,?,?,?,'')");
  if (!insert.ok()) return insert.status();
  insert->bind(migration.id).bind(name_of(step)).bind(attempt).bind(now_s);
  if (absl::Status status = insert->run(); !status.ok()) return status;
  if (absl::Status status = transaction->commit(); !status.ok()) return status;
  return static_cast<int>(attempt);
}

absl::Status Journal::end_step(const Migration& migration, Step step, int attempt,
                               const absl::Status& outcome, double now_s) {
  if (absl::Status status = shared(migration); !status.ok()) return status;
  const std::lock_guard lock(*mutex_);
  absl::StatusOr<Transaction> transaction = begin();
  if (!transaction.ok()) return transaction.status();
  absl::StatusOr<Statement> tried = database_.prepare(
      "UPDATE steps SET ended_s=?, outcome=? WHERE migration=? AND step=? AND attempt=?");
  if (!tried.ok()) return tried.status();
  tried->bind(now_s).bind(text_of(outcome)).bind(migration.id).bind(name_of(step));
  if (absl::Status status = tried->bind(int64_t{attempt}).run(); !status.ok()) return status;
  if (absl::Status status = write_state(migration, now_s); !status.ok()) return status;
  return transaction->commit();
}

absl::StatusOr<std::vector<Migration>> Journal::read_migrations(Statement query) const {
  std::vector<Migration> all;
  while (true) {
    const absl::StatusOr<bool> row = query.step();
    if (!row.ok()) return row.status();
    if (!*row) return all;
    std::optional<Migration> migration = read_migration(query.text(0));
    if (!migration) {
      return absl::DataLossError(
          fmt::format("migration {} in the journal cannot be read", query.text(1)));
    }
    all.push_back(std::move(*migration));
  }
}

absl::StatusOr<std::vector<Migration>> Journal::unfinished() const {
  const std::lock_guard lock(*mutex_);
  absl::StatusOr<Statement> query =
      database_.prepare("SELECT document, id FROM migrations WHERE ended=0 ORDER BY plan, number");
  if (!query.ok()) return query.status();
  return read_migrations(std::move(*query));
}

absl::StatusOr<std::vector<Migration>> Journal::migrations(int64_t plan) const {
  const std::lock_guard lock(*mutex_);
  absl::StatusOr<Statement> query =
      database_.prepare("SELECT document, id FROM migrations WHERE plan=? ORDER BY number");
  if (!query.ok()) return query.status();
  query->bind(plan);
  return read_migrations(std::move(*query));
}

absl::StatusOr<std::vector<StepEntry>> Journal::steps(int64_t plan) const {
  const std::lock_guard lock(*mutex_);
  absl::StatusOr<Statement> query = database_.prepare(
      "SELECT migration, step, attempt, steps.began_s, steps.ended_s, outcome FROM steps "
      "JOIN migrations ON migration=migrations.id WHERE plan=? ORDER BY steps.id");
  if (!query.ok()) return query.status();
  query->bind(plan);
  return rows<StepEntry>(query, [](const Statement& row) {
    StepEntry entry;
    entry.migration = row.text(0);
    entry.step = migration_step(row.text(1)).value_or(Step::kHold);
    entry.attempt = static_cast<int>(row.integer(2));
    entry.began_s = row.real(3);
    if (!row.null(4)) entry.ended_s = row.real(4);
    entry.outcome = row.text(5);
    return entry;
  });
}

absl::StatusOr<std::vector<Journal::PastMove>> Journal::moves_since(double since_s) const {
  const std::lock_guard lock(*mutex_);
  if (!recent_ || since_s < recent_->since_s) {
    absl::StatusOr<std::vector<PastMove>> moves = read_moves(since_s);
    if (!moves.ok()) return moves.status();
    recent_ = {since_s, *std::move(moves)};
  }
  recent_->since_s = since_s;
  std::erase_if(recent_->moves,
                [&](const PastMove& move) { return !move.under_way && move.ended_s < since_s; });
  return recent_->moves;
}

absl::StatusOr<std::vector<Journal::PastMove>> Journal::read_moves(double since_s) const {
  // A staged move is counted where its second half is: both belong to one plan.
  absl::StatusOr<Statement> query = database_.prepare(
      "SELECT document, id, ifnull(ended_s, began_s), ended=0 OR ended_s>=?1, ended=0 FROM "
      "migrations WHERE "
      "plan IN (SELECT plan FROM migrations WHERE ended=0 OR (state='released' AND ended_s>=?1)) "
      "AND (ended=0 OR state='released') ORDER BY plan, number");
  if (!query.ok()) return query.status();
  query->bind(since_s);
  std::vector<PastMove> moves;
  std::map<WorkerName, std::string> unloaded;
  while (true) {
    const absl::StatusOr<bool> row = query->step();
    if (!row.ok()) return row.status();
    if (!*row) return moves;
    const std::optional<Migration> migration = read_migration(query->text(0));
    if (!migration) {
      return absl::DataLossError(
          fmt::format("migration {} in the journal cannot be read", query->text(1)));
    }
    for (const WorkerMove& move : migration->moves) {
      if (move.to == kStagingName) {
        unloaded[move.worker] = move.from;
        continue;
      }
      const std::string from =
          move.from == kStagingName ? std::exchange(unloaded[move.worker], "") : move.from;
      if (query->integer(3) != 0) {
        moves.push_back({move.worker, from, move.to, query->real(2), query->integer(4) != 0});
      }
    }
  }
}

absl::Status Journal::add_event(double time_s, std::string_view kind, std::string_view text,
                                std::string_view data) {
  const std::lock_guard lock(*mutex_);
  absl::StatusOr<Statement> insert =
      change("INSERT INTO events(time_s, kind, text, data) VALUES(?,?,?,?)");
  if (!insert.ok()) return insert.status();
  return insert->bind(time_s).bind(kind).bind(text).bind(data).run();
}

absl::StatusOr<std::vector<Event>> Journal::events_after(int64_t id, int limit) const {
  const std::lock_guard lock(*mutex_);
  absl::StatusOr<Statement> query = database_.prepare(
      "SELECT id, time_s, kind, text, data FROM events WHERE id>? ORDER BY id LIMIT ?");
  if (!query.ok()) return query.status();
  query->bind(id).bind(int64_t{limit});
  return rows<Event>(query, read_event);
}

absl::StatusOr<std::vector<Event>> Journal::newest_events(int limit) const {
  const std::lock_guard lock(*mutex_);
  absl::StatusOr<Statement> query = database_.prepare(
      "SELECT id, time_s, kind, text, data FROM (SELECT * FROM events ORDER BY id DESC LIMIT ?) "
      "ORDER BY id");
  if (!query.ok()) return query.status();
  query->bind(int64_t{limit});
  return rows<Event>(query, read_event);
}

absl::Status Journal::set(std::string_view key, std::string_view value) {
  const std::lock_guard lock(*mutex_);
  absl::StatusOr<Statement> upsert =
      change("INSERT INTO settings VALUES(?1,?2) ON CONFLICT(key) DO UPDATE SET value=?2");
  if (!upsert.ok()) return upsert.status();
  return upsert->bind(key).bind(value).run();
}

absl::StatusOr<std::optional<std::string>> Journal::get(std::string_view key) const {
  const std::lock_guard lock(*mutex_);
  absl::StatusOr<Statement> query = database_.prepare("SELECT value FROM settings WHERE key=?");
  if (!query.ok()) return query.status();
  const absl::StatusOr<bool> row = query->bind(key).step();
  if (!row.ok()) return row.status();
  return *row ? std::optional<std::string>(query->text(0)) : std::nullopt;
}

absl::Status Journal::prune(int keep, int events) {
  const std::lock_guard lock(*mutex_);
  absl::StatusOr<Statement> snapshots = change(
      "UPDATE plans SET snapshot='' WHERE snapshot<>'' AND state<>'running' AND state<>'waiting' "
      "AND id <= (SELECT ifnull(max(id), 0) FROM plans) - ?");
  if (!snapshots.ok()) return snapshots.status();
  if (absl::Status status = snapshots->bind(int64_t{keep}).run(); !status.ok()) return status;
  absl::StatusOr<Statement> old =
      change("DELETE FROM events WHERE id <= (SELECT ifnull(max(id), 0) FROM events) - ?");
  if (!old.ok()) return old.status();
  if (absl::Status status = old->bind(int64_t{events}).run(); !status.ok()) return status;
  absl::StatusOr<Statement> refused =
      change("DELETE FROM audit WHERE who='' AND id <= (SELECT ifnull(max(id), 0) FROM audit) - ?");
  if (!refused.ok()) return refused.status();
  return refused->bind(int64_t{events}).run();
}

absl::StatusOr<int64_t> Journal::add_audit(const AuditEntry& entry) {
  const std::lock_guard lock(*mutex_);
  absl::StatusOr<Statement> insert = change(
      "INSERT INTO audit(time_s, who, role, address, call, said, outcome) VALUES(?,?,?,?,?,?,?)");
  if (!insert.ok()) return insert.status();
  insert->bind(entry.time_s).bind(entry.who).bind(entry.role).bind(entry.from);
  insert->bind(entry.call).bind(entry.said).bind(entry.outcome);
  if (absl::Status status = insert->run(); !status.ok()) return status;
  return database_.last_row();
}

absl::Status Journal::set_audit_outcome(int64_t id, std::string_view outcome) {
  const std::lock_guard lock(*mutex_);
  absl::StatusOr<Statement> update = change("UPDATE audit SET outcome=? WHERE id=?");
  if (!update.ok()) return update.status();
  return update->bind(outcome).bind(id).run();
}

absl::StatusOr<std::vector<AuditEntry>> Journal::newest_audit(int limit) const {
  const std::lock_guard lock(*mutex_);
  absl::StatusOr<Statement> query = database_.prepare(
      "SELECT id, time_s, who, role, address, call, said, outcome FROM "
      "(SELECT * FROM audit ORDER BY id DESC LIMIT ?) ORDER BY id");
  if (!query.ok()) return query.status();
  query->bind(int64_t{limit});
  return rows<AuditEntry>(query, [](const Statement& row) {
    return AuditEntry{row.integer(0), row.real(1), row.text(2), row.text(3),
                      row.text(4),    row.text(5), row.text(6), row.text(7)};
  });
}

}  // namespace monkeytree
