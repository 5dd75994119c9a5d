#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "agent/packet_socket.h"
#include "state/arena.h"
#include "wire/worker_protocol.h"

namespace monkeytree {

/// A worker's side of the protocol with its agent: keeps the connection up, remembers what was
/// asked, and answers what needs no work.
class Hook {
 public:
  Hook(std::string socket, const Arena& arena, WorkerHello hello);

  /// Waits up to `limit` for a packet, or until `fd` (-1: none) has `events`; handles all packets
  /// there are, connects again where the agent is gone. True where `fd` is ready.
  bool serve(std::chrono::milliseconds limit, int fd = -1, short events = 0);

  WorkerHello& now() { return now_; }
  const AgentWelcome& agent() const { return welcome_; }

  /// The migration that wants the worker to pause, or "".
  const std::string& pause_wanted() const { return pause_wanted_; }
  /// Whether a pause for a migration of this hash has been cancelled.
  bool cancelled(uint64_t hash) const;

  /// Stands still: answers pauses from now on.
  void paused();
  /// True once it may go on in the old generation.
  bool may_go_on() const { return now_.phase == WorkerPhase::kRunning; }
  std::optional<AgentRestore> take_restore() { return std::exchange(restore_, std::nullopt); }
  std::optional<AgentResume> take_resume() { return std::exchange(resume_, std::nullopt); }
  bool released() const { return released_; }

  void say(const FromWorker& message);
  /// Tells that the first iteration of the generation has been done, once.
  void stepped();

 private:
  void connect_again();
  void read_all();
  void take(const ToWorker& message);
  void take_pause(const AgentPause& message);
  void take_resume_message(const AgentResume& message);
  void take_cancel(const AgentCancel& message);

  std::string socket_path_;
  const Arena& arena_;
  WorkerHello now_;
  AgentWelcome welcome_;
  Fd socket_;
  std::chrono::steady_clock::time_point next_try_;
  std::string pause_wanted_;
  std::deque<std::string> cancelled_;
  std::optional<AgentRestore> restore_;
  std::optional<AgentResume> resume_;
  std::string stepped_;  ///< the generation for which it has been told
  bool released_ = false;
};

}  // namespace monkeytree
