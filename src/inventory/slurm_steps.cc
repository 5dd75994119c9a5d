#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <thread>
#include <utility>

#include "base/hostlist.h"
#include "base/json.h"
#include "inventory/parallelism.h"
#include "inventory/slurm_step.h"

/// The steps by which Slurm's books follow a move. Each reads the books first, so that a step that
/// was done already, or half done, is finished and not done again.
namespace monkeytree {
namespace {

using std::chrono::milliseconds;

/// Slurm is asked to give a free node within this time, or not at all.
constexpr int64_t kAllocateSeconds = 4;
constexpr milliseconds kLookAgain{50};

absl::Status gone(const std::string& job) {
  return absl::NotFoundError(fmt::format("job {} does not run", job));
}

std::string step_name(const WorkerName& worker) {
  return fmt::format("monkeytree-{}-{}", worker.group, worker.worker);
}

/// What is left of the job's time, as salloc takes it.
std::string time_left(const SlurmJob& job) {
  if (!job.limit_min || !job.end_s) return "UNLIMITED";
  const double now =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  const double minutes = std::ceil((*job.end_s - now) / 60);
  return fmt::format("{}", static_cast<int64_t>(std::clamp(minutes, 1.0, 1e9)));
}

/// Whole seconds until the deadline, less one in which salloc cleans up; at least 1.
int64_t patience(Deadline deadline) {
  const auto left =
      std::chrono::floor<std::chrono::seconds>(deadline - std::chrono::steady_clock::now());
  return std::clamp<int64_t>(left.count() - 1, 1, kAllocateSeconds);
}

/// The number after "Granted job allocation ", or "".
std::string granted(std::string_view text) {
  constexpr std::string_view kWords = "Granted job allocation ";
  const size_t at = text.find(kWords);
  if (at == std::string_view::npos) return "";
  std::string_view rest = text.substr(at + kWords.size());
  const size_t end = std::min(rest.find_first_not_of("0123456789"), rest.size());
  return std::string(rest.substr(0, end));
}

/// The nodes of a job's workers in rank order, from `order` by group and worker: a node on which
/// two groups share a place stands there once.
std::vector<std::string> ranks_of(const std::vector<std::string>& order) {
  std::vector<std::string> out;
  for (const std::string& node : order) {
    if (node.empty() || !holds(out, node)) out.push_back(node);
  }
  return out;
}

std::vector<std::string> ranks_of(const JobLayout& layout) {
  std::vector<std::string> out;
  for (const JobLayout::Member& member : layout.members) out.push_back(member.node);
  return out;
}

bool alive(pid_t process) {
  std::ifstream in("/proc/" + std::to_string(process) + "/stat");
  const std::string text(std::istreambuf_iterator<char>(in), {});
  const size_t end = text.rfind(')');
  return end != std::string::npos && end + 2 < text.size() && text[end + 2] != 'Z';
}

/// A file for what a program says before it has started well; gone with this.
class ScratchLog {
 public:
  ScratchLog() {
    const char* folder = std::getenv("TMPDIR");
    path_ = std::string(folder ? folder : "/tmp") + "/monkeytree_srun_XXXXXX";
    const int file = mkstemp(path_.data());
    if (file >= 0) {
      close(file);
    } else {
      path_.clear();
    }
  }
  ~ScratchLog() {
    if (!path_.empty()) unlink(path_.c_str());
  }
  ScratchLog(const ScratchLog&) = delete;
  ScratchLog& operator=(const ScratchLog&) = delete;

  const std::string& path() const { return path_; }
  std::string text() const {
    std::ifstream in(path_);
    return {std::istreambuf_iterator<char>(in), {}};
  }

