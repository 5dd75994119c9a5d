// The built program's agents, and an executor over gRPC in this process.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <memory>
#include <utility>

#include "base/eventually.h"
#include "service/grpc_executor.h"
#include "world.h"

namespace monkeytree {
namespace {

class GrpcWorld final : public World {
 public:
  GrpcWorld() { start_controller(0); }
  ~GrpcWorld() override {
    agents_.clear();
    executor_.reset();
    remove_folder();
  }
  Executor& executor() override { return *executor_; }

  void restart_controller() override {
    const int port = executor_->port();
    executor_.reset();
    start_controller(port);
  }
  void start_agent(const std::string& node, int64_t staging_quota) override {
    agents_[node] = Process({MONKEYTREE_PROGRAM, "agent", "--node", node, "--socket", socket(node),
                             "--controller", fmt::format("127.0.0.1:{}", executor_->port()),
                             "--staging-quota", std::to_string(staging_quota)},
                            {}, log_file(node));
  }
  void kill_agent(const std::string& node) override { agents_.at(node).signal(SIGKILL); }
  void cut_off(const std::string& node, bool cut) override {
    agents_.at(node).signal(cut ? SIGSTOP : SIGCONT);
  }

 private:
  void start_controller(int port) {
    GrpcExecutorOptions options;
    options.listen = fmt::format("127.0.0.1:{}", port);
    options.fence = ++fence_;
    options.heartbeat = std::chrono::milliseconds(200);
    options.silent = std::chrono::milliseconds(3000);
    options.patience = std::chrono::milliseconds(60'000);
    // The old one's port may take a moment to be free.
    EXPECT_TRUE(eventually([&] {
      absl::StatusOr<std::unique_ptr<GrpcExecutor>> started = GrpcExecutor::start(options);
      if (!started.ok()) return false;
      executor_ = *std::move(started);
      return true;
    }));
  }

  uint64_t fence_ = 0;
  std::unique_ptr<GrpcExecutor> executor_;
  std::map<std::string, Process> agents_;
};

}  // namespace

std::unique_ptr<World> make_world() { return std::make_unique<GrpcWorld>(); }

}  // namespace monkeytree
