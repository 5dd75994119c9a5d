#pragma once

#include <signal.h>

#include <CLI/CLI.hpp>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/counted.h"
#include "base/diagnostics.h"
#include "cluster/snapshot.h"

/// What every subcommand shares: reading, printing, exit codes, and the looks of text.
namespace monkeytree {

// Exit codes, part of the contract in docs/formats.md.
inline constexpr int kExitDone = 0;
inline constexpr int kExitFailed = 1;      ///< the machine's fault: disk full, no memory
inline constexpr int kExitBadInput = 2;    ///< bad usage or bad input
inline constexpr int kExitInfeasible = 3;  ///< no placement meets the bounds
inline constexpr int kExitRefuted = 3;     ///< `check` found the plan wrong
inline constexpr int kExitLimit = 4;       ///< a limit was hit; the best so far is printed

/// Width that text output keeps to.
inline constexpr size_t kColumns = 80;

/// Adds a subcommand: its one-line description, and examples that its --help ends with.
CLI::App& add_command(CLI::App& app, const std::string& name, const std::string& description,
                      const std::string& examples);

/// Adds the positional SNAPSHOT.
void add_snapshot_argument(CLI::App& command, std::string& file);

/// Adds `--uplinks N`.
void add_uplinks_option(CLI::App& command, std::optional<int>& uplinks);

/// Has every option and positional of `app` and its subcommands refuse an empty value, which would
/// otherwise count as not given.
void refuse_empty_values(CLI::App& app);

/// What a parse that failed says on standard error, two lines: what is wrong, a command that is
/// not known by its name and the nearest one's, and where to read more.
std::string usage_error(const CLI::App& app, const CLI::ParseError& error);

/// Text of a file, or of standard input for "-". nullopt after a message on standard error; the
/// exit code is then kExitBadInput.
std::optional<std::string> read_input(const std::string& file);

/// A snapshot and the text it was read from.
struct SnapshotInput {
  std::string text;
  Snapshot snapshot;
};

/// Reads a snapshot, with `uplinks` in place of every rack's own where given. Prints what the
/// reader has to say; nullopt after an error (kExitBadInput).
std::optional<SnapshotInput> read_snapshot(const std::string& file, std::optional<int> uplinks);

/// Prints findings on standard error.
void print_findings(const Diagnostics& diagnostics);

/// Prints `monkeytree: message` on standard error.
void print_error(std::string_view message);

/// Writes a result to standard output and gives `exit_code` back; kExitFailed, after a message,
/// when it cannot be written. A pipe closed by its reader is a clean end.
int print_result(std::string_view text, int exit_code);

/// print_result() where `file` is empty or "-"; otherwise the file holds all of the text or, after
/// a failure, what it held before.
int write_result(const std::string& file, std::string_view text, int exit_code);

/// True where standard output is a terminal and NO_COLOR is unset or empty.
bool colors_wanted();

/// SIGTERM, SIGINT and SIGHUP, blocked from here on for this thread and those it starts: one of
/// them waits for them.
sigset_t block_end_signals();

/// How text is set off on a terminal; all plain where colours are not wanted.
class Paint {
 public:
  explicit Paint(bool colors) : colors_(colors) {}
  std::string bold(std::string_view text) const { return wrap("1", text); }
  std::string bad(std::string_view text) const { return wrap("1;31", text); }
  std::string good(std::string_view text) const { return wrap("32", text); }
  std::string faint(std::string_view text) const { return wrap("2", text); }
  /// One of twelve colours, for telling jobs apart.
  std::string hue(size_t number, std::string_view text) const;

 private:
  std::string wrap(std::string_view code, std::string_view text) const;
  bool colors_;
};

/// `text` made safe for a terminal, and cut with ".." to at most `columns` characters.
std::string fit(std::string_view text, size_t columns);

/// Columns set apart by two spaces, each as wide as its widest cell; the first row is the heading.
/// Columns that hold only numbers stand right. Cells are cut where rows would pass kColumns.
class Table {
 public:
  explicit Table(std::vector<std::string> heading) { rows_.push_back(std::move(heading)); }
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  bool empty() const { return rows_.size() == 1; }
  std::string text(const Paint& paint) const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace monkeytree
