#include "agent/slurm_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/file.h"

namespace monkeytree {
namespace {

constexpr size_t kLongest = 64 << 10;

std::vector<std::string_view> parts_of(std::string_view path) {
  std::vector<std::string_view> parts;
  while (!path.empty()) {
    const size_t end = std::min(path.find('/'), path.size());
    if (end > 0) parts.push_back(path.substr(0, end));
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  return parts;
}

/// "job_4711" to "4711".
std::string number_after(std::string_view part, std::string_view prefix) {
  if (!part.starts_with(prefix)) return "";
  part.remove_prefix(prefix.size());
  const bool number =
      std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; });
  return number ? std::string(part) : "";
}

/// Where slurmd and slurmstepd make them: /slurm[_NODE]/uid_U/job_J with the first version of
/// cgroups, /system.slice/[NODE_]slurmstepd.scope/job_J with the second.
std::string job_in_path(std::string_view path) {
  const std::vector<std::string_view> parts = parts_of(path);
  if (parts.size() < 3) return "";
  const bool first = (parts[0] == "slurm" || parts[0].starts_with("slurm_")) &&
                     !number_after(parts[1], "uid_").empty();
  const bool second = parts[0] == "system.slice" &&
                      (parts[1] == "slurmstepd.scope" || parts[1].ends_with("_slurmstepd.scope"));
  return first || second ? number_after(parts[2], "job_") : "";
}

}  // namespace

std::string job_in_cgroups(std::string_view text) {
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    // "4:memory:/slurm/uid_1000/job_4711/step_0"
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const size_t first = line.find(':');
    const size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    if (std::string job = job_in_path(line.substr(second + 1)); !job.empty()) return job;
  }
  return "";
}

std::string slurm_job_of(pid_t process) {
  if (process <= 0) return "";
  const absl::StatusOr<std::string> text =
      read_file(fmt::format("/proc/{}/cgroup", process), kLongest);
  return text.ok() ? job_in_cgroups(*text) : "";
}

}  // namespace monkeytree
