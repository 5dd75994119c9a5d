#include "inventory/slurm_scheduler.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/json.h"
#include "inventory/job_layout.h"
#include "inventory/json_stream.h"
#include "inventory/parallelism.h"
#include "inventory/slurm_rest.h"

namespace monkeytree {

bool JobTurns::take(const std::string& job, Deadline deadline) {
  std::unique_lock lock(mutex_);
  if (!ended_.wait_until(lock, deadline, [&] { return !taken_.contains(job); })) return false;
  taken_.insert(job);
  return true;
}

void JobTurns::end(const std::string& job) {
  const std::lock_guard lock(mutex_);
  taken_.erase(job);
  ended_.notify_all();
}

SlurmScheduler::SlurmScheduler(SlurmSettings settings)
    : settings_(std::move(settings)), commands_(settings_.programs, settings_.slurm_conf) {}

std::string SlurmScheduler::describe() const {
  const std::lock_guard lock(mutex_);
  if (!configuration_) return "Slurm, not yet heard of";
  const std::string version = configuration_->config.value("SLURM_VERSION");
  const std::string name = version.empty() ? "Slurm" : "Slurm " + printable(version);
  if (!configuration_->choice.why_not.empty()) return name + ", read-only";
  return name + (configuration_->choice.books == SlurmBooks::kCompanions
                     ? ", books follow moves by companion jobs"
                     : ", books follow moves by merge and shrink");
}

std::string SlurmScheduler::why_read_only() const {
  const std::lock_guard lock(mutex_);
  if (!configuration_) return "Slurm has not answered yet";
  return configuration_->choice.why_not;
}

absl::StatusOr<SlurmScheduler::Configuration> SlurmScheduler::read_configuration(
    Deadline deadline) {
  const absl::StatusOr<std::string> config =
      commands_.query({"scontrol", "show", "config"}, deadline);
  if (!config.ok()) return config.status();
  const absl::StatusOr<std::string> partitions =
      commands_.query({"scontrol", "--oneliner", "show", "partition"}, deadline);
  if (!partitions.ok()) return partitions.status();
  Configuration out;
  out.config = read_slurm_config(*config, *partitions);
  out.choice = choose_books(out.config, settings_.books);
  if (out.choice.why_not.empty() && geteuid() != 0) {
    out.choice.why_not =
        "the controller has not root's rights, which it needs to hold nodes as a job's user";
  }
  const std::lock_guard lock(mutex_);
  configuration_ = out;
  return out;
}

absl::StatusOr<SlurmScheduler::Configuration> SlurmScheduler::known_configuration(
    Deadline deadline) {
  {
    const std::lock_guard lock(mutex_);
    if (configuration_) return *configuration_;
  }
  return read_configuration(deadline);
}

const SlurmJob* SlurmScheduler::Books::job(const std::string& id) const {
  for (const SlurmJob& job : queue.jobs) {
    if (!job.completing && (job.id == id || fmt::format("{}", job.number) == id)) return &job;
  }
  return nullptr;
}

const JobLayout* SlurmScheduler::Books::layout_of(const SlurmJob& job) const {
  for (const JobLayout& found : layout.jobs) {
    if (found.job == &job) return &found;
  }
  return nullptr;
}

std::vector<const SlurmScheduler::Companion*> SlurmScheduler::Books::companions_of(
    const SlurmJob& job) const {
  std::vector<const Companion*> out;
  for (const Companion& companion : companions) {
    if (companion.job->user != job.user) continue;
    if (companion.of == job.id || companion.of == fmt::format("{}", job.number)) {
      out.push_back(&companion);
    }
  }
  return out;
}

const SlurmScheduler::Companion* SlurmScheduler::Books::companion_at(
    const SlurmJob& job, const std::string& node) const {
  for (const Companion* companion : companions_of(job)) {
    if (companion->job->nodes == std::vector<std::string>{node}) return companion;
  }
  return nullptr;
}

absl::StatusOr<std::string> SlurmScheduler::look(const std::string& page,
                                                 std::vector<std::string> program,
                                                 Deadline deadline) const {
  if (settings_.slurmrestd.empty()) return commands_.query(std::move(program), deadline);
  return SlurmRest(settings_.slurmrestd, settings_.slurmrestd_version).get(page, deadline);
}

absl::StatusOr<SlurmScheduler::Books> SlurmScheduler::read_books(Deadline deadline,
                                                                 Diagnostics& diagnostics) const {
  const absl::StatusOr<std::string> text = look("jobs", {"squeue", "--json"}, deadline);
  if (!text.ok()) return text.status();
  Books out;
  Diagnostics errors;
  std::optional<SlurmQueue> queue = read_squeue(bytes_of(*text), "squeue", errors);
  for (const Finding& finding : errors.findings()) diagnostics.add(finding);
  if (!queue) {
    return absl::InternalError(fmt::format("squeue --json cannot be read: {}", errors.text()));
  }
  // squeue ends well, with no jobs, when slurmctld does not answer: nobody must take that for the
  // end of all jobs.
  if (!queue->errors.empty()) {
    const absl::Status status = status_of("squeue", queue->errors.front());
    return absl::UnavailableError(status.message());
  }
  out.queue = *std::move(queue);
  out.layout = lay_out_jobs(out.queue, "squeue", diagnostics);
  for (const SlurmJob& job : out.queue.jobs) {
    if (!job.running) continue;
    std::vector<std::string> faults;
    const CommentFacts facts = parse_comment(job.comment, faults);
    if (!facts.companion_of) continue;
    out.companions.push_back({&job, *facts.companion_of, facts.group.value_or(0),
                              facts.worker.value_or(0), facts.worker.has_value()});
  }
  return out;
}

absl::Status SlurmScheduler::check_worker(const WorkerName& worker, const std::string& node) const {
  if (absl::Status good = check_job_id(worker.job); !good.ok()) return good;
  if (worker.group < 0 || worker.worker < 0) {
    return absl::InvalidArgumentError(fmt::format("{} is no worker", to_string(worker)));
  }
  return check_name(node, "node");
}

absl::StatusOr<std::vector<std::string>> SlurmScheduler::booked(const std::string& job,
                                                                Deadline deadline) {
  if (absl::Status good = check_job_id(job); !good.ok()) return good;
  Diagnostics ignored;
  const absl::StatusOr<Books> books = read_books(deadline, ignored);
  if (!books.ok()) return books.status();
  const SlurmJob* found = books->job(job);
  if (!found) return std::vector<std::string>{};
  std::set<std::string> nodes(found->nodes.begin(), found->nodes.end());
  for (const Companion* companion : books->companions_of(*found)) {
    nodes.insert(companion->job->nodes.begin(), companion->job->nodes.end());
  }
  return std::vector<std::string>(nodes.begin(), nodes.end());
}

}  // namespace monkeytree
