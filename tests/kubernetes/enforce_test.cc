// All of it: a real control plane whose pods are real processes, an agent for each node, and the
// controller, which may be killed at any moment. Racks come back under their bounds, and no
// iteration of any worker is lost or done twice.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>

#include "base/eventually.h"
#include "lab.h"
#include "service/tokens.h"
#include "worker_log.h"

namespace monkeytree {
namespace {

using Json = nlohmann::json;
using std::chrono::milliseconds;

class KubernetesEnforce : public ::testing::Test {
 protected:
  static constexpr int kNodes = 10;

  void SetUp() override {
    const std::string missing = KubeControlPlane::missing();
    if (!missing.empty()) GTEST_SKIP() << missing;
    lab_ = std::make_unique<KubeLab>(kNodes / 2, 2);
    ASSERT_TRUE(lab_->good());
    for (const char* name : {"jobs", "sockets"}) std::filesystem::create_directory(file(name));
    agents_port_ = free_port();
    http_port_ = free_port();
    std::ofstream(file("tokens")) << write_tokens(
        {{"test", Role::kOperate, digest_of("0123456789abcdef0123456789abcdef"), "2026-01-01"}});
    std::ofstream(file("controller.yaml"))
        << fmt::format("mode: enforce\njournal: {}\ntokens: {}\n", file("journal.db"),
                       file("tokens"))
        << fmt::format("listen: {{http: '127.0.0.1:{}', agents: '127.0.0.1:{}'}}\n", http_port_,
                       agents_port_)
        << lab_->scheduler_section(2)
        << "poll_s: 1\n"
           "policy: {min_age_s: 0, min_left_s: 0, cool_down_s: 0, pay_back: 0, moves_per_hour: "
           "1000, moves_per_job: 1000, loop_s: 0}\n"
           "steps: {first_retry_s: 0.1, longest_retry_s: 1, prepare_s: 60}\n";
    lab_->plane().run({[this](const Json& pod) { pod_starts(pod); },
                       [this](const std::string& uid) { pod_ends(uid); }});
    for (int i = 1; i <= kNodes; ++i) {
      const std::string node = fmt::format("n{}", i);
      agents_.push_back(
          Process({MONKEYTREE_PROGRAM, "agent", "--node", node, "--controller",
                   fmt::format("127.0.0.1:{}", agents_port_), "--socket", file("sockets/" + node),
                   "--data", "127.0.0.1", "--staging-quota", "64MiB"},
                  {}, file("agent-" + node + ".log")));
    }
    // These two have every rack at its bound and may not move.
    submit("a", "StatefulSet", {1, 6}, false);
    submit("c", "Job", {2, 7}, false);
    lab_->register_webhook();
    start_controller();
  }

  void TearDown() override {
    if (!lab_ || !lab_->good()) return;
    if (HasFailure()) {
      std::fputs(tail("controller.log", 12000).c_str(), stderr);
      std::fputs(tail("workers.log", 2000).c_str(), stderr);
    }
    lab_->plane().run({});
    controller_ = Process();
    agents_.clear();
    workers_.clear();
    lab_.reset();
  }

  std::string file(const std::string& name) const { return lab_->plane().folder() + "/" + name; }
  std::string tail(const std::string& name, size_t most) const {
    std::ifstream in(file(name));
    const std::string text(std::istreambuf_iterator<char>(in), {});
    return text.substr(text.size() > most ? text.size() - most : 0);
  }

  void start_controller() {
    controller_ = Process({MONKEYTREE_PROGRAM, "controller", "--config", file("controller.yaml")},
                          {}, file("controller.log"));
  }

  static std::string job_of(const std::string& app, const std::string& kind) {
    return (kind == "Job" ? "ml.job." : "ml.statefulset.") + app;
  }

  /// The container of a pod: a worker of two.
  void start_worker(const std::string& uid, const std::string& node, const std::string& job,
                    int worker, const std::map<std::string, std::string>& environment) {
    const std::lock_guard lock(mutex_);
    workers_[uid] =
        Process({MONKEYTREE_WORKER_PROGRAM, "--job", job, "--group", "0", "--worker",
                 std::to_string(worker), "--workers", "2", "--folder", file("jobs"), "--iterations",
                 "0", "--interval-ms", "20", "--agent-socket", file("sockets/" + node)},
                environment, file("workers.log"));
  }

