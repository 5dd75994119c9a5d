#include "cli/plan.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/sha256.h"
#include "cli/common.h"
#include "planning/plan_json.h"

namespace monkeytree {
namespace {

constexpr const char* kReferenceProgram = "monkeytree-milp";
constexpr double kForever_s = 1e9;
/// Limit where none is given: a full cluster may have no proof within a night.
constexpr double kPatience_s = 60;

constexpr const char* kExamples =
    "Examples:\n"
    "  monkeytree plan cluster.json                    the fewest moves, proved if\n"
    "                                                  60 s suffice\n"
    "  monkeytree plan cluster.json --time-limit 5     the best plan within 5 seconds\n"
    "  monkeytree plan cluster.json --work-limit 100000    the same, reproducible\n"
    "  monkeytree plan cluster.json --best-effort      where not every bound can hold\n"
    "  monkeytree plan cluster.json --json > plan.json && \\\n"
    "    monkeytree check cluster.json plan.json\n"
    "\n"
    "Moves of one round may run together; a round starts when the one before has\n"
    "ended. Ctrl-C ends the search with the best plan so far.\n"
    "Exit code: 0 compliant or optimal, 3 infeasible, 4 a limit was hit.";

struct PlanArguments {
  std::string snapshot;
  bool json = false;
  bool best_effort = false;
  std::optional<int> uplinks;
  std::optional<double> time_limit_s;
  std::optional<int64_t> work_limit;
  std::string solver = "exact";
  ReferenceSolver reference = nullptr;
};

volatile std::sig_atomic_t interrupted = 0;

/// The first Ctrl-C ends the search, the second the program.
extern "C" void on_interrupt(int) {
  interrupted = 1;
  std::signal(SIGINT, SIG_DFL);
}

/// Decides when a search must end, and tells a person at a terminal how far it is.
class Watch {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Watch(std::optional<double> limit_s)
      : limit_s_(limit_s), start_(Clock::now()), terminal_(isatty(STDERR_FILENO) == 1) {
    interrupted = 0;
    std::signal(SIGINT, on_interrupt);
  }
  ~Watch() {
    std::signal(SIGINT, SIG_DFL);
    if (shown_s_ > 0) std::fputs("\r\x1b[K", stderr);
  }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  void learn(std::optional<int> best, int bound) {
    best_ = best;
    bound_ = bound;
  }

  bool must_stop() {
    const double elapsed_s = std::chrono::duration<double>(Clock::now() - start_).count();
    const int whole_s = static_cast<int>(elapsed_s);
    if (terminal_ && whole_s >= 2 && whole_s > shown_s_) {
      shown_s_ = whole_s;
      const std::string line = progress_line(whole_s, limit_s_, best_, bound_);
      std::fputs(fmt::format("\r{}\x1b[K", line).c_str(), stderr);
    }
    return interrupted != 0 || (limit_s_ && elapsed_s >= *limit_s_);
  }

