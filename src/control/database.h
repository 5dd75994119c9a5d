#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

struct sqlite3;
struct sqlite3_stmt;

namespace monkeytree {

/// A statement with its values bound in order; stepped through row by row.
class Statement {
 public:
  Statement& bind(int64_t value);
  Statement& bind(double value);
  Statement& bind(std::string_view value);
  Statement& bind_null();
  template <class T>
  Statement& bind(const std::optional<T>& value) {
    return value ? bind(*value) : bind_null();
  }

  /// True while there is a row to look at.
  absl::StatusOr<bool> step();
  /// For statements without rows.
  absl::Status run();

  int64_t integer(int column) const;
  double real(int column) const;
  std::string text(int column) const;
  bool null(int column) const;

 private:
  friend class Database;
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const;
  };
  Statement(sqlite3* database, sqlite3_stmt* statement)
      : database_(database), statement_(statement) {}
  void note(int code);

  sqlite3* database_;
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
  int bound_ = 0;
  int fault_ = 0;  ///< the first code of a bind that failed
};

/// An SQLite file, written so that what was committed survives a power cut (WAL,
/// `synchronous=FULL`). One thread at a time.
///
/// Errors: ResourceExhausted (disk full), Unavailable (locked by another program, or I/O),
/// DataLoss (damaged file), Internal.
class Database {
 public:
  /// Makes the file where there is none. A second controller on the same file is refused.
  static absl::StatusOr<Database> open(const std::string& file);

  absl::StatusOr<Statement> prepare(std::string_view sql) const;
  absl::Status run(std::string_view sql) const;
  int64_t last_row() const;  ///< id of the row last inserted

 private:
  struct Close {
    void operator()(sqlite3* database) const;
  };
  explicit Database(sqlite3* database) : database_(database) {}

  std::unique_ptr<sqlite3, Close> database_;
};

/// BEGIN IMMEDIATE … COMMIT; rolled back where commit() is not reached.
class Transaction {
 public:
  static absl::StatusOr<Transaction> begin(const Database& database);
  Transaction(Transaction&& other) noexcept : database_(other.database_) {
    other.database_ = nullptr;
  }
  Transaction& operator=(Transaction&&) = delete;
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  ~Transaction();

  absl::Status commit();

 private:
  explicit Transaction(const Database& database) : database_(&database) {}
  const Database* database_;
};

}  // namespace monkeytree