  /// Pods that we have placed get their workers from submit(), when all are there; others must be
  /// successors.
  void pod_starts(const Json& pod) {
    std::map<std::string, std::string> environment;
    for (const Json& variable : pod["spec"]["containers"][0].value("env", Json::array())) {
      environment[variable["name"]] = variable["value"];
    }
    const std::string node = pod["spec"]["nodeName"];
    if (environment.contains("MONKEYTREE_SUCCESSOR_OF")) {
      ++successors_;
      start_worker(pod["metadata"]["uid"], node, environment["MONKEYTREE_JOB"],
                   std::stoi(environment["MONKEYTREE_WORKER"]), environment);
    } else if (!placing_) {
      ADD_FAILURE() << "a pod on " << node << " that nobody has sent there: " << pod["metadata"];
    }
  }
  void pod_ends(const std::string& uid) {
    const std::lock_guard lock(mutex_);
    workers_.erase(uid);
  }

  void submit(const std::string& app, const std::string& kind, const std::set<int>& nodes,
              bool allowed) {
    placing_ = true;
    lab_->place(app, kind, nodes, allowed);
    placing_ = false;
    int worker = 0;
    for (const KubeLab::Pod& pod : lab_->pods_of(app)) {
      start_worker(pod.uid, pod.node, job_of(app, kind), worker++, {});
    }
  }

  std::string log_file(const std::string& job, int worker) const {
    return file(fmt::format("jobs/{}.0.{}.log", job, worker));
  }

  int64_t iterations(const std::string& job) const {
    int64_t least = INT64_MAX;
    for (int w = 0; w < 2; ++w) {
      const std::vector<WorkerLogLine> log = read_worker_log(log_file(job, w));
      least = std::min(least, log.empty() ? 0 : log.back().iteration);
    }
    return least;
  }

  /// Each worker has done each iteration once, in one process at a time, and their sums agree.
  void expect_whole(const std::string& job) const {
    const std::vector<WorkerLogLine> first = read_worker_log(log_file(job, 0));
    const std::vector<WorkerLogLine> second = read_worker_log(log_file(job, 1));
    for (const std::vector<WorkerLogLine>& log : {first, second}) {
      std::set<int64_t> processes;
      for (size_t i = 0; i < log.size(); ++i) {
        ASSERT_EQ(log[i].iteration, static_cast<int64_t>(i + 1)) << job;
        if (i > 0 && log[i].process != log[i - 1].process) {
          ASSERT_FALSE(processes.contains(log[i].process)) << job << ": it ran again";
        }
        processes.insert(log[i].process);
      }
      EXPECT_LE(processes.size(), 3u) << job;
    }
    for (size_t i = 0; i < std::min(first.size(), second.size()); ++i) {
      ASSERT_EQ(first[i].sum, second[i].sum) << job << ", iteration " << i + 1;
    }
  }

  std::optional<Json> move_object() {
    const Json maps = lab_->plane().call("GET",
                                         "/api/v1/namespaces/monkeytree/configmaps?labelSelector="
                                         "app.kubernetes.io%2Fmanaged-by%3Dmonkeytree");
    if (maps["items"].empty()) return std::nullopt;
    return maps["items"][0]["data"];
  }
  std::string of_move(const std::string& field) {
    const std::optional<Json> object = move_object();
    return object ? object->value(field, "") : "";
  }

