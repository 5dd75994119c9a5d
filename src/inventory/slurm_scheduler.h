#pragma once

#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "inventory/scheduler.h"
#include "inventory/slurm_books.h"
#include "inventory/slurm_commands.h"
#include "inventory/squeue.h"

/// A real Slurm, through its commands and what they print. docs/slurm.md, "Live operation".
namespace monkeytree {

struct SlurmSettings {
  std::string topology;        ///< topology.conf or topology.yaml, read anew each time
  std::string topology_name;   ///< of a topology.yaml; "" for its default
  std::string uplinks;         ///< a number, a file, or ""
  std::string programs;        ///< folder of squeue and the others; "": those in PATH
  std::string slurm_conf;      ///< "": as Slurm finds it
  std::string books = "auto";  ///< "companions" or "merge" to insist
  std::string slurmrestd;      ///< its unix socket, to read jobs and nodes there; "": by programs
  std::string slurmrestd_version = "v0.0.38";  ///< of its interface; Debian 12's
};

/// Turns for steps on one job, since a step reads the job's books and then writes them.
class JobTurns {
 public:
  /// False when the turn did not come by the deadline.
  bool take(const std::string& job, Deadline deadline);
  void end(const std::string& job);

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  std::set<std::string> taken_;
};

/// hold() asks for a node only where so much is left before its deadline, once it has read the
/// books.
inline constexpr std::chrono::milliseconds kLeastForSlurmHold{2000};

/// Needs root's rights for all but observe(): a companion is made as its job's user. With a
/// configuration in which moves would damage Slurm's books, or without those rights, it is
/// read-only and says why. Holds and their meaning are in docs/slurm.md. Each call runs a few
/// commands, of which squeue's whole output is the largest: O(jobs + nodes).
class SlurmScheduler final : public Scheduler {
 public:
  explicit SlurmScheduler(SlurmSettings settings);

  std::string describe() const override;
  std::string why_read_only() const override;
  bool replaces_workers() const override { return false; }
  absl::StatusOr<Observation> observe(Deadline deadline) override;
  absl::StatusOr<Hold> hold(const WorkerName& worker, const std::string& node,
                            const std::string& reservation, Deadline deadline) override;
  absl::Status start(const Hold& hold, const WorkerCommand& command, Deadline deadline) override;
  absl::Status give_back(const WorkerName& worker, const std::string& node,
                         const std::vector<std::string>& order, Deadline deadline) override;
  absl::Status cancel(const Hold& hold, Deadline deadline) override;
  absl::Status extend(const Hold& hold, Deadline deadline) override;
  absl::Status reserve(const std::string& name, const std::vector<std::string>& nodes,
                       Deadline deadline) override;
  absl::Status unreserve(const std::string& name, Deadline deadline) override;
  absl::StatusOr<std::vector<std::string>> booked(const std::string& job,
                                                  Deadline deadline) override;

 private:
  /// A running job with a companion's comment.
  struct Companion {
    const SlurmJob* job = nullptr;
    std::string of;
    int group = 0, worker = 0;
    bool names_worker = false;
  };

  /// Slurm's queue, sorted out.
  struct Books {
    SlurmQueue queue;
    QueueLayout layout;  ///< looks into `queue`
    std::vector<Companion> companions;

    /// The job that holds nodes and is not about to end; by its id or number.
    const SlurmJob* job(const std::string& id) const;
    const JobLayout* layout_of(const SlurmJob& job) const;
    /// Companions of the job that are its own user's.
    std::vector<const Companion*> companions_of(const SlurmJob& job) const;
    const Companion* companion_at(const SlurmJob& job, const std::string& node) const;
  };

  struct Configuration {
    SlurmConfig config;
    BooksChoice choice;
  };

  /// A step on a job: its turn, its books, the configuration.
  class Step;

  /// Jobs or nodes as text: slurmrestd's page where there is one, else what the program prints.
  absl::StatusOr<std::string> look(const std::string& page, std::vector<std::string> program,
                                   Deadline deadline) const;
  absl::StatusOr<Books> read_books(Deadline deadline, Diagnostics& diagnostics) const;
  absl::StatusOr<Configuration> read_configuration(Deadline deadline);
  absl::StatusOr<Configuration> known_configuration(Deadline deadline);
  absl::Status check_worker(const WorkerName& worker, const std::string& node) const;

  void add_holds(const Books& books, const Configuration& configuration, Observation& out) const;
  absl::StatusOr<std::vector<std::string>> reservations(Deadline deadline) const;

  absl::StatusOr<UserIds> user_of(const SlurmJob& job) const;
  absl::Status write_admin_comment(const SlurmJob& job, const std::string& comment,
                                   Deadline deadline) const;
  absl::StatusOr<std::string> allocate(const WorkerName& worker, const std::string& node,
                                       const std::string& reservation, const SlurmJob& job,
                                       SlurmBooks books, Deadline deadline) const;
  absl::StatusOr<Hold> settle(const WorkerName& worker, const std::string& node,
                              const std::string& allocation, bool in_reservation, SlurmBooks books,
                              Deadline deadline) const;
  absl::Status shrink(const SlurmJob& job, const std::string& node, SlurmBooks books,
                      Deadline deadline) const;
  absl::StatusOr<bool> step_runs(const std::string& job, const std::string& step,
                                 const std::string& node, Deadline deadline) const;
  absl::StatusOr<std::string> output_of(const SlurmJob& job, Deadline deadline) const;

  const SlurmSettings settings_;
  const SlurmCommands commands_;
  JobTurns turns_;
  mutable std::mutex mutex_;
  std::optional<Configuration> configuration_;  ///< as last read
};

/// What reservations made by reserve() are called in Slurm: this and the name.
inline constexpr std::string_view kReservationPrefix = "monkeytree-";
/// They end by themselves after this, should nobody come back to end them.
inline constexpr int kReservationMinutes = 60;

}  // namespace monkeytree
