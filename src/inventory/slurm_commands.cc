#include "inventory/slurm_commands.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <thread>
#include <utility>

#include "base/file.h"
#include "base/json.h"

namespace monkeytree {
namespace {

constexpr size_t kLongestName = 255;
constexpr size_t kLongestComplaint = 300;
constexpr std::chrono::milliseconds kTryAgain{200};

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

template <size_t n>
bool contains_any(std::string_view text, const std::array<std::string_view, n>& parts) {
  return std::any_of(parts.begin(), parts.end(),
                     [&](std::string_view part) { return contains(text, part); });
}

constexpr std::array<std::string_view, 5> kNoAnswer = {"Unable to contact slurm controller",
                                                       "Connection refused", "Socket timed out",
                                                       "Zero Bytes were transmitted", "try again"};
constexpr std::array<std::string_view, 4> kGone = {"Invalid job id specified", "already finished",
                                                   "already completing", "Invalid job id"};
constexpr std::array<std::string_view, 6> kTaken = {
    "Unable to allocate resources: Connection timed out",
    "Requested nodes are busy",
    "Required node not available",
    "Requested node configuration is not available",
    "Requested nodes are not available",
    "overlaps with another reservation"};

/// One line, without the programs' own names, without repeats, not too long.
std::string one_line(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string line = printable(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty() || contains(out, line)) continue;
    out += (out.empty() ? "" : "; ") + line;
  }
  if (out.size() > kLongestComplaint) out = out.substr(0, kLongestComplaint) + "…";
  return out;
}

/// Variables that Slurm's programs take for options, or that Slurm sets for each step.
bool belongs_to_slurm(const std::string& name) {
  constexpr std::array<std::string_view, 12> kPrefixes = {"SLURM",
                                                          "SRUN_",
                                                          "SALLOC_",
                                                          "SBATCH_",
                                                          "SQUEUE_",
                                                          "SCONTROL_",
                                                          "PMI_",
                                                          "PMIX_",
                                                          "CUDA_VISIBLE_DEVICES",
                                                          "ROCR_VISIBLE_DEVICES",
                                                          "GPU_DEVICE_ORDINAL",
                                                          "ZE_AFFINITY_MASK"};
  return std::any_of(kPrefixes.begin(), kPrefixes.end(), [&](std::string_view prefix) {
    return name.compare(0, prefix.size(), prefix) == 0;
  });
}

}  // namespace

absl::Status check_name(std::string_view name, std::string_view what) {
  const bool good = !name.empty() && name.size() <= kLongestName && name[0] != '-' &&
                    std::all_of(name.begin(), name.end(), [](char c) {
                      return is_letter(c) || is_digit(c) || c == '.' || c == '_' || c == '-';
                    });
  if (good) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format(
      "{} is no name of a {}: expected letters, digits, '.', '_' and '-'", quote(name), what));
}

absl::Status check_job_id(std::string_view id) {
  size_t n = 0;
  while (n < id.size() && is_digit(id[n])) ++n;
  bool good = n > 0 && n <= 18;
  if (good && n < id.size()) {
    const std::string_view rest = id.substr(n + 1);
    good = (id[n] == '_' || id[n] == '+') && !rest.empty() && rest.size() <= 18 &&
           std::all_of(rest.begin(), rest.end(), is_digit);
  }
  if (good) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("{} is no id of a job: expected a number, N_N or N+N", quote(id)));
}

absl::Status status_of(std::string_view program, std::string_view complaint) {
  const std::string message = fmt::format("{}: {}", program, one_line(complaint));
  if (contains_any(complaint, kNoAnswer)) return absl::UnavailableError(message);
  if (contains_any(complaint, kTaken)) return absl::AbortedError(message);
  if (contains_any(complaint, kGone)) return absl::NotFoundError(message);
  return absl::FailedPreconditionError(message);
}

SlurmCommands::SlurmCommands(std::string programs, std::string slurm_conf)
    : programs_(std::move(programs)), slurm_conf_(std::move(slurm_conf)) {
  const char* path = std::getenv("PATH");
  path_ = path ? path : "/usr/bin:/bin";
  const char* conf = std::getenv("SLURM_CONF");
  if (slurm_conf_.empty() && conf) slurm_conf_ = conf;
}

Command SlurmCommands::command(std::vector<std::string> arguments,
                               const std::optional<UserIds>& user) const {
  Command out;
  if (!programs_.empty()) arguments[0] = programs_ + "/" + arguments[0];
  out.arguments = std::move(arguments);
  out.environment = {{"PATH", path_}, {"LC_ALL", "C"}};
  if (!slurm_conf_.empty()) out.environment["SLURM_CONF"] = slurm_conf_;
  if (user) {
    out.environment["USER"] = out.environment["LOGNAME"] = user->name;
    out.environment["HOME"] = user->home;
  }
  out.folder = "/";
  out.output_limit = kMaxInputBytes;
  out.user = user;
  return out;
}

absl::StatusOr<CommandResult> SlurmCommands::run_as(const std::optional<UserIds>& user,
                                                    std::vector<std::string> arguments,
                                                    Deadline deadline) const {
  return run_command(command(std::move(arguments), user), deadline);
}

absl::StatusOr<std::string> SlurmCommands::query(std::vector<std::string> arguments,
                                                 Deadline deadline) const {
  const std::string program = arguments[0];
  absl::StatusOr<CommandResult> result = run_as(std::nullopt, std::move(arguments), deadline);
  if (!result.ok()) return result.status();
  if (result->exit_code != 0) {
    return status_of(program, result->err.empty() ? result->out : result->err);
  }
  return std::move(result->out);
}

absl::Status SlurmCommands::change(std::vector<std::string> arguments, Deadline deadline) const {
  while (true) {
    const absl::Status done = query(arguments, deadline).status();
    const bool later =
        absl::IsUnavailable(done) && contains(std::string(done.message()), "try again");
    if (!later || std::chrono::steady_clock::now() + kTryAgain > deadline) return done;
    std::this_thread::sleep_for(kTryAgain);
  }
}

absl::StatusOr<pid_t> SlurmCommands::start_as(const std::optional<UserIds>& user,
                                              std::vector<std::string> arguments,
                                              const std::string& folder,
                                              const std::map<std::string, std::string>& environment,
                                              const std::string& log_file) const {
  Command what = command(std::move(arguments), user);
  // Slurm's program is found by our PATH, whatever the worker's is.
  if (programs_.empty()) {
    if (absl::StatusOr<std::string> found = find_in_path(what.arguments[0], path_); found.ok()) {
      what.arguments[0] = *std::move(found);
    }
  }
  for (const auto& [name, value] : environment) {
    if (!belongs_to_slurm(name) && !name.empty()) what.environment[name] = value;
  }
  if (!folder.empty()) what.folder = folder;
  return start_detached(what, log_file);
}

}  // namespace monkeytree
