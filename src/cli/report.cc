#include "cli/report.h"

#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/file.h"
#include "base/json.h"
#include "cli/common.h"
#include "inventory/import.h"
#include "inventory/uplinks.h"
#include "study/history_page.h"
#include "study/history_replay.h"
#include "workload/sacct.h"

namespace monkeytree {
namespace {

constexpr uint64_t kMaxLogBytes = uint64_t{2} << 30;
constexpr double kMaxPauseS = 86400;

constexpr const char* kExamples =
    "Examples:\n"
    "  sacct -a -X -P -S 2024-03-01 -E 2024-04-01 \\\n"
    "      -o JobID,Submit,Start,End,State,AllocTRES,NodeList,Comment > march.txt\n"
    "  monkeytree report --sacct march.txt --topology /etc/slurm/topology.conf \\\n"
    "      --uplinks 16 -o march.html\n"
    "\n"
    "The page replays the recorded node lists; nothing is scheduled anew. What it\n"
    "assumes, and what it leaves out of the log, stands on it; more: docs/report.md.";

struct ReportArguments {
  std::string log;
  SlurmFiles files;
  std::string output;
  ReplayOptions options;
};

volatile std::sig_atomic_t interrupted = 0;
void on_interrupt(int) { interrupted = 1; }

/// Ends a replay on Ctrl-C, and on a terminal tells how far it is.
class ReplayWatch {
 public:
  ReplayWatch() : start_(Clock::now()), terminal_(isatty(STDERR_FILENO) == 1) {
    interrupted = 0;
    std::signal(SIGINT, on_interrupt);
    std::signal(SIGTERM, on_interrupt);
  }
  ~ReplayWatch() {
    std::signal(SIGINT, SIG_DFL);
    std::signal(SIGTERM, SIG_DFL);
    if (shown_s_ > 0) std::fputs("\r\x1b[K", stderr);
  }
  ReplayWatch(const ReplayWatch&) = delete;
  ReplayWatch& operator=(const ReplayWatch&) = delete;