  /// A job that brings both racks over their bound comes, and is mended. Where `moment` is given
  /// the controller is killed once it holds, and started again.
  void mend(const std::string& kind, const std::function<bool()>& moment = {}) {
    const std::set<std::string> others_a = lab_->uids_of("a"), others_c = lab_->uids_of("c");
    // Job controllers keep in mind what they expect of a name for some minutes.
    app_ = fmt::format("x{}", ++count_);
    const std::string job = job_of(app_, kind);
    successors_ = 0;
    submit(app_, kind, {3, 8}, true);
    before_ = lab_->uids_of(app_);
    if (moment) {
      EXPECT_TRUE(eventually([&] { return moment() || mended(); }));
      controller_ = Process();
      start_controller();
    }
    EXPECT_TRUE(eventually([&] { return mended(); }));
    EXPECT_EQ(lab_->degrees({"a", "c", app_}),
              (std::map<std::string, int>{{"row/a", 2}, {"row/b", 2}}));
    std::set<std::string> stayed;
    for (const std::string& uid : lab_->uids_of(app_)) {
      if (before_.contains(uid)) stayed.insert(uid);
    }
    EXPECT_EQ(stayed.size(), 1u) << "the sibling";
    EXPECT_EQ(lab_->uids_of("a"), others_a);
    EXPECT_EQ(lab_->uids_of("c"), others_c);
    const int64_t then = iterations(job);
    EXPECT_TRUE(eventually([&] { return iterations(job) > then + 10; })) << "it goes on";
    expect_whole(job);
    lab_->remove(app_, kind);
    EXPECT_TRUE(eventually([&] { return lab_->uids_of(app_).empty(); }));
  }

  /// Within the bounds, and nothing is held any more.
  bool mended() {
    const std::vector<KubeLab::Pod> pods = lab_->pods_of(app_);
    return pods.size() == 2 && !pods[0].node.empty() && !pods[1].node.empty() &&
           lab_->rack_of(pods[0].node) == lab_->rack_of(pods[1].node) &&
           lab_->nodes_with_our_taint().empty() && lab_->move_objects() == 0;
  }

  std::unique_ptr<KubeLab> lab_;
  std::vector<Process> agents_;
  Process controller_;
  std::mutex mutex_;
  std::map<std::string, Process> workers_;  ///< by uid
  std::atomic<bool> placing_ = false;
  std::atomic<int> successors_ = 0;
  std::string app_;  ///< of the job that is mended
  int count_ = 0;
  std::set<std::string> before_;
  int http_port_ = 0, agents_port_ = 0;
};

TEST_F(KubernetesEnforce, BringsEveryRackUnderItsBound) {
  for (const char* kind : {"StatefulSet", "Job"}) {
    SCOPED_TRACE(kind);
    mend(kind);
    EXPECT_EQ(successors_, 1);
    if (HasFailure()) return;
  }
  expect_whole("ml.statefulset.a");
  expect_whole("ml.job.c");
}

TEST_F(KubernetesEnforce, SurvivesAKillAtEveryStep) {
  const std::vector<std::pair<const char*, std::function<bool()>>> moments = {
      {"nodes held", [&] { return !lab_->nodes_with_our_taint().empty(); }},
      {"leaving", [&] { return lab_->move_objects() > 0; }},
      {"evicted", [&] { return lab_->pods_of(app_).size() < 2; }},
      {"sent", [&] { return !of_move("to").empty(); }},
      {"told", [&] { return !of_move("successor-of").empty(); }},
      {"come",
       [&] {
         for (const KubeLab::Pod& pod : lab_->pods_of(app_)) {
           if (!before_.contains(pod.uid) && !pod.node.empty()) return true;
         }
         return false;
       }},
      {"its worker runs", [&] { return successors_ > 0; }},
      {"done", [&] { return successors_ > 0 && lab_->move_objects() == 0; }},
  };
  for (size_t i = 0; i < 2 * moments.size(); ++i) {
    const auto& [name, moment] = moments[i % moments.size()];
    const char* kind = i < moments.size() ? "StatefulSet" : "Job";
    SCOPED_TRACE(fmt::format("{}, killed when: {}", kind, name));
    mend(kind, moment);
    if (HasFailure()) return;
  }
}

TEST_F(KubernetesEnforce, SurvivesARestartOfTheServerMidway) {
  app_ = "x";
  const std::string job = job_of(app_, "StatefulSet");
  submit(app_, "StatefulSet", {3, 8}, true);
  EXPECT_TRUE(eventually([&] { return lab_->move_objects() > 0; }));
  lab_->plane().restart("kube-apiserver");
  EXPECT_TRUE(eventually([&] { return mended(); }));
  const int64_t then = iterations(job);
  EXPECT_TRUE(eventually([&] { return iterations(job) > then + 10; })) << "it goes on";
  expect_whole(job);
}

}  // namespace
}  // namespace monkeytree
