#include "control/database.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sqlite3.h>
#include <unistd.h>

#include <utility>

namespace monkeytree {
namespace {

absl::Status fault(sqlite3* database, int code) {
  const std::string message =
      fmt::format("{} ({})", database ? sqlite3_errmsg(database) : sqlite3_errstr(code), code);
  switch (code & 0xff) {
    case SQLITE_FULL:
      return absl::ResourceExhaustedError(message);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_IOERR:
    case SQLITE_CANTOPEN:
    case SQLITE_READONLY:
    case SQLITE_PERM:
      return absl::UnavailableError(message);
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return absl::DataLossError(message);
    default:
      return absl::InternalError(message);
  }
}

}  // namespace

void Statement::Finalize::operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
void Database::Close::operator()(sqlite3* database) const { sqlite3_close_v2(database); }

void Statement::note(int code) {
  if (code != SQLITE_OK && fault_ == SQLITE_OK) fault_ = code;
}
Statement& Statement::bind(int64_t value) {
  note(sqlite3_bind_int64(statement_.get(), ++bound_, value));
  return *this;
}
Statement& Statement::bind(double value) {
  note(sqlite3_bind_double(statement_.get(), ++bound_, value));
  return *this;
}
Statement& Statement::bind(std::string_view value) {
  note(sqlite3_bind_text64(statement_.get(), ++bound_, value.data(), value.size(), SQLITE_TRANSIENT,
                           SQLITE_UTF8));
  return *this;
}
Statement& Statement::bind_null() {
  note(sqlite3_bind_null(statement_.get(), ++bound_));
  return *this;
}

absl::StatusOr<bool> Statement::step() {
  if (fault_ != SQLITE_OK) return fault(database_, fault_);
  const int code = sqlite3_step(statement_.get());
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  return fault(database_, code);
}
absl::Status Statement::run() { return step().status(); }

int64_t Statement::integer(int column) const {
  return sqlite3_column_int64(statement_.get(), column);
}
double Statement::real(int column) const { return sqlite3_column_double(statement_.get(), column); }
std::string Statement::text(int column) const {
  const auto* bytes = sqlite3_column_text(statement_.get(), column);
  const int size = sqlite3_column_bytes(statement_.get(), column);
  return bytes ? std::string(reinterpret_cast<const char*>(bytes), static_cast<size_t>(size))
               : std::string();
}
bool Statement::null(int column) const {
  return sqlite3_column_type(statement_.get(), column) == SQLITE_NULL;
}

absl::StatusOr<Database> Database::open(const std::string& file) {
  // Made here, because SQLite would let everybody read it: it names users and commands.
  const int made = ::open(file.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0640);
  if (made >= 0) close(made);
  sqlite3* raw = nullptr;
  const int code =
      sqlite3_open_v2(file.c_str(), &raw,
                      SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, nullptr);
  Database database(raw);
  if (code != SQLITE_OK) return fault(raw, code);
  // Whoever has the file open keeps it locked: two controllers would each think it is theirs.
  for (const char* sql :
       {"PRAGMA locking_mode=EXCLUSIVE", "PRAGMA journal_mode=WAL", "PRAGMA synchronous=FULL",
        "PRAGMA foreign_keys=ON", "BEGIN IMMEDIATE", "COMMIT"}) {
    const absl::Status status = database.run(sql);
    if (absl::IsUnavailable(status) && (sqlite3_errcode(raw) & 0xff) == SQLITE_BUSY) {
      return absl::UnavailableError("another program has the file open; only one controller may");
    }
    if (!status.ok()) return status;
  }
  return database;
}

absl::StatusOr<Statement> Database::prepare(std::string_view sql) const {
  sqlite3_stmt* raw = nullptr;
  const int code =
      sqlite3_prepare_v2(database_.get(), sql.data(), static_cast<int>(sql.size()), &raw, nullptr);
  if (code != SQLITE_OK) return fault(database_.get(), code);
  return Statement(database_.get(), raw);
}

absl::Status Database::run(std::string_view sql) const {
  const int code =
      sqlite3_exec(database_.get(), std::string(sql).c_str(), nullptr, nullptr, nullptr);
  return code == SQLITE_OK ? absl::OkStatus() : fault(database_.get(), code);
}

int64_t Database::last_row() const { return sqlite3_last_insert_rowid(database_.get()); }

absl::StatusOr<Transaction> Transaction::begin(const Database& database) {
  if (absl::Status status = database.run("BEGIN IMMEDIATE"); !status.ok()) return status;
  return Transaction(database);
}
Transaction::~Transaction() {
  if (database_) database_->run("ROLLBACK").IgnoreError();
}
absl::Status Transaction::commit() {
  absl::Status status = database_->run("COMMIT");
  if (status.ok()) database_ = nullptr;
  return status;
}

}  // namespace monkeytree