 private:
  std::optional<double> limit_s_;
  Clock::time_point start_;
  bool terminal_;
  int shown_s_ = 0;
  std::optional<int> best_;
  int bound_ = 0;
};

double cpu_ms() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
}

Plan solve(const Snapshot& snapshot, const PlanArguments& arguments) {
  PlanOptions options;
  options.best_effort = arguments.best_effort;
  const double start_ms = cpu_ms();
  Plan result;
  if (arguments.solver == "milp") {  // asks nobody whether to stop: Ctrl-C ends the program
    result = arguments.reference(snapshot, options, arguments.time_limit_s.value_or(kForever_s));
  } else {
    std::optional<double> limit_s = arguments.time_limit_s;
    if (!limit_s && !arguments.work_limit) limit_s = kPatience_s;
    Watch watch(limit_s);
    if (arguments.work_limit) options.work_limit = *arguments.work_limit;
    options.stop = [&watch] { return watch.must_stop(); };
    options.progress = [&watch](std::optional<int> best, int bound) { watch.learn(best, bound); };
    result = plan(snapshot, options);
  }
  result.solve_ms = cpu_ms() - start_ms;
  return result;
}

/// Becomes the program that has the reference solver, with the arguments of this one. Returns only
/// where it is not there.
int become_reference() {
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe");
  std::ifstream in("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> words;
  for (std::string word; std::getline(in, word, '\0');) words.push_back(word);
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  execv((self.parent_path() / kReferenceProgram).c_str(), argv.data());
  print_error(
      fmt::format("--solver milp: {} is not beside this program (it is built where CBC is found), "
                  "expected --solver exact",
                  kReferenceProgram));
  return kExitBadInput;
}

int run_plan(const PlanArguments& arguments) {
  if (arguments.solver == "milp" && arguments.work_limit) {
    print_error("--work-limit does not count what CBC does, expected --time-limit with milp");
    return kExitBadInput;
  }
  if (arguments.time_limit_s && !std::isfinite(*arguments.time_limit_s)) {
    print_error("--time-limit: not a number, expected seconds from 0 to 1e9");
    return kExitBadInput;
  }
  if (arguments.solver == "milp" && !arguments.reference) return become_reference();
  const std::optional<SnapshotInput> input = read_snapshot(arguments.snapshot, arguments.uplinks);
  if (!input) return kExitBadInput;
  const Plan result = solve(input->snapshot, arguments);
  const int exit_code = exit_code_of(result.status);
  if (!arguments.json) {
    return print_result(plan_text(input->snapshot, result, colors_wanted()), exit_code);
  }
  const PlanRecord record = record_of(input->snapshot, result, sha256(input->text));
  return print_result(write_plan(record), exit_code);
}

}  // namespace

std::string progress_line(int elapsed_s, std::optional<double> limit_s, std::optional<int> best,
                          int bound) {
  std::string line = fmt::format("{} s", elapsed_s);
  if (limit_s && *limit_s < kForever_s) {
    line += fmt::format(", {:.0f} s left", std::max(0.0, std::ceil(*limit_s - elapsed_s)));
  }
  line += best ? fmt::format(": best plan {}", counted(*best, "move")) : ": no plan yet";
  line += fmt::format(", at least {} needed; Ctrl-C ends here", bound);
  return fit(line, kColumns - 1);
}

int exit_code_of(PlanStatus status) {
  switch (status) {
    case PlanStatus::kCompliant:
    case PlanStatus::kOptimal:
      return kExitDone;
    case PlanStatus::kInfeasible:
      return kExitInfeasible;
    case PlanStatus::kFeasible:
    case PlanStatus::kUnknown:
      return kExitLimit;
  }
  return kExitFailed;
}

void add_plan(CLI::App& app, int& exit_code, ReferenceSolver reference) {
  const auto arguments = std::make_shared<PlanArguments>();
  arguments->reference = reference;
  CLI::App& command = add_command(
      app, "plan", "the fewest moves that bring every rack within its bound, in rounds", kExamples);
  add_snapshot_argument(command, arguments->snapshot);
  command.add_flag("--json", arguments->json, "print JSON for programs");
  add_uplinks_option(command, arguments->uplinks);
  command
      .add_option("--time-limit", arguments->time_limit_s,
                  "seconds to search for at most; 60 if no limit is given")
      ->check(CLI::Range(0.0, 1e9).description(""))
      ->type_name("S");
  command.add_option("--work-limit", arguments->work_limit, "search nodes to visit at most")
      ->check(CLI::Range(int64_t{0}, INT64_MAX).description(""))
      ->type_name("N");
  command.add_flag("--best-effort", arguments->best_effort,
                   "least excess first, then fewest moves");
  command
      .add_option("--solver", arguments->solver,
                  "exact, or milp: the paper's program over CBC; slow, and it looks at "
                  "the time only between two linear programs, so it may pass the limit")
      ->check(CLI::IsMember({"exact", "milp"}).description(""))
      ->type_name("NAME");
  command.callback([arguments, &exit_code] { exit_code = run_plan(*arguments); });
}

}  // namespace monkeytree
