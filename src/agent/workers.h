#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "agent/packet_socket.h"
#include "agent/slurm_job.h"
#include "state/arena.h"
#include "state/fd.h"
#include "state/transfer.h"
#include "wire/agent_messages.h"
#include "wire/log.h"
#include "wire/worker_protocol.h"

namespace monkeytree {

/// The worker processes of a node and what is said to them. The processes are the truth: what is
/// known of a worker came with its hello or with an answer, so an agent that has just started knows
/// as much as the one before it as soon as the workers have come back.
///
/// Thread-safe. Calls wait until their deadline; NotFound: no such worker, or its process is gone;
/// FailedPrecondition: refused, with the reason; Cancelled: the migration was called off meanwhile.
class Workers {
 public:
  struct Options {
    std::string socket;
    AgentWelcome welcome;
    LogSink log;
    std::function<void()> changed;  ///< states() would say something new; called without a lock
    /// What rings send, by worker, whenever it changes; called without a lock.
    std::function<void(const std::map<WorkerName, WorkerFlows>&)> flows_changed;
    /// How long after the start workers may take to come back before they count as gone.
    std::chrono::milliseconds settle{5000};
    /// How long the state of a worker that ended while paused is kept for who may still want it.
    std::chrono::milliseconds keep{3'600'000};
    size_t max_workers = 256;  ///< of one user
    /// The scheduler's job that a process runs in; "" where that cannot be told.
    std::function<std::string(pid_t)> job_of = slurm_job_of;
  };
  static absl::StatusOr<std::unique_ptr<Workers>> listen(Options options);
  ~Workers();

  std::vector<WorkerState> states() const;
  std::optional<StartCommand> command(uint64_t instance) const;

  /// Nothing happens where the worker is not there.
  void tell_ports(const WorkerName& name, const AgentPorts& ports);

  struct Successor {
    std::shared_ptr<Arena> arena;
    WorkerPhase phase = WorkerPhase::kWaiting;
    uint32_t user = 0;
  };
  /// Waits for the successor of the migration, up to the deadline.
  absl::StatusOr<Successor> await_successor(const std::string& migration, const WorkerName& name,
                                            Deadline deadline);
  /// Maps all pages of the worker's arena now, so that no first touch slows the move.
  absl::Status warm(const WorkerName& name);
  /// The arena of a worker that is paused for the migration; its process need not live any more.
  absl::StatusOr<std::shared_ptr<Arena>> paused_arena(const std::string& migration,
                                                      const WorkerName& name, Deadline deadline);
  /// The arena of a worker that has not been retired.
  absl::StatusOr<std::shared_ptr<Arena>> source_arena(const WorkerName& name, Deadline deadline);

  /// Tells the running workers of the job; asks for no answer.
  void announce(const std::string& migration, const std::string& job);
  absl::StatusOr<WorkerPaused> pause(const std::string& migration, const WorkerName& name,
                                     Deadline deadline);
  /// The arena of the successor must be committed.
  absl::StatusOr<int64_t> restore(const std::string& migration, const WorkerName& name,
                                  Deadline deadline);
  absl::Status retire(const std::string& migration, const WorkerName& name, Deadline deadline);
  /// The first iteration it has done in the new generation.
  absl::StatusOr<int64_t> resume(const std::string& migration, const WorkerName& name,
                                 const std::vector<WorkerPeer>& peers, Deadline deadline);
  /// The process has ended, killed where it would not by itself, and nothing of it is kept.
  absl::Status release(const std::string& migration, const WorkerName& name, Deadline deadline);
  absl::Status cancel(const std::string& migration, const WorkerName& name, Deadline deadline);
  /// Ends all successors of the migration that have not been resumed; forgets what is kept of
  /// workers that ended while paused for it.
  absl::Status end_successors(const std::string& migration, Deadline deadline);

  /// Calls for the migration that still wait end with Cancelled, and later ones at once, apart from
  /// cancel() and end_successors().
  void call_off(const std::string& migration);
  /// All calls that wait end with Unavailable.
  void stop_waiting();