 private:
  std::string path_;
};

}  // namespace

absl::StatusOr<UserIds> SlurmScheduler::user_of(const SlurmJob& job) const {
  if (absl::Status good = check_name(job.user, "user"); !good.ok()) return good;
  absl::StatusOr<UserIds> user = find_user(job.user);
  if (!user.ok()) return absl::FailedPreconditionError(user.status().message());
  if (!job.user_id || static_cast<int64_t>(user->uid) != *job.user_id) {
    return absl::FailedPreconditionError(
        fmt::format("user {} has the id {} here, but the job's is another", job.user, user->uid));
  }
  // Slurm lets only the job's own group start steps in it.
  if (job.group_id) user->gid = static_cast<gid_t>(*job.group_id);
  return user;
}

absl::Status SlurmScheduler::write_admin_comment(const SlurmJob& job, const std::string& comment,
                                                 Deadline deadline) const {
  if (comment == job.admin_comment) return absl::OkStatus();
  return commands_.change(
      {"scontrol", "update", fmt::format("JobId={}", job.number), "AdminComment=" + comment},
      deadline);
}

absl::StatusOr<std::string> SlurmScheduler::allocate(const WorkerName& worker,
                                                     const std::string& node,
                                                     const std::string& reservation,
                                                     const SlurmJob& job, SlurmBooks books,
                                                     Deadline deadline) const {
  const absl::StatusOr<UserIds> user = user_of(job);
  if (!user.ok()) return user.status();
  std::vector<std::string> arguments = {"salloc",
                                        "--no-shell",
                                        fmt::format("--immediate={}", patience(deadline)),
                                        "--nodes=1",
                                        "--nodelist=" + node,
                                        "--exclusive",
                                        "--mem=0",
                                        "--time=" + time_left(job),
                                        fmt::format("--job-name=monkeytree-{}", job.number),
                                        fmt::format("--comment=companion-of={},group={},worker={}",
                                                    job.id, worker.group, worker.worker)};
  for (const auto& [option, value] :
       {std::pair{"--partition=", job.partition}, std::pair{"--account=", job.account},
        std::pair{"--qos=", job.qos}}) {
    if (value.empty()) continue;
    if (absl::Status good = check_name(value, "partition, account or QOS"); !good.ok()) return good;
    arguments.push_back(option + value);
  }
  if (books == SlurmBooks::kCompanions) {
    arguments.push_back(fmt::format("--gres=gpu:{}", job.gpus.empty() ? 0 : job.gpus[0]));
  } else {
    arguments.push_back(fmt::format("--dependency=expand:{}", job.number));
  }
  if (!reservation.empty()) {
    const std::string name = fmt::format("{}{}", kReservationPrefix, reservation);
    arguments.push_back("--reservation=" + name);
    absl::Status admitted = commands_.change(
        {"scontrol", "update", "ReservationName=" + name, "Users+=" + user->name}, deadline);
    if (!admitted.ok()) return admitted;
  }
  // salloc takes its request back when its own patience ends; killed before, it would leave a job
  // behind that waits for the node.
  if (deadline - std::chrono::steady_clock::now() < kLeastForSlurmHold) {
    return absl::DeadlineExceededError("no time is left to ask for a node");
  }
  const absl::StatusOr<CommandResult> result = commands_.run_as(*user, arguments, deadline);
  if (!result.ok()) return result.status();
  std::string id = granted(result->err + result->out);
  if (result->exit_code == 0 && !id.empty()) return id;
  return status_of("salloc", result->err);
}

absl::StatusOr<Hold> SlurmScheduler::settle(const WorkerName& worker, const std::string& node,
                                            const std::string& allocation, bool in_reservation,
                                            SlurmBooks books, Deadline deadline) const {
  if (books == SlurmBooks::kMerge) {
    absl::Status merged =
        commands_.change({"scontrol", "update", "JobId=" + allocation, "NumNodes=0"}, deadline);
    if (!merged.ok()) {
      commands_.change({"scancel", allocation}, deadline).IgnoreError();
      return merged;
    }
    return Hold{fmt::format("{}@{}", worker.job, node), worker, node};
  }
  // Out of the reservation, which could not be deleted while a job runs in it.
  if (in_reservation) {
    absl::Status freed = commands_.change(
        {"scontrol", "update", "JobId=" + allocation, "ReservationName="}, deadline);
    if (!freed.ok()) return freed;
  }
  return Hold{allocation, worker, node};
}

absl::StatusOr<Hold> SlurmScheduler::hold(const WorkerName& worker, const std::string& node,
                                          const std::string& reservation, Deadline deadline) {
  if (absl::Status good = check_worker(worker, node); !good.ok()) return good;
  if (!reservation.empty()) {
    if (absl::Status good = check_name(reservation, "reservation"); !good.ok()) return good;
  }
  const Step step(*this, worker.job, deadline);
  if (!step.status().ok()) return step.status();
  const SlurmJob* job = step.job();
  if (!job) return gone(worker.job);
  if (const Companion* companion = step.books().companion_at(*job, node)) {
    if (companion->group != worker.group || companion->worker != worker.worker) {
      return absl::AbortedError(fmt::format("node {} is held for worker {}/{} of the job", node,
                                            companion->group, companion->worker));
    }
    return settle(worker, node, fmt::format("{}", companion->job->number),
                  !companion->job->reservation.empty(), step.how(), deadline);
  }
  const HeldNode held{worker.group, worker.worker, node};
  std::vector<HeldNode> all = held_of_admin_comment(job->admin_comment);
  const bool noted = std::find(all.begin(), all.end(), held) != all.end();
  if (holds(job->nodes, node)) {
    if (step.how() == SlurmBooks::kMerge && noted) {
      return Hold{fmt::format("{}@{}", worker.job, node), worker, node};
    }
    return absl::AbortedError(fmt::format("node {} is the job's own", node));
  }
  for (const SlurmJob& other : step.books().queue.jobs) {
    if (other.completing || !holds(other.nodes, node)) continue;
    return absl::AbortedError(fmt::format("node {} is taken by job {}", node, other.id));
  }
  const JobLayout* layout = step.books().layout_of(*job);
  if (!layout) return absl::FailedPreconditionError(fmt::format("job {} is suspended", job->id));
  if (!layout->staged) {
    if (std::string why = why_unmovable(*layout, step.how(), step.config(), {}); !why.empty()) {
      return absl::FailedPreconditionError(fmt::format("job {}: {}", job->id, why));
    }
  }
  // The order is written before the job's nodes change, so that it is never lost.
  std::string comment = job->admin_comment;
  const auto kept = ranks_of_admin_comment(comment);
  std::vector<std::string> ranks = ranks_of(*layout);
  if (layout->staged && kept) {
    ranks = expand_hostlist(*kept).value_or(ranks);
  }
  if (step.how() == SlurmBooks::kCompanions) {
    all.clear();
  } else if (!noted) {
    all.push_back(held);
  }
  absl::Status written = write_admin_comment(*job, with_ranks(comment, ranks, all), deadline);
  if (!written.ok()) return written;
  const absl::StatusOr<std::string> allocation =
      allocate(worker, node, reservation, *job, step.how(), deadline);
  if (!allocation.ok()) return allocation.status();
  return settle(worker, node, *allocation, !reservation.empty(), step.how(), deadline);
}

absl::StatusOr<bool> SlurmScheduler::step_runs(const std::string& job, const std::string& step,
                                               const std::string& node, Deadline deadline) const {
  const absl::StatusOr<std::string> text = commands_.query(
      {"squeue", "--noheader", "--steps", "--jobs=" + job, "--format=%N|%j"}, deadline);
  if (!text.ok()) return text.status();
  return ("\n" + *text + "\n").find(fmt::format("\n{}|{}\n", node, step)) != std::string::npos;
}

absl::StatusOr<std::string> SlurmScheduler::output_of(const SlurmJob& job,
                                                      Deadline deadline) const {
  if (job.batch_host.empty()) return "/dev/null";
  const absl::StatusOr<std::string> text = commands_.query(
      {"scontrol", "--oneliner", "show", "job", fmt::format("{}", job.number)}, deadline);
  if (!text.ok()) return text.status();
  for (const auto& record : read_one_liners(*text)) {
    const auto file = record.find("StdOut");
    if (file != record.end() && !file->second.empty() && file->second[0] == '/') {
      return file->second;
    }
  }
  return "/dev/null";
}

absl::Status SlurmScheduler::start(const Hold& hold, const WorkerCommand& command,
                                   Deadline deadline) {
  if (absl::Status good = check_worker(hold.worker, hold.node); !good.ok()) return good;
  if (command.arguments.empty()) return absl::InvalidArgumentError("the worker has no command");
  const Step step(*this, hold.worker.job, deadline);
  if (!step.status().ok()) return step.status();
  const SlurmJob* job = step.job();
  if (!job) return gone(hold.worker.job);
  const Companion* companion = step.books().companion_at(*job, hold.node);
  std::string id = fmt::format("{}", job->number);
  if (step.how() == SlurmBooks::kCompanions) {
    if (!companion || fmt::format("{}", companion->job->number) != hold.id) {
      return absl::NotFoundError(fmt::format("companion {} on {} is gone", hold.id, hold.node));
    }
    id = hold.id;
  } else if (!holds(job->nodes, hold.node)) {
    return absl::NotFoundError(fmt::format("job {} does not hold {}", job->id, hold.node));
  }
  const std::string name = step_name(hold.worker);
  absl::StatusOr<bool> runs = step_runs(id, name, hold.node, deadline);
  if (!runs.ok()) return runs.status();
  if (*runs) return absl::OkStatus();
  const absl::StatusOr<UserIds> user = user_of(*job);
  if (!user.ok()) return user.status();
  const absl::StatusOr<std::string> output = output_of(*job, deadline);
  if (!output.ok()) return output.status();
  std::vector<std::string> arguments = {"srun",
                                        "--jobid=" + id,
                                        "--job-name=" + name,
                                        "--nodes=1",
                                        "--ntasks=1",
                                        "--nodelist=" + hold.node,
                                        "--overlap",
                                        "--whole",
                                        "--mem=0",
                                        "--cpu-bind=none",
                                        "--mpi=none",
                                        "--input=none",
                                        "--output=" + *output,
                                        "--open-mode=append",
                                        "--"};
  arguments.insert(arguments.end(), command.arguments.begin(), command.arguments.end());
  const ScratchLog log;
  const absl::StatusOr<pid_t> process =
      commands_.start_as(*user, arguments, command.folder, command.environment, log.path());
  if (!process.ok()) return process.status();
  while (true) {
    const bool srun_lives = alive(*process);
    runs = step_runs(id, name, hold.node, deadline);
    if (!runs.ok()) return runs.status();
    if (*runs) return absl::OkStatus();
    if (!srun_lives) return status_of("srun", log.text());
    if (std::chrono::steady_clock::now() + kLookAgain > deadline) {
      return absl::DeadlineExceededError(fmt::format("srun has not started step {}", name));
    }
    std::this_thread::sleep_for(kLookAgain);
  }
}

absl::Status SlurmScheduler::shrink(const SlurmJob& job, const std::string& node, SlurmBooks books,
                                    Deadline deadline) const {
  const std::vector<std::string> kept = kept_nodes(job, books);
  if (holds(kept, node) || job.nodes.size() == 1) {
    return absl::FailedPreconditionError(
        node == job.batch_host
            ? fmt::format("job {} runs its batch script on {}", job.id, node)
            : fmt::format("node {} is the last that job {} has itself", node, job.id));
  }
  std::vector<std::string> rest;
  for (const std::string& own : job.nodes) {
    if (absl::Status good = check_name(own, "node"); !good.ok()) return good;
    if (own != node) rest.push_back(own);
  }
  return commands_.change({"scontrol", "update", fmt::format("JobId={}", job.number),
                           "NodeList=" + compress_hostlist(rest)},
                          deadline);
}

absl::Status SlurmScheduler::give_back(const WorkerName& worker, const std::string& node,
                                       const std::vector<std::string>& order, Deadline deadline) {
  const std::string& checked = node.empty() ? std::string("staging") : node;
  if (absl::Status good = check_worker(worker, checked); !good.ok()) return good;
  for (const std::string& name : order) {
    if (name.empty()) continue;
    if (absl::Status good = check_name(name, "node"); !good.ok()) return good;
  }
  const Step step(*this, worker.job, deadline);
  if (!step.status().ok()) return step.status();
  const SlurmJob* job = step.job();
  if (!job) return gone(worker.job);
  const Companion* companion = step.books().companion_at(*job, node);
  if (companion && (companion->group != worker.group || companion->worker != worker.worker)) {
    return absl::FailedPreconditionError(
        fmt::format("companion {} on {} is worker {}/{}'s, not {}/{}'s", companion->job->id, node,
                    companion->group, companion->worker, worker.group, worker.worker));
  }
  const bool own = holds(job->nodes, node);
  if (own && holds(kept_nodes(*job, step.how()), node)) {
    return shrink(*job, node, step.how(), deadline);  // which says why not
  }
  // The order first: at no moment does it name a node that the job has no more.
  std::vector<HeldNode> held = held_of_admin_comment(job->admin_comment);
  held.erase(std::remove_if(held.begin(), held.end(),
                            [&](const HeldNode& other) {
                              return other.group == worker.group && other.worker == worker.worker;
                            }),
             held.end());
  const std::string comment = with_ranks(job->admin_comment, ranks_of(order), held);
  if (absl::Status written = write_admin_comment(*job, comment, deadline); !written.ok()) {
    return written;
  }
  if (companion) {
    return commands_.change({"scancel", fmt::format("{}", companion->job->number)}, deadline);
  }
  return own ? shrink(*job, node, step.how(), deadline) : absl::OkStatus();
}

absl::Status SlurmScheduler::extend(const Hold& hold, Deadline deadline) {
  if (absl::Status good = check_worker(hold.worker, hold.node); !good.ok()) return good;
  const Step step(*this, hold.worker.job, deadline);
  if (!step.status().ok()) return step.status();
  const SlurmJob* job = step.job();
  const Companion* companion = job ? step.books().companion_at(*job, hold.node) : nullptr;
  if (!companion) return absl::OkStatus();
  const int64_t early = seconds_short(*companion->job, *job);
  if (early <= 0) return absl::OkStatus();
  return commands_.change({"scontrol", "update", fmt::format("JobId={}", companion->job->number),
                           fmt::format("TimeLimit=+{}", (early + 59) / 60)},
                          deadline);
}

absl::Status SlurmScheduler::cancel(const Hold& hold, Deadline deadline) {
  if (absl::Status good = check_worker(hold.worker, hold.node); !good.ok()) return good;
  const Step step(*this, hold.worker.job, deadline);
  if (!step.status().ok()) return step.status();
  for (const Companion& companion : step.books().companions) {
    const std::string id = fmt::format("{}", companion.job->number);
    const bool is_workers = companion.of == hold.worker.job && companion.names_worker &&
                            companion.group == hold.worker.group &&
                            companion.worker == hold.worker.worker;
    if (hold.id.empty() ? !is_workers : id != hold.id) continue;
    // The id alone might be another's by now: numbers come around.
    if (!holds(companion.job->nodes, hold.node)) continue;
    return commands_.change({"scancel", id}, deadline);
  }
  const SlurmJob* job = step.job();
  if (!job || step.how() != SlurmBooks::kMerge) return absl::OkStatus();
  const HeldNode held{hold.worker.group, hold.worker.worker, hold.node};
  std::vector<HeldNode> all = held_of_admin_comment(job->admin_comment);
  const auto found = std::find(all.begin(), all.end(), held);
  if (found == all.end()) return absl::OkStatus();
  // A job for the node that was never merged has no id of its own in the hold.
  if (const Companion* companion = step.books().companion_at(*job, hold.node)) {
    absl::Status ended =
        commands_.change({"scancel", fmt::format("{}", companion->job->number)}, deadline);
    if (!ended.ok()) return ended;
  }
  if (holds(job->nodes, hold.node)) {
    if (absl::Status done = shrink(*job, hold.node, step.how(), deadline); !done.ok()) return done;
  }
  all.erase(found);
  const std::optional<std::string> ranks = ranks_of_admin_comment(job->admin_comment);
  std::vector<std::string> order;
  if (ranks) order = expand_hostlist(*ranks).value_or(order);
  return write_admin_comment(*job, with_ranks(job->admin_comment, order, all), deadline);
}

}  // namespace monkeytree
