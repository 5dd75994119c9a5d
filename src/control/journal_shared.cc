#include <utility>

#include "control/journal.h"

/// What a controller takes over from another one.
namespace monkeytree {

void Journal::share_migrations(std::function<absl::Status(const Migration&)> put) {
  const std::lock_guard lock(*mutex_);
  share_ = std::move(put);
}

absl::StatusOr<int64_t> Journal::last_plan() const {
  const std::lock_guard lock(*mutex_);
  absl::StatusOr<Statement> query =
      database_.prepare("SELECT ifnull(max(seq), 0) FROM sqlite_sequence WHERE name='plans'");
  if (!query.ok()) return query.status();
  const absl::StatusOr<bool> row = query->step();
  if (!row.ok()) return row.status();
  return query->integer(0);
}

absl::Status Journal::raise_plan_number(int64_t last) {
  const absl::StatusOr<int64_t> now = last_plan();
  if (!now.ok() || *now >= last) return now.status();
  const std::lock_guard lock(*mutex_);
  absl::StatusOr<Transaction> transaction = begin();
  if (!transaction.ok()) return transaction.status();
  absl::StatusOr<Statement> remove =
      database_.prepare("DELETE FROM sqlite_sequence WHERE name='plans'");
  if (!remove.ok()) return remove.status();
  if (absl::Status status = remove->run(); !status.ok()) return status;
  absl::StatusOr<Statement> insert =
      database_.prepare("INSERT INTO sqlite_sequence(name, seq) VALUES('plans', ?)");
  if (!insert.ok()) return insert.status();
  if (absl::Status status = insert->bind(last).run(); !status.ok()) return status;
  return transaction->commit();
}

absl::StatusOr<int64_t> Journal::oldest_plan_since(double since_s) const {
  const std::lock_guard lock(*mutex_);
  absl::StatusOr<Statement> query = database_.prepare(
      "SELECT ifnull(min(id), 0) FROM plans WHERE ended_s IS NULL OR ended_s >= ?");
  if (!query.ok()) return query.status();
  const absl::StatusOr<bool> row = query->bind(since_s).step();
  if (!row.ok()) return row.status();
  return query->integer(0);
}

absl::Status Journal::adopt(const PlanEntry& plan, const std::vector<Migration>& migrations,
                            double ended_s) {
  const std::lock_guard lock(*mutex_);
  absl::StatusOr<Transaction> transaction = begin();
  if (!transaction.ok()) return transaction.status();
  recent_.reset();
  absl::StatusOr<Statement> upsert = database_.prepare(
      "INSERT INTO plans(id, made_s, ended_s, state, reason, approved_by, moves, snapshot, plan, "
      "decision) VALUES(?1,?2,?3,?4,?5,?6,?7,'',?8,?9) ON CONFLICT(id) DO UPDATE SET made_s=?2, "
      "ended_s=?3, state=?4, reason=?5, approved_by=?6, moves=?7, plan=?8, decision=?9");
  if (!upsert.ok()) return upsert.status();
  upsert->bind(plan.id).bind(plan.made_s).bind(plan.ended_s).bind(name_of(plan.state));
  upsert->bind(plan.reason).bind(plan.approved_by).bind(int64_t{plan.moves}).bind(plan.plan);
  if (absl::Status status = upsert->bind(plan.decision).run(); !status.ok()) return status;
  int64_t number = 0;
  for (const Migration& migration : migrations) {
    absl::StatusOr<Statement> known = database_.prepare("SELECT 1 FROM migrations WHERE id=?");
    if (!known.ok()) return known.status();
    const absl::StatusOr<bool> there = known->bind(migration.id).step();
    if (!there.ok()) return there.status();
    if (!*there) {
      absl::Status status = insert_migration(migration, number, plan.made_s);
      if (!status.ok()) return status;
    }
    ++number;
    if (absl::Status status = write_state(migration, ended_s); !status.ok()) return status;
  }
  return transaction->commit();
}

}  // namespace monkeytree