 private:
  struct Worker {
    uint64_t instance = 0;
    WorkerHello now;  ///< as of its last message
    PeerProcess process;
    bool proven = false;  ///< it runs in the job that it speaks for
    Fd process_fd;
    int socket = -1;          ///< of its connection; -1 while it has lost us
    uint64_t connection = 0;  ///< counts its connections
    std::shared_ptr<Arena> arena;
    ino_t arena_inode = 0;
    int64_t epoch = 0;  ///< of the arena, where paused
    bool ended = false;
    std::chrono::steady_clock::time_point ended_at;
    bool leaving = false;
    WorkerFlows flows;
    std::string stepped;                ///< the last generation in which it has done an iteration
    std::deque<std::string> cancelled;  ///< the last few it has confirmed
    std::string failed, why;            ///< the migration that it could not follow last
  };
  struct Connection {
    Fd socket;
    PeerProcess process;
    uint64_t instance = 0;  ///< 0 before its hello
    uint64_t number = 0;    ///< in the order they came
  };
  using Lock = std::unique_lock<std::mutex>;
  using WorkerPointer = std::shared_ptr<Worker>;
  /// nullopt: not yet; otherwise how it came out.
  using Outcome = std::optional<absl::Status>;

  explicit Workers(Options options);
  absl::Status start();

  // The thread that reads. With mutex_ held, apart from loop().
  void loop();
  void accept_all();
  void drop_oldest_stranger();
  void read_from(int socket);
  void handle(int socket, Packet packet);
  void handle_hello(int socket, const WorkerHello& hello, Fd arena);
  absl::Status admit(int socket, const WorkerHello& hello, Fd fd);
  static absl::StatusOr<std::shared_ptr<Arena>> open_arena(const WorkerHello& hello, Fd fd);
  std::shared_ptr<Worker> add(const Connection& connection);
  std::string why_not_admitted(const Connection& connection, const WorkerHello& hello, bool proven);
  void remove_pretenders(const Connection& connection, const WorkerHello& hello);
  void take(Worker& worker, const FromWorker& message);
  void take_paused(Worker& worker, const WorkerPaused& message);
  void close_connection(int socket);
  void process_ended(uint64_t instance);
  void remove(uint64_t instance);
  void forget_old();
  std::map<WorkerName, WorkerFlows> flows() const;
  void watch(int fd);

  // With mutex_ held.
  WorkerPointer find(const WorkerName& name) const;
  bool alive(Worker& worker) const;
  void tell(Worker& worker, const ToWorker& message);
  void note_change();
  bool off(const std::string& migration) const;
  /// Waits until the worker is there; NotFound once it should have been.
  absl::StatusOr<WorkerPointer> await(Lock& lock, const std::string& migration,
                                      const WorkerName& name, Deadline deadline);
  /// Sends the message on each connection of the worker until `done` says how it came out.
  absl::Status converse(Lock& lock, const std::string& migration, const WorkerPointer& worker,
                        const ToWorker& message, const std::function<Outcome(Worker&)>& done,
                        Deadline deadline, bool may_be_off = false);
  absl::Status await_end(Lock& lock, const WorkerPointer& worker, const ToWorker& message,
                         Deadline deadline);
  void say(LogLevel level, std::string_view event, const Worker& worker, LogFields more = {}) const;

  Options options_;
  std::chrono::steady_clock::time_point started_;
  Fd listening_, poll_, wake_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false, unheard_ = false, flows_unheard_ = false;
  std::map<int, Connection> connections_;      ///< by socket
  std::map<int, uint64_t> processes_;          ///< by process_fd
  std::map<uint64_t, WorkerPointer> workers_;  ///< by instance
  std::deque<std::string> called_off_;         ///< migrations, the last few
  std::deque<std::pair<std::string, WorkerName>> released_;
  uint64_t last_instance_ = 0, last_connection_ = 0;
  std::thread thread_;
};

}  // namespace monkeytree
