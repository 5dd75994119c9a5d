#include "two_controllers.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <httplib.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <thread>

#include "base/eventually.h"
#include "cluster/fragmentation.h"
#include "service/tokens.h"
#include "worker_log.h"

namespace monkeytree {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::json;

constexpr int kNodes = 4;  // of a rack
constexpr const char* kToken = "secret of the test";

std::string make_folder() {
  std::string folder = testing::TempDir() + "monkeytree-two-XXXXXX";
  return mkdtemp(folder.data()) == nullptr ? "" : folder;
}

}  // namespace

TwoControllers::TwoControllers() : TwoControllers(Settings()) {}

TwoControllers::TwoControllers(const Settings& settings)
    : folder_(make_folder()),
      shared_(etcd_.endpoint()),
      processes_(folder_ + "/sockets", folder_ + "/workers.log"),
      cluster_(uniform_cluster(2, kNodes, 8, 1), processes_.workers()) {
  for (const char* name : {"sockets", "jobs", "0", "1"}) {
    std::filesystem::create_directory(file(name));
  }
  for (auto& wire : wires_) wire = std::make_unique<Wire>(etcd_.port());
  server_ = *EmulatedServer::open(cluster_, file("cluster.sock"));
  for (size_t i = 0; i < 2; ++i) {
    http_[i] = free_port();
    agents_ports_[i] = free_port();
  }
  write_configurations(settings);
  for (size_t i = 0; i < 2; ++i) start(i);
  for (int rack = 0; rack < 2; ++rack) {
    for (int n = 0; n < kNodes; ++n) {
      const std::string node = fmt::format("r{}n{}", rack, n);
      agents_.emplace_back(
          std::vector<std::string>{
              MONKEYTREE_PROGRAM, "agent", "--node", node, "--socket",
              file("sockets/" + node + ".sock"), "--controller",
              fmt::format("127.0.0.1:{},127.0.0.1:{}", agents_ports_[0], agents_ports_[1])},
          std::map<std::string, std::string>{}, file("agent-" + node + ".log"));
    }
  }
}

TwoControllers::~TwoControllers() {
  if (testing::Test::HasFailure()) std::fputs(logs().c_str(), stderr);
  for (Process& one : controllers_) one = Process();
  for (const std::string& job : cluster_.running()) cluster_.end(job).IgnoreError();
  agents_.clear();
  server_.reset();
  std::error_code error;
  std::filesystem::remove_all(folder_, error);
}

void TwoControllers::write_configurations(const Settings& settings) {
  for (size_t i = 0; i < 2; ++i) {
    std::ofstream(file(fmt::format("{}/controller.yaml", i)))
        << fmt::format("mode: {}\njournal: {}/{}/journal.db\n", settings.mode, folder_, i)
        << fmt::format("scheduler: {{kind: emulated, socket: {}}}\n", file("cluster.sock"))
        << fmt::format("listen: {{http: 127.0.0.1:{}, agents: 127.0.0.1:{}}}\n", http_[i],
                       agents_ports_[i])
        << fmt::format("etcd: {{endpoints: [{}], name: c{}, lease_s: 2}}\n",
                       settings.by_wires ? wires_[i]->endpoint() : etcd_.endpoint(), i)
        << fmt::format("tokens: {}\n", file("tokens"))
        << "poll_s: 0.3\ncoalesce_ms: 20\nlog_level: debug\n"
        << "policy: {min_age_s: 0, min_left_s: 0, cool_down_s: 0, pay_back: 0, "
           "moves_per_hour: 1000, moves_per_job: 1000, loop_s: 0}\n"
        << "steps: {first_retry_s: 0.1, longest_retry_s: 1, prepare_s: 60, resume_s: 60}\n";
  }
  std::ofstream(file("tokens")) << write_tokens(
      {{"test", Role::kOperate, digest_of(kToken), "2026-01-01"}});
}

void TwoControllers::start(size_t controller) {
  controllers_[controller] = Process({MONKEYTREE_PROGRAM, "controller", "--config",
                                      file(fmt::format("{}/controller.yaml", controller))},
                                     {}, file(fmt::format("controller-{}.log", controller)));
}

void TwoControllers::signal(size_t controller, int number) {
  controllers_[controller].signal(number);
}

std::string TwoControllers::get(size_t controller, const std::string& path) const {
  httplib::Client client("127.0.0.1", http_[controller]);
  client.set_connection_timeout(1);
  client.set_read_timeout(1);
  const httplib::Result answer = client.Get(path.c_str());
  return answer && answer->status == 200 ? answer->body : "";
}

