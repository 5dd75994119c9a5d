#include "cli/common.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>

#include "base/file.h"
#include "base/json.h"
#include "cluster/snapshot_json.h"
#include "inventory/uplinks.h"

namespace monkeytree {
namespace {

/// Characters on a terminal: UTF-8 code points.
size_t width(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

std::string spaces(size_t count) { return std::string(count, ' '); }

/// Changes of a letter that make one word of the other; swapping two neighbours is one.
size_t distance(std::string_view from, std::string_view to) {
  std::vector<std::vector<size_t>> rows(from.size() + 1, std::vector<size_t>(to.size() + 1));
  for (size_t i = 0; i <= from.size(); ++i) {
    for (size_t j = 0; j <= to.size(); ++j) {
      if (i == 0 || j == 0) {
        rows[i][j] = i + j;
        continue;
      }
      const size_t change = from[i - 1] == to[j - 1] ? 0 : 1;
      rows[i][j] = std::min({rows[i - 1][j] + 1, rows[i][j - 1] + 1, rows[i - 1][j - 1] + change});
      const bool swapped = i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1];
      if (swapped) rows[i][j] = std::min(rows[i][j], rows[i - 2][j - 2] + 1);
    }
  }
  return rows[from.size()][to.size()];
}

/// What is said where a command is missing, or is none that `command` knows. `path` is what leads
/// to it: " import", or "".
std::string unknown_command(const std::string& path, const CLI::App& command,
                            const std::vector<const CLI::App*>& known) {
  constexpr size_t kLongestTypo = 40;
  constexpr size_t kMostChanges = 3;
  const std::vector<std::string> left = command.remaining();
  const auto named = std::find_if(left.begin(), left.end(),
                                  [](const std::string& word) { return !word.starts_with("-"); });
  if (named == left.end()) {
    std::string names;
    for (const CLI::App* sub : known) names += " " + sub->get_name();
    return "no command, expected one of:" + names;
  }
  const auto full = [&](const std::string& word) { return quote((path + " " + word).substr(1)); };
  std::string message = "unknown command " + full(*named);
  const std::string_view typed = std::string_view(*named).substr(0, kLongestTypo);
  std::string nearest;
  size_t changes = std::min(kMostChanges, typed.size() / 2) + 1;
  for (const CLI::App* sub : known) {
    const size_t needed = distance(typed, sub->get_name());
    if (needed >= changes) continue;
    changes = needed;
    nearest = sub->get_name();
  }
  return nearest.empty() ? message : message + ", did you mean " + full(nearest) + "?";
}

bool is_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789./") == std::string_view::npos;
}

}  // namespace

CLI::App& add_command(CLI::App& app, const std::string& name, const std::string& description,
                      const std::string& examples) {
  CLI::App* command = app.add_subcommand(name, description);
  command->footer(examples);
  return *command;
}

void add_snapshot_argument(CLI::App& command, std::string& file) {
  command.add_option("SNAPSHOT", file, "a snapshot file; - is standard input")
      ->required()
      ->type_name("");
}

void add_uplinks_option(CLI::App& command, std::optional<int>& uplinks) {
  command.add_option("--uplinks", uplinks, "bound of every rack, in place of the file's")
      ->check(CLI::Validator(
          [](const std::string& value) {
            return parse_uplink_count(value) ? "" : uplinks_fault(value, UplinksForm::kNumber);
          },
          ""))
      ->type_name("N");
}

void refuse_empty_values(CLI::App& app) {
  for (CLI::Option* option : app.get_options()) {
    if (option->get_items_expected_max() == 0) continue;
    const std::string type = option->get_type_name();
    const std::string fault = "empty, expected " + (type.empty() ? "a file name" : type);
    option->check(CLI::Validator(
        [fault](const std::string& value) { return value.empty() ? fault : std::string(); }, ""));
  }
  for (CLI::App* command : app.get_subcommands({})) refuse_empty_values(*command);
}

std::string usage_error(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App* command = &app;
  std::string name = app.get_name();
  while (!command->get_subcommands().empty()) {
    command = command->get_subcommands().back();
    name += " " + command->get_name();
  }
  const std::vector<const CLI::App*> subcommands = command->get_subcommands({});
  std::string message = error.what();
  if (!subcommands.empty() && error.get_name() == "RequiredError") {
    message = unknown_command(name.substr(app.get_name().size()), *command, subcommands);
  }
  return fmt::format("monkeytree: {}\nmonkeytree: see {} --help\n", printable(message), name);
}