  bool must_stop(double done) {
    const auto elapsed = std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - start_);
    const int whole_s = static_cast<int>(elapsed.count());
    if (terminal_ && whole_s >= 2 && whole_s > shown_s_) {
      shown_s_ = whole_s;
      const std::string line = fmt::format("\r{} s: {:.0f} % of the record; Ctrl-C ends here\x1b[K",
                                           whole_s, 100 * done);
      std::fputs(line.c_str(), stderr);
    }
    return interrupted != 0;
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_;
  bool terminal_;
  int shown_s_ = 0;
};

/// The log read and brought onto the fabric; its text and its rows are let go before the replay.
std::optional<RecordedHistory> read_history(const std::string& file, const Snapshot& fabric,
                                            Diagnostics& diagnostics) {
  ImportCounts counts;
  std::optional<SacctLog> log;
  {
    const absl::StatusOr<std::string> text = read_file(file, kMaxLogBytes);
    if (!text.ok()) {
      diagnostics.error(file, 0, "", std::string(text.status().message()));
      return std::nullopt;
    }
    log = read_sacct(*text, file, counts, diagnostics);
  }
  if (!log) return std::nullopt;
  return recorded_history(*log, fabric, std::move(counts), file, diagnostics);
}

/// Every flow needs some uplink.
bool check_uplinks(const Snapshot& fabric, const std::string& file, Diagnostics& diagnostics) {
  if (fabric.nodes.empty()) {
    diagnostics.error(file, 0, "", "no rack of it has nodes");
    return false;
  }
  for (const Rack& rack : fabric.racks) {
    if (rack.bound() > 0) continue;
    diagnostics.error("monkeytree: --uplinks", 0, "",
                      fmt::format("rack {} has none; expected a number from 1 to {}",
                                  quote(rack.name), kMaxUplinks));
    return false;
  }
  return true;
}

int run_report(ReportArguments arguments) {
  Diagnostics diagnostics;
  if (arguments.log == "-" && arguments.files.topology == "-") {
    print_error("standard input can be only one of the files");
    return kExitBadInput;
  }
  const std::optional<Snapshot> fabric = import_slurm_fabric(arguments.files, diagnostics);
  std::optional<RecordedHistory> history;
  if (fabric && check_uplinks(*fabric, arguments.files.topology, diagnostics)) {
    history = read_history(arguments.log, *fabric, diagnostics);
  }
  print_findings(diagnostics);
  if (!history) return kExitBadInput;
  HistoryReplay replay;
  {
    ReplayWatch watch;
    arguments.options.stop = [&](double done) { return watch.must_stop(done); };
    replay = replay_history(*fabric, history->jobs, arguments.options);
  }
  const Page page =
      history_page(*fabric, *history, replay, arguments.options,
                   {arguments.log, arguments.files.topology, !arguments.files.uplinks.empty()});
  const int exit_code = replay.stopped ? kExitLimit : kExitDone;
  const int written = write_result(arguments.output, page.html(), exit_code);
  if (written != exit_code || arguments.output.empty() || arguments.output == "-") return written;
  return print_result(history_summary(*fabric, *history, replay) +
                          fmt::format("wrote {}\n", printable(arguments.output)),
                      exit_code);
}

/// What --uplinks refuses: numbers that no rack can have, and what looks like one but is no file.
/// A rack without any uplink has nothing to report.
std::string uplinks_refusal(const std::string& value) {
  const std::optional<int> count = parse_uplink_count(value);
  if (count && *count > 0) return "";
  std::error_code ignored;
  if (!count && !is_uplink_count(value) && std::filesystem::exists(value, ignored)) return "";
  return fmt::format("expected a number from 1 to {} or a file, found {}", kMaxUplinks,
                     quote(value));
}

/// A number of an option within its range.
CLI::Validator number_within(double low, double high) {
  return CLI::Validator(
      [low, high](const std::string& text) {
        double value = 0;
        const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
        const bool good = fault == std::errc() && end == text.data() + text.size() &&
                          value >= low && value <= high;
        return good ? std::string()
                    : fmt::format("expected a number from {} to {}, found {}", low, high,
                                  quote(text));
      },
      "");
}

}  // namespace

void add_report(CLI::App& app, int& exit_code) {
  const auto arguments = std::make_shared<ReportArguments>();
  CLI::App& command = add_command(
      app, "report", "what a cluster's own history lost to shared uplinks, as a page", kExamples);
  command.add_option("--sacct", arguments->log, "what `sacct -a -X --parsable2` printed")
      ->required()
      ->type_name("FILE");
  command.add_option("--topology", arguments->files.topology, "topology.conf or topology.yaml")
      ->required()
      ->type_name("FILE");
  command
      .add_option("--topology-name", arguments->files.topology_name,
                  "which topology of a topology.yaml")
      ->type_name("NAME");
  command
      .add_option("--uplinks", arguments->files.uplinks,
                  "uplinks of every rack, or a table with the columns rack,uplinks")
      ->check(CLI::Validator([](const std::string& value) { return uplinks_refusal(value); }, ""))
      ->type_name("N|FILE");
  command
      .add_option("--communication", arguments->options.communication,
                  "share of an iteration that a job communicates (0.3)")
      ->check(number_within(0, 1))
      ->type_name("C");
  command
      .add_option("--pause", arguments->options.pause_s,
                  "seconds that a job stands still while workers of it move (10)")
      ->check(number_within(0, kMaxPauseS))
      ->type_name("S");
  command
      .add_option("-o,--output", arguments->output,
                  "write the page here, and a summary to standard output")
      ->type_name("FILE");
  command.callback([arguments, &exit_code] { exit_code = run_report(*arguments); });
}

}  // namespace monkeytree
