#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "inventory/scheduler.h"
#include "service/gate.h"
#include "wire/agent_messages.h"
#include "wire/log.h"

/// What the executor knows of the agents, and the calls that wait for them. The sessions
/// (grpc_session.h) fill it.
namespace monkeytree {

/// The way down to one agent. send() does not wait.
class AgentLink {
 public:
  virtual ~AgentLink() = default;
  virtual void send(const AgentCommand& command) = 0;
  virtual void send(const std::vector<RouteInstruction>& routes) = 0;
  /// The controller leads from now on, by that token.
  virtual void welcome(uint64_t fence) = 0;
  /// Ends the session soon.
  virtual void cut() = 0;
};

class AgentHub {
 public:
  struct Options {
    uint64_t fence = 1;
    std::chrono::milliseconds heartbeat, silent, patience;
    LogSink log;
    /// Of one of several controllers, in place of `fence`: 0 at each moment in which it does not
    /// lead. Nobody is commanded then.
    std::function<uint64_t()> leads = {};
  };
  explicit AgentHub(Options options) : options_(std::move(options)) {}

  struct Node {
    AgentLink* link = nullptr;  ///< null while not connected
    uint64_t session = 0;       ///< counts its sessions
    AgentHello hello;
    AgentState state;
    std::map<uint64_t, StartCommand> commands;  ///< by instance of the worker
    std::chrono::steady_clock::time_point heard;
    std::vector<RouteInstruction> routes;
    bool routes_unsure = false;     ///< those that another controller gave may stand there
    std::set<std::string> undoing;  ///< migrations it was told to undo in this session
  };

  // For sessions.

  /// The number of the session. An earlier one of the same node is cut.
  uint64_t came(AgentHello hello, AgentLink* link);
  /// A message of a session that is not the node's last is ignored.
  void told(const std::string& node, uint64_t session, AgentState state);
  void told(const std::string& node, uint64_t session, AgentWorkerCommand command);
  void replied(const std::string& node, uint64_t session, AgentReply reply);
  void left(const std::string& node, uint64_t session);

  // For the executor.

  struct Call {
    std::string node;
    AgentCommand command;
    AgentReply reply = {};
    bool done = false;
  };
  /// Has all calls answered, each by its agent, at once; a call whose agent loses its connection is
  /// sent again when it comes back. Calls not answered by the deadline get DeadlineExceeded, those
  /// whose agent stays away Unavailable. `stop_early`: returns at the first answer that is no OK.
  void call_all(std::vector<Call>& calls, Deadline deadline, bool stop_early = false);
  AgentReply call(const std::string& node, AgentCommand command, Deadline deadline);
  /// Sent to the node if it is connected; nobody waits for an answer.
  void send(const std::string& node, AgentCommand command);

  /// Shows all that is known, by node, with the lock held: `look` calls nothing here.
  void visit(const std::function<void(const std::string&, const Node&)>& look) const;
  /// What the agent of the node said of itself; empty where none has come.
  AgentHello hello(const std::string& node) const;
  /// Waits until all have come, for as long as a call would.
  absl::Status await(const std::set<std::string>& nodes, Deadline deadline);

  void set_routes(std::map<std::string, std::vector<RouteInstruction>> routes);
  /// Agents that come back with something of the migration, or to which it comes only now, are told
  /// to undo it.
  void remember_undone(const std::string& migration);

  /// Where keys were put by this process; agents' reports come later.
  void note_staged(const std::string& key, const std::string& node);
  void forget_staged(const std::string& key);
  std::map<std::string, std::string> staged() const;  ///< by key: node
  /// Waits until an agent has the worker's state staged, by another migration than `except`: its
  /// key and node. Nullopt: nobody has, of all that had time to come since this process began.
  /// Unavailable: the deadline came before that was known.
  absl::StatusOr<std::optional<std::pair<std::string, std::string>>> await_staged(
      const WorkerName& worker, const std::string& except, Deadline deadline);
  /// An agent that comes only now with such a state is told to drop it.
  void remember_let_go(const WorkerName& worker, const std::string& except);

  /// Somebody is not let in: logged, unless there are too many; then how many, later.
  void refused(LogFields fields);

  void cut_silent();
  void stop();

  /// What goes with each command; 0 while this controller does not lead.
  uint64_t fence() const { return options_.leads ? options_.leads() : options_.fence; }
  /// It leads now, or leads no more: calls under way end with Unavailable.
  void leadership_changed();

  const Options& options() const { return options_; }

 private:
  struct Waiting {
    Call* call = nullptr;
    uint64_t session = 0;  ///< to which it was sent; 0: to none
    std::chrono::steady_clock::time_point since;
  };
  // With mutex_ held.

  /// What a migration that was undone has left behind, or brings only now, goes.
  void undo_late(Node& node);
  void drop_late(Node& node);
  std::optional<std::pair<std::string, std::string>> find_staged(const WorkerName& worker,
                                                                 const std::string& except) const;
  /// The node where its session is that one.
  Node* current(const std::string& node, uint64_t session);
  void attend(Waiting& waiting, uint64_t fence, Deadline deadline);

  Options options_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, Node> nodes_;
  std::map<uint64_t, Waiting*> waiting_;  ///< by request
  Gate refusals_{1, 20};
  size_t refusals_unsaid_ = 0;
  std::deque<std::string> undone_;
  std::map<std::string, std::string> staged_;
  std::map<WorkerName, std::string> let_go_;  ///< worker: the migration that let its state go
  const std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
  uint64_t known_fence_ = 0;  ///< as leadership_changed() saw it last
  uint64_t last_request_ = 0, last_session_ = 0;
  bool stopped_ = false;
};

}  // namespace monkeytree