std::optional<std::string> read_input(const std::string& file) {
  absl::StatusOr<std::string> text = read_file(file);
  if (text.ok()) return *std::move(text);
  const absl::string_view message = text.status().message();
  Diagnostics diagnostics;
  diagnostics.error(printable(file), 0, "", std::string(message.data(), message.size()));
  print_findings(diagnostics);
  return std::nullopt;
}

std::optional<SnapshotInput> read_snapshot(const std::string& file, std::optional<int> uplinks) {
  std::optional<std::string> text = read_input(file);
  if (!text) return std::nullopt;
  Diagnostics diagnostics;
  std::optional<Snapshot> snapshot = parse_snapshot(*text, printable(file), diagnostics);
  print_findings(diagnostics);
  if (!snapshot) return std::nullopt;
  if (uplinks) snapshot->set_uplinks(*uplinks);
  return SnapshotInput{*std::move(text), *std::move(snapshot)};
}

void print_findings(const Diagnostics& diagnostics) {
  const std::string text = diagnostics.text();
  std::fwrite(text.data(), 1, text.size(), stderr);
}

void print_error(std::string_view message) {
  const std::string text = fmt::format("monkeytree: {}\n", message);
  std::fwrite(text.data(), 1, text.size(), stderr);
}

int print_result(std::string_view text, int exit_code) {
  const absl::Status status = write_stdout(text);
  if (status.ok() || absl::IsCancelled(status)) return exit_code;
  print_error(std::string(status.message()));
  return kExitFailed;
}

int write_result(const std::string& file, std::string_view text, int exit_code) {
  if (file.empty() || file == "-") return print_result(text, exit_code);
  const absl::Status status = write_file(file, text);
  if (status.ok()) return exit_code;
  print_error(fmt::format("{}: {}", printable(file), std::string(status.message())));
  return kExitFailed;
}

bool colors_wanted() {
  const char* no_color = std::getenv("NO_COLOR");
  return isatty(STDOUT_FILENO) == 1 && (!no_color || *no_color == '\0');
}

std::string Paint::wrap(std::string_view code, std::string_view text) const {
  if (!colors_) return std::string(text);
  return fmt::format("\x1b[{}m{}\x1b[0m", code, text);
}

std::string Paint::hue(size_t number, std::string_view text) const {
  constexpr std::array<std::string_view, 12> kHues = {
      "38;5;39",  "38;5;208", "38;5;41",  "38;5;170", "38;5;220", "38;5;45",
      "38;5;203", "38;5;149", "38;5;105", "38;5;180", "38;5;80",  "38;5;211"};
  return wrap(kHues[number % kHues.size()], text);
}

std::string fit(std::string_view text, size_t columns) {
  std::string safe = printable(text);
  if (width(safe) <= columns) return safe;
  const size_t kept = columns < 3 ? columns : columns - 2;
  size_t end = 0;
  for (size_t characters = 0; end < safe.size(); ++end) {
    const bool starts = (static_cast<unsigned char>(safe[end]) & 0xC0) != 0x80;
    if (starts && characters++ == kept) break;
  }
  safe.resize(end);
  return columns < 3 ? safe : safe + "..";
}

std::string Table::text(const Paint& paint) const {
  const size_t columns = rows_.front().size();
  std::vector<size_t> widths(columns, 0);
  std::vector<bool> numeric(columns, rows_.size() > 1);
  for (size_t r = 0; r < rows_.size(); ++r) {
    for (size_t c = 0; c < columns; ++c) {
      widths[c] = std::max(widths[c], width(rows_[r][c]));
      if (r > 0 && !is_number(rows_[r][c])) numeric[c] = false;
    }
  }
  const auto total = [&] {
    size_t sum = 2 * (columns - 1);
    for (size_t w : widths) sum += w;
    return sum;
  };
  while (total() > kColumns) {  // the widest column gives way
    const auto widest = std::max_element(widths.begin(), widths.end());
    if (*widest <= 3) break;
    --*widest;
  }
  std::string out;
  for (size_t r = 0; r < rows_.size(); ++r) {
    std::string line;
    for (size_t c = 0; c < columns; ++c) {
      const std::string cell = fit(rows_[r][c], widths[c]);
      const std::string pad = spaces(widths[c] - width(cell));
      if (c > 0) line += "  ";
      line += numeric[c] ? pad + cell : cell + pad;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += (r == 0 ? paint.bold(line) : line) + "\n";
  }
  return out;
}

sigset_t block_end_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&set, number);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  return set;
}

}  // namespace monkeytree