std::pair<int, std::string> TwoControllers::post(size_t controller, const std::string& path) const {
  httplib::Client client("127.0.0.1", http_[controller]);
  client.set_read_timeout(60);
  const httplib::Result answer = client.Post(
      path.c_str(), {{"Authorization", "Bearer " + std::string(kToken)}}, "{}", "application/json");
  return answer ? std::pair(answer->status, answer->body) : std::pair(0, std::string());
}

std::optional<size_t> TwoControllers::leader() {
  for (size_t i = 0; i < 2; ++i) {
    if (!runs(i)) continue;
    const Json status = Json::parse(get(i, "/api/v1/status"), nullptr, false);
    if (status.is_object() && status["leadership"].is_object() &&
        status["leadership"]["leads"] == true) {
      return i;
    }
  }
  return std::nullopt;
}

size_t TwoControllers::await_leader(std::optional<size_t> except) {
  size_t found = 0;
  EXPECT_TRUE(eventually([&] {
    const std::optional<size_t> now = leader();
    if (!now || now == except) return false;
    found = *now;
    return true;
  }));
  return found;
}

std::string TwoControllers::submit(const std::vector<std::string>& nodes, int64_t state_bytes) {
  EmulatedJob job;
  job.groups = {static_cast<int>(nodes.size())};
  job.nodes = nodes;
  job.state_bytes = state_bytes;
  job.command.arguments = {MONKEYTREE_WORKER,
                           "--folder",
                           file("jobs"),
                           "--workers",
                           std::to_string(nodes.size()),
                           "--interval-ms",
                           "10",
                           "--state-bytes",
                           std::to_string(state_bytes)};
  const absl::StatusOr<std::string> id = cluster_.submit(job);
  EXPECT_TRUE(id.ok()) << id.status();
  return id.value_or("");
}

void TwoControllers::collide(int64_t state_bytes) {
  jobs_ = {submit({"r0n0", "r1n0"}, state_bytes), submit({"r0n1", "r1n1"}, state_bytes)};
  for (const std::string& job : jobs_) {
    EXPECT_TRUE(eventually([&] { return iterations(job, 0) > 2 && iterations(job, 1) > 2; }))
        << logs();
  }
}

void TwoControllers::end_jobs() {
  for (const std::string& job : jobs_) cluster_.end(job).IgnoreError();
  jobs_.clear();
}

bool TwoControllers::all_within() {
  const auto seen = cluster_.observe(Clock::now() + std::chrono::seconds(60));
  if (!seen.ok()) return false;
  return excess(fragmentation(seen->snapshot), bounds(seen->snapshot)) == 0;
}

int64_t TwoControllers::iterations(const std::string& job, int worker) const {
  const std::vector<WorkerLogLine> lines =
      read_worker_log(file(fmt::format("jobs/{}.0.{}.log", job, worker)));
  return lines.empty() ? 0 : lines.back().iteration;
}

std::string TwoControllers::wrong_with_logs() const {
  for (const std::string& job : jobs_) {
    std::vector<std::string> sums;
    for (int w = 0; w < 2; ++w) {
      const auto lines = read_worker_log(file(fmt::format("jobs/{}.0.{}.log", job, w)));
      std::set<int64_t> before;
      for (size_t i = 0; i < lines.size(); ++i) {
        const std::string where = fmt::format("job {}, worker {}, line {}", job, w, i + 1);
        if (lines[i].iteration != static_cast<int64_t>(i + 1)) return where + ": out of order";
        if (i > 0 && lines[i].process != lines[i - 1].process) before.insert(lines[i - 1].process);
        if (before.contains(lines[i].process)) return where + ": a process ran again";
        if (w == 0) {
          sums.push_back(lines[i].sum);
        } else if (i < sums.size() && sums[i] != lines[i].sum) {
          return where + ": the sums disagree";
        }
      }
    }
  }
  return "";
}

int TwoControllers::moved() const {
  int moved = 0;
  for (const std::string& job : jobs_) {
    for (int w = 0; w < 2; ++w) {
      std::set<std::string> nodes;
      for (const WorkerLogLine& line :
           read_worker_log(file(fmt::format("jobs/{}.0.{}.log", job, w)))) {
        nodes.insert(line.node);
      }
      moved += static_cast<int>(nodes.size()) - 1;
    }
  }
  return moved;
}

std::string TwoControllers::logs() const {
  constexpr std::streamoff kEnd = 6000;
  std::string out;
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    if (entry.path().extension() != ".log") continue;
    std::ifstream in(entry.path());
    std::stringstream text;
    text << in.rdbuf();
    const std::string all = text.str();
    out += fmt::format("==== {}\n{}\n", entry.path().filename().string(),
                       all.substr(all.size() > kEnd ? all.size() - kEnd : 0));
  }
  return out;
}

}  // namespace monkeytree
