#include "live_system.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <httplib.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

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

constexpr const char* kToken = "0123456789abcdef0123456789abcdef";

std::string read_all(const std::string& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

LiveSystem::LiveSystem(const Options& options) : options_(options) {
  absl::StatusOr<std::unique_ptr<SlurmCluster>> cluster = SlurmCluster::start(options.slurm);
  if (!cluster.ok()) {
    ADD_FAILURE() << cluster.status();
    std::abort();
  }
  slurm_ = *std::move(cluster);
  for (const char* name : {"live", "live/jobs", "live/sockets"}) {
    std::filesystem::create_directories(folder() + "/" + name);
    chmod((folder() + "/" + name).c_str(), 0777);
  }
  if (uplinks() == uplinks_file()) std::ofstream(uplinks_file()) << options_.uplinks;
  std::ofstream(file("tokens")) << write_tokens(
      {{"test", Role::kOperate, digest_of(kToken), "2026-01-01"}});
  controllers_.resize(options.etcd.empty() ? 1 : 2);
  for (Controller& one : controllers_) one = {free_port(), free_port(), {}};
  for (size_t i = 0; i < controllers_.size(); ++i) {
    write_configuration(i);
    start_controller(i);
  }
  for (const std::string& node : node_names(options.slurm)) start_agent(node);
  EXPECT_TRUE(eventually([&] {
    return number("/api/v1/status", "/agents/connected", 0) == static_cast<double>(agents_.size());
  })) << get("/api/v1/status")
      << logs();
}

LiveSystem::~LiveSystem() {
  if (testing::Test::HasFailure()) std::fputs(logs().c_str(), stderr);
  for (size_t i = 0; i < controllers_.size(); ++i) kill_controller(i);
  for (const std::string& job : job_ids_) slurm_->try_run({"scancel", job});
  jobs_.clear();
  agents_.clear();
}

/// As the configuration names them.
std::string LiveSystem::uplinks() const {
  return options_.uplinks.find('\n') == std::string::npos ? options_.uplinks : uplinks_file();
}

void LiveSystem::write_configuration(size_t controller) const {
  const Controller& self = controllers_[controller];
  std::ofstream(file(fmt::format("controller-{}.yaml", controller)))
      << fmt::format("mode: {}\njournal: {}\ntokens: {}\n", options_.mode,
                     file(fmt::format("journal-{}.db", controller)), file("tokens"))
      << fmt::format("listen: {{http: '127.0.0.1:{}', agents: '{}:{}'}}\n", self.http_port,
                     options_.slurm.address, self.agents_port)
      << (options_.slurm.address == "127.0.0.1" ? "" : "insecure: true\n")
      << (options_.etcd.empty() ? ""
                                : fmt::format("etcd: {{endpoints: [{}], name: c{}, lease_s: 6}}\n",
                                              options_.etcd, controller))
      << fmt::format("scheduler: {{kind: slurm, topology: {}, slurm_conf: {}, uplinks: '{}'}}\n",
                     slurm_->topology(), slurm_->slurm_conf(), uplinks())
      << "poll_s: 1\n"
      << "policy: {min_age_s: 0, min_left_s: 0, cool_down_s: 0, pay_back: 0, moves_per_hour: 1000, "
         "moves_per_job: 1000, loop_s: 0}\n"
      << "steps: {first_retry_s: 0.1, longest_retry_s: 1, prepare_s: 60}\n"
      << options_.more;
}

void LiveSystem::start_controller(size_t which) {
  controllers_[which].process = Process({MONKEYTREE_PROGRAM, "controller", "--config",
                                         file(fmt::format("controller-{}.yaml", which))},
                                        {{"SLURM_CONF", slurm_->slurm_conf()}},
                                        file(fmt::format("controller-{}.log", which)));
  EXPECT_TRUE(eventually([&] { return !page(which, "/healthz").empty(); })) << logs();
}

void LiveSystem::kill_controller(size_t which) { controllers_[which].process.signal(SIGKILL); }

void LiveSystem::stop_controller(size_t which) {
  controllers_[which].process.signal(SIGTERM);
  EXPECT_EQ(controllers_[which].process.wait(), 0);
}

size_t LiveSystem::await_leader(std::optional<size_t> except) {
  EXPECT_TRUE(eventually([&] {
    for (size_t i = 0; i < controllers_.size(); ++i) {
      if (i == except || page(i, "/api/v1/status").find("\"leads\":true") == std::string::npos) {
        continue;
      }
      asked_ = i;
      return true;
    }
    return false;
  })) << logs();
  return asked_;
}

void LiveSystem::start_agent(const std::string& node, const std::string& more) {
  const Options::Place place = options_.place(node);
  const std::string config = file("agent-" + node + ".yaml");
  std::vector<std::string> controllers;
  for (const Controller& one : controllers_) {
    controllers.push_back(fmt::format("{}:{}", options_.slurm.address, one.agents_port));
  }
  std::ofstream(config) << fmt::format("node: {}\nsocket: {}\nstaging_quota: 256MiB\n", node,
                                       file("sockets/" + node))
                        << fmt::format("controller: [{}]\ndata: {}\n", fmt::join(controllers, ", "),
                                       place.data)
                        << (options_.slurm.address == "127.0.0.1" ? "" : "insecure: true\n")
                        << more;
  std::vector<std::string> words;
  if (!place.space.empty()) words = {"nsenter", "--net=" + place.space};
  for (const char* word : {MONKEYTREE_PROGRAM, "agent", "--config"}) words.emplace_back(word);
  words.push_back(config);
  agents_.erase(node);  // before the next one, who wants its socket
  agents_[node] = Process(words, {}, file("agent-" + node + ".log"));
}

void LiveSystem::kill_agent(const std::string& node) { agents_.erase(node); }

std::vector<std::string> LiveSystem::resources(int nodes) {
  const bool gres =
      slurm_->try_run({"scontrol", "show", "config"}).out.find("gpu") != std::string::npos;
  std::vector<std::string> words = {fmt::format("--nodes={}", nodes), "--exclusive",
                                    "--ntasks-per-node=1", "--time=60"};
  if (gres) words.push_back(fmt::format("--gres=gpu:{}", kGpusPerNode));
  words.push_back(fmt::format("--comment=dp={}{}", nodes,
                              gres ? fmt::format(",tp={}", kGpusPerNode) : std::string()));
  if (options_.rings > 0) words.back() += fmt::format(",rings={}", options_.rings);
  return words;
}

std::string LiveSystem::worker_command(int workers, int iterations) const {
  return fmt::format(
      "{} --folder {} --workers {} --iterations {} --interval-ms 20 --agent-socket {}/%N",
      MONKEYTREE_WORKER, file("jobs"), workers, iterations, file("sockets"));
}

std::string LiveSystem::submit_batch(int nodes, int iterations) {
  std::vector<std::string> words = {"sbatch", "--parsable", "--output=" + file("job-%j.log")};
  for (std::string& word : resources(nodes)) words.push_back(std::move(word));
  // The script is done when all workers are, those that have moved away from it too.
  words.push_back(fmt::format(
      "--wrap=srun --kill-on-bad-exit=0 {0}\n"
      "for w in $(seq 0 {1}); do\n"
      "  until [ \"$(tail -n 1 {2}/$SLURM_JOB_ID.0.$w.log | cut -d' ' -f1)\" = {3} ]; do\n"
      "    sleep 0.2\n  done\ndone",
      worker_command(nodes, iterations), nodes - 1, file("jobs"), iterations));
  const CommandResult result = slurm_->try_run(words);
  if (result.exit_code != 0) return "";
  std::string id = result.out.substr(0, result.out.find_first_not_of("0123456789"));
  job_ids_.push_back(id);
  return id;
}

std::string LiveSystem::submit(const std::vector<std::string>& nodes, int iterations) {
  return launch(nodes, worker_command(static_cast<int>(nodes.size()), iterations));
}

std::string LiveSystem::launch(const std::vector<std::string>& nodes, const std::string& command,
                               const std::map<std::string, std::string>& environment) {
  // salloc without a shell leaves a job without a batch script, so every worker may move; when all
  // workers have ended, the job is ended as its launcher would.
  std::vector<std::string> words = {"salloc", "--no-shell"};
  words.push_back(fmt::format("--nodelist={}", fmt::join(nodes, ",")));
  for (std::string& word : resources(static_cast<int>(nodes.size()))) {
    words.push_back(std::move(word));
  }
  std::string id = slurm_->run(words);
  const size_t digits = id.find_first_of("0123456789");
  id = id.substr(digits, id.find_first_not_of("0123456789", digits) - digits);
  job_ids_.push_back(id);
  std::map<std::string, std::string> all = environment;
  all["SLURM_CONF"] = slurm_->slurm_conf();
  jobs_[id] = Process(
      {"/bin/sh", "-c",
       fmt::format("exec srun --jobid={0} --nodes={1} --ntasks={1} --kill-on-bad-exit=0 {2}", id,
                   nodes.size(), command)},
      all, file("job-" + id + ".log"));
  notify();
  return id;
}

void LiveSystem::notify() { post("/api/v1/notify", "{}"); }

std::string LiveSystem::get(const std::string& path) { return page(asked_, path); }

std::string LiveSystem::page(size_t controller, const std::string& path) const {
  httplib::Client client("127.0.0.1", controllers_[controller].http_port);
  client.set_read_timeout(10);
  const httplib::Result answer = client.Get(path.c_str());
  return answer && answer->status == 200 ? answer->body : "";
}

int LiveSystem::post(const std::string& path, const std::string& body) {
  httplib::Client client("127.0.0.1", controllers_[asked_].http_port);
  client.set_read_timeout(60);
  client.set_default_headers({{"Authorization", fmt::format("Bearer {}", kToken)}});
  const httplib::Result answer = client.Post(path.c_str(), body, "application/json");
  return answer ? answer->status : 0;
}

double LiveSystem::number(const std::string& path, const std::string& pointer, double otherwise) {
  const nlohmann::json page = nlohmann::json::parse(get(path), nullptr, false);
  const nlohmann::json::json_pointer at(pointer);
  if (page.is_discarded() || !page.contains(at) || !page.at(at).is_number()) return otherwise;
  return page.at(at).get<double>();
}

SlurmSettings LiveSystem::slurm_settings() const {
  SlurmSettings settings;
  settings.topology = slurm_->topology();
  settings.slurm_conf = slurm_->slurm_conf();
  settings.uplinks = uplinks();
  return settings;
}

Snapshot LiveSystem::books() {
  SlurmScheduler scheduler(slurm_settings());
  absl::StatusOr<Observation> seen =
      scheduler.observe(std::chrono::steady_clock::now() + std::chrono::seconds(60));
  EXPECT_TRUE(seen.ok()) << seen.status();
  return seen.ok() ? seen->snapshot : Snapshot();
}

int LiveSystem::excess() {
  const Snapshot snapshot = books();
  return monkeytree::excess(fragmentation(snapshot), bounds(snapshot));
}

size_t LiveSystem::booked_nodes(const std::string& job) {
  SlurmScheduler scheduler(slurm_settings());
  const auto nodes =
      scheduler.booked(job, std::chrono::steady_clock::now() + std::chrono::seconds(60));
  EXPECT_TRUE(nodes.ok()) << nodes.status();
  return nodes.ok() ? nodes->size() : 0;
}

std::string LiveSystem::database() {
  std::vector<std::string> words = {
      "mariadb-dump",    "--no-defaults",          "--socket=" + folder() + "/db.sock",
      "--skip-comments", "--skip-extended-insert", "--order-by-primary",
      "slurm_acct"};
  for (const char* table :
       {"last_ran_table", "assoc_usage_hour_table", "assoc_usage_day_table",
        "assoc_usage_month_table", "usage_hour_table", "usage_day_table", "usage_month_table",
        "wckey_usage_hour_table", "wckey_usage_day_table", "wckey_usage_month_table"}) {
    words.insert(words.end() - 1, fmt::format("--ignore-table=slurm_acct.lab_{}", table));
  }
  return slurm_->run(words);
}

std::string LiveSystem::state(const std::string& job) {
  const std::string text = slurm_->try_run({"scontrol", "--oneliner", "show", "job", job}).out;
  const size_t at = text.find("JobState=");
  if (at == std::string::npos) return "gone";
  return text.substr(at + 9, text.find(' ', at) - at - 9);
}

int64_t LiveSystem::iterations(const std::string& job, int workers) {
  int64_t least = INT64_MAX;
  for (int w = 0; w < workers; ++w) {
    const std::vector<WorkerLogLine> log =
        read_worker_log(file(fmt::format("jobs/{}.0.{}.log", job, w)));
    least = std::min(least, log.empty() ? 0 : log.back().iteration);
  }
  return least;
}

std::string LiveSystem::check_logs(const std::string& job, int workers,
                                   std::optional<int> iterations) {
  std::vector<std::string> sums;
  for (int w = 0; w < workers; ++w) {
    const std::vector<WorkerLogLine> log =
        read_worker_log(file(fmt::format("jobs/{}.0.{}.log", job, w)));
    if (iterations && log.size() != static_cast<size_t>(*iterations)) {
      return fmt::format("worker {} of job {} did {} iterations", w, job, log.size());
    }
    std::set<int64_t> processes;
    for (size_t i = 0; i < log.size(); ++i) {
      if (log[i].iteration != static_cast<int64_t>(i + 1)) {
        return fmt::format("worker {} of job {}: line {} is iteration {}", w, job, i + 1,
                           log[i].iteration);
      }
      // Once a process has been succeeded it never comes back.
      const bool another = i > 0 && log[i].process != log[i - 1].process;
      if (another && processes.contains(log[i].process)) {
        return fmt::format("worker {} of job {}: process {} ran again", w, job, log[i].process);
      }
      processes.insert(log[i].process);
      if (w == 0) {
        sums.push_back(log[i].sum);
      } else if (i < sums.size() && log[i].sum != sums[i]) {
        return fmt::format("workers of job {} disagree about iteration {}", job, i + 1);
      }
    }
  }
  return "";
}

std::string LiveSystem::double_booked() const { return read_all(file("jobs/double-booked")); }

int LiveSystem::places(const std::string& job, int worker) {
  std::set<std::string> nodes;
  for (const WorkerLogLine& line :
       read_worker_log(file(fmt::format("jobs/{}.0.{}.log", job, worker)))) {
    nodes.insert(line.node);
  }
  return static_cast<int>(nodes.size());
}

std::string LiveSystem::logs() const {
  std::ostringstream out;
  for (const auto& entry : std::filesystem::directory_iterator(folder() + "/live")) {
    if (entry.path().extension() != ".log") continue;
    const std::string text = read_all(entry.path());
    out << "==== " << entry.path().filename().string() << "\n"
        << text.substr(text.size() > 3000 ? text.size() - 3000 : 0) << "\n";
  }
  return out.str();
}

}  // namespace monkeytree
