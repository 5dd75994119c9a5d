#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/hostlist.h"
#include "inventory/slurm_step.h"

/// Reservations that keep others off nodes while their workers change places.
namespace monkeytree {

absl::StatusOr<std::vector<std::string>> SlurmScheduler::reservations(Deadline deadline) const {
  const absl::StatusOr<std::string> text =
      commands_.query({"scontrol", "--oneliner", "show", "reservation"}, deadline);
  if (!text.ok()) return text.status();
  std::vector<std::string> out;
  for (const auto& record : read_one_liners(*text)) {
    const auto name = record.find("ReservationName");
    if (name == record.end()) continue;
    if (name->second.compare(0, kReservationPrefix.size(), kReservationPrefix) != 0) continue;
    out.push_back(name->second.substr(kReservationPrefix.size()));
  }
  std::sort(out.begin(), out.end());
  return out;
}

absl::Status SlurmScheduler::reserve(const std::string& name, const std::vector<std::string>& nodes,
                                     Deadline deadline) {
  if (absl::Status good = check_name(name, "reservation"); !good.ok()) return good;
  for (const std::string& node : nodes) {
    if (absl::Status good = check_name(node, "node"); !good.ok()) return good;
  }
  const Step step(*this, fmt::format("@{}", name), deadline);
  if (!step.status().ok()) return step.status();
  const std::string full = fmt::format("{}{}", kReservationPrefix, name);
  const std::set<std::string> wanted(nodes.begin(), nodes.end());
  const absl::StatusOr<std::string> text =
      commands_.query({"scontrol", "--oneliner", "show", "reservation"}, deadline);
  if (!text.ok()) return text.status();
  for (const auto& record : read_one_liners(*text)) {
    const auto found = record.find("ReservationName");
    if (found == record.end() || found->second != full) continue;
    const auto list = record.find("Nodes");
    const auto names = expand_hostlist(list == record.end() ? "" : list->second);
    if (names.ok() && std::set<std::string>(names->begin(), names->end()) == wanted) {
      return absl::OkStatus();
    }
    return absl::FailedPreconditionError(
        fmt::format("the reservation {} stands for other nodes", full));
  }
  // Those whose jobs change places; hold() admits others as they come.
  std::set<std::string> users = {"root"};
  for (const SlurmJob& job : step.books().queue.jobs) {
    const bool there = std::any_of(job.nodes.begin(), job.nodes.end(),
                                   [&](const std::string& node) { return wanted.contains(node); });
    if (there && check_name(job.user, "user").ok()) users.insert(job.user);
  }
  std::string list;
  for (const std::string& user : users) list += (list.empty() ? "" : ",") + user;
  return commands_.change(
      {"scontrol", "create", "reservation", "ReservationName=" + full, "StartTime=now",
       fmt::format("Duration={}", kReservationMinutes), "Users=" + list,
       "Nodes=" + compress_hostlist({wanted.begin(), wanted.end()}), "Flags=ignore_jobs"},
      deadline);
}

absl::Status SlurmScheduler::unreserve(const std::string& name, Deadline deadline) {
  if (absl::Status good = check_name(name, "reservation"); !good.ok()) return good;
  const Step step(*this, fmt::format("@{}", name), deadline);
  if (!step.status().ok()) return step.status();
  const std::string full = fmt::format("{}{}", kReservationPrefix, name);
  for (const Companion& companion : step.books().companions) {
    if (companion.job->reservation != full) continue;
    absl::Status freed = commands_.change(
        {"scontrol", "update", fmt::format("JobId={}", companion.job->number), "ReservationName="},
        deadline);
    if (!freed.ok()) return freed;
  }
  absl::Status deleted =
      commands_.change({"scontrol", "delete", "ReservationName=" + full}, deadline);
  if (deleted.ok()) return deleted;
  // Gone is what was asked for.
  const absl::StatusOr<std::vector<std::string>> left = reservations(deadline);
  if (!left.ok()) return left.status();
  return holds(*left, name) ? deleted : absl::OkStatus();
}

}  // namespace monkeytree
