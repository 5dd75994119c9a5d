// Agents and executor in one process, their messages handed over as they are.

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <fstream>
#include <list>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "agent/agent.h"
#include "service/agent_executor.h"
#include "world.h"

namespace monkeytree {
namespace {

AgentHub::Options hub_options(uint64_t fence) {
  return {fence, std::chrono::milliseconds(100), std::chrono::milliseconds(3'600'000),
          std::chrono::milliseconds(60'000), [](LogLevel, std::string_view, const LogFields&) {}};
}

/// An agent and its way to the hub: a queue and threads in place of a stream.
class LocalAgent final : public AgentLink {
 public:
  void welcome(uint64_t fence) override { agent_->accept_fence(fence).IgnoreError(); }
  LocalAgent(std::shared_ptr<AgentHub> hub, const AgentOptions& options) : hub_(std::move(hub)) {
    agent_ = Agent::start(options).value();
    agent_->on_change([this] { enqueue([this] { tell_state(); }); });
    agent_->accept_fence(hub_->options().fence).IgnoreError();
    session_ = hub_->came(agent_->hello(), this);
    thread_ = std::thread([this] { run(); });
    enqueue([this] { tell_state(); });
  }

  ~LocalAgent() override {
    hub_->left(agent_->hello().node, session_);
    agent_->on_change(nullptr);
    agent_->stop();
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
      wake_.notify_all();
    }
    thread_.join();
    for (std::thread& one : running_) one.join();
  }

  void send(const AgentCommand& command) override {
    const std::lock_guard lock(mutex_);
    if (stop_) return;
    running_.emplace_back([this, command] {
      AgentReply reply = agent_->perform(command);
      tell_state();
      hub_->replied(agent_->hello().node, session_.load(), std::move(reply));
    });
  }
  void send(const std::vector<RouteInstruction>& routes) override {
    enqueue([this, routes] { agent_->apply_routes(routes); });
  }
  void cut() override {}

 private:
  void enqueue(std::function<void()> task) {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
    wake_.notify_all();
  }

  void tell_state() {
    const std::lock_guard lock(telling_);
    AgentState state = agent_->state();
    const std::string node = agent_->hello().node;
    for (const WorkerState& worker : state.workers) {
      const auto command = agent_->command(worker.instance);
      if (command) hub_->told(node, session_, AgentWorkerCommand{worker.instance, *command});
    }
    hub_->told(node, session_, std::move(state));
  }

  void run() {
    std::unique_lock lock(mutex_);
    while (!stop_) {
      wake_.wait_for(lock, hub_->options().heartbeat, [this] { return stop_ || !tasks_.empty(); });
      std::deque<std::function<void()>> tasks;
      std::swap(tasks, tasks_);
      if (tasks.empty()) tasks.emplace_back([this] { tell_state(); });
      lock.unlock();
      for (const auto& task : tasks) task();
      lock.lock();
    }
  }

  const std::shared_ptr<AgentHub> hub_;
  std::unique_ptr<Agent> agent_;
  std::atomic<uint64_t> session_{0};
  std::mutex mutex_, telling_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> tasks_;
  std::list<std::thread> running_;
  bool stop_ = false;
  std::thread thread_;
};

class LocalWorld final : public World {
 public:
  LocalWorld() { start_controller(); }
  ~LocalWorld() override {
    agents_.clear();
    remove_folder();
  }
  Executor& executor() override { return *executor_; }

  void restart_controller() override {
    std::map<std::string, int64_t> again;
    for (auto& [node, agent] : agents_) again[node] = quotas_[node];
    agents_.clear();
    hub_->stop();
    executor_.reset();
    start_controller();
    for (const auto& [node, quota] : again) start_agent(node, quota);
  }
  void start_agent(const std::string& node, int64_t staging_quota) override {
    quotas_[node] = staging_quota;
    AgentOptions options;
    options.node = node;
    options.socket = socket(node);
    options.fence_file = socket(node) + ".epoch";
    options.staging_quota = staging_quota;
    options.staging_folder = socket(node) + ".staged";
    options.settle = std::chrono::milliseconds(10'000);
    options.log = [file = log_file(node), writing = std::make_shared<std::mutex>()](
                      LogLevel, std::string_view event, const LogFields& fields) {
      const std::lock_guard lock(*writing);
      std::ofstream(file, std::ios::app) << log_line(event, fields) << '\n';
    };
    agents_[node] = std::make_unique<LocalAgent>(hub_, options);
  }
  void kill_agent(const std::string& node) override { agents_.erase(node); }
  void cut_off(const std::string& node, bool cut) override {
    if (cut) {
      kill_agent(node);
    } else {
      start_agent(node, quotas_[node]);
    }
  }

 private:
  void start_controller() {
    hub_ = std::make_shared<AgentHub>(hub_options(++fence_));
    executor_ = std::make_unique<AgentExecutor>(hub_);
  }

  uint64_t fence_ = 0;
  std::shared_ptr<AgentHub> hub_;
  std::unique_ptr<AgentExecutor> executor_;
  std::map<std::string, int64_t> quotas_;
  std::map<std::string, std::unique_ptr<LocalAgent>> agents_;
};

}  // namespace

std::unique_ptr<World> make_world() { return std::make_unique<LocalWorld>(); }

}  // namespace monkeytree
