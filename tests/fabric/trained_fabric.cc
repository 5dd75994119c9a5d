#include "trained_fabric.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "agent/asked_paths.h"
#include "base/eventually.h"
#include "ring_job.h"

namespace monkeytree {
namespace {

constexpr const char* kPython = "/usr/bin/python3";
constexpr std::chrono::seconds kPatience{600};

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::string text_of(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// Of all cores together since the machine started, in ticks.
struct CoreTime {
  double busy = 0, all = 0;
};
CoreTime core_time() {
  std::ifstream in("/proc/stat");
  std::string name;
  in >> name;  // "cpu": user, nice, system, idle, waiting for a disk, …
  CoreTime time;
  double ticks = 0;
  for (int i = 0; i < 8 && in >> ticks; ++i) {
    time.all += ticks;
    if (i != 3 && i != 4) time.busy += ticks;
  }
  return time;
}

/// Rack and host of "r1n2".
RingJob::Place place_of(const std::string& node) {
  RingJob::Place place;
  if (std::sscanf(node.c_str(), "r%dn%d", &place.rack, &place.host) != 2) ADD_FAILURE() << node;
  return place;
}

std::string space_of(const Fabric& fabric, const std::string& node) {
  const RingJob::Place place = place_of(node);
  return fabric.path(host_name(place.rack, place.host));
}

}  // namespace

std::string TrainedFabric::missing() {
  if (std::string why = Fabric::missing(); !why.empty()) return why;
  if (std::string why = SlurmCluster::missing(); !why.empty()) return why;
  if (std::system("/usr/bin/python3 -c 'import torch' 2>/dev/null") != 0) {
    return "no torch for /usr/bin/python3: scripts/setup installs it";
  }
  if (!std::filesystem::exists(MONKEYTREE_PYTHON "/monkeytree/worker.py")) {
    return "this build has no Python package";
  }
  return "";
}

TrainedFabric::TrainedFabric(const Options& options) : options_(options), began_(now()) {
  options_.fabric.management = true;
  options_.fabric.hosts_capped = true;  // as the simulator has it
  sweep_fabrics();                      // a run that was killed leaves what Slurm has started
  absl::StatusOr<std::unique_ptr<Fabric>> fabric = Fabric::up(options_.fabric);
  if (!fabric.ok()) {
    ADD_FAILURE() << fabric.status();
    std::abort();
  }
  fabric_ = *std::move(fabric);
  goodput_ = measure_goodput();
  // All that is started from here on is on the head: Slurm's daemons, the controller, ourselves.
  outside_ = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
  const int head = open(fabric_->path(kHead).c_str(), O_RDONLY | O_CLOEXEC);
  EXPECT_EQ(setns(head, CLONE_NEWNET), 0);
  close(head);

  LiveSystem::Options live;
  live.slurm.racks = options_.fabric.racks;
  live.slurm.nodes = options_.fabric.hosts;
  live.slurm.address = kHeadAddress;
  for (const std::string& node : node_names(live.slurm)) {
    const RingJob::Place place = place_of(node);
    live.slurm.hosts.push_back(
        {management_address(place.rack, place.host), space_of(*fabric_, node)});
  }
  live.place = [this](const std::string& node) {
    const RingJob::Place place = place_of(node);
    return LiveSystem::Options::Place{space_of(*fabric_, node),
                                      host_address(place.rack, place.host)};
  };
  live.rings = 1;
  live.uplinks = uplinks_table(0, std::nullopt);
  live_ = std::make_unique<LiveSystem>(live);
  EXPECT_EQ(live_->post("/api/v1/pause", "{\"why\": \"measured first\"}"), 200);

  for (const UplinkCount& one : fabric_->counts().value_or(std::vector<UplinkCount>())) {
    timeline_.uplinks.push_back(fmt::format("rack {} to {}", one.rack, one.spine));
  }
  watcher_ = std::thread([this] { watch(); });
}

TrainedFabric::~TrainedFabric() {
  stop_ = true;
  if (watcher_.joinable()) watcher_.join();
  jobs_.clear();
  live_.reset();
  setns(outside_, CLONE_NEWNET);
  close(outside_);
}

/// What a ring's connection has of an uplink of its own.
double TrainedFabric::measure_goodput() {
  constexpr size_t kBytes = 3000000;
  std::vector<std::unique_ptr<RingJob>> jobs;
  absl::StatusOr<std::unique_ptr<RingJob>> job =
      RingJob::connect(*fabric_, {{0, 0}, {1, 0}}, {kBytes, std::chrono::milliseconds(0)},
                       [](size_t, const PacketHeader&) { return uint16_t{0}; });
  EXPECT_TRUE(job.ok()) << job.status();
  jobs.push_back(*std::move(job));
  return static_cast<double>(kBytes) / median_iterations(jobs, 5).front();
}

Process TrainedFabric::store(const std::string& name) {
  const std::string port = folder_of(name) + "/port";
  Process store({kPython, std::string(MONKEYTREE_SOURCE_DIR) + "/tests/live/store.py", port}, {},
                live_->file("store-" + name + ".log"));
  EXPECT_TRUE(eventually([&] { return !text_of(port).empty(); })) << live_->logs();
  return store;
}

void TrainedFabric::train(const std::string& name, const std::vector<std::string>& nodes) {
  auto made = std::make_unique<Job>();
  made->name = name;
  made->ranks = nodes.size();
  std::filesystem::create_directories(folder_of(name));
  made->store = store(name);
  made->id = live_->launch(
      nodes,
      fmt::format("{} {}/tests/fabric/train_ring.py --out {} --parameters {} --compute-ms {}",
                  kPython, MONKEYTREE_SOURCE_DIR, folder_of(name), options_.parameters,
                  options_.compute_ms),
      {{"MASTER_ADDR", kHeadAddress},
       {"MASTER_PORT", text_of(folder_of(name) + "/port")},
       {"WORLD_SIZE", std::to_string(nodes.size())},
       {"OMP_NUM_THREADS", "1"},
       {"PYTHONDONTWRITEBYTECODE", "1"},
       {"PYTHONPATH", MONKEYTREE_PYTHON},
       {"MONKEYTREE_TEST_SOCKETS", live_->file("sockets")}});
  timeline_.jobs.push_back(name);
  jobs_.push_back(std::move(made));
}

void TrainedFabric::restart_agents(bool routed) {
  SlurmClusterOptions names;
  names.racks = options_.fabric.racks;
  names.nodes = options_.fabric.hosts;
  for (const std::string& node : node_names(names)) {
    std::string more;
    if (routed) {
      more =
          fmt::format("spines: [{}]\nroutes_file: {}\n",
                      fmt::join(spine_addresses(place_of(node).rack, options_.fabric.spines), ", "),
                      live_->file("routes-" + node + ".json"));
    }
    live_->start_agent(node, more);
  }
}

std::string TrainedFabric::uplinks_table(int rack, std::optional<int> spine) const {
  std::string table = "rack,uplinks,failed\n";
  for (int r = 0; r < options_.fabric.racks; ++r) {
    table += fmt::format("leaf{},{},{}\n", r, options_.fabric.spines,
                         r == rack && spine ? std::to_string(*spine) : "");
  }
  return table;
}

void TrainedFabric::tell_failed(int rack, std::optional<int> spine) {
  // Whole or not at all: the controller may be reading it.
  const std::string file = live_->uplinks_file();
  std::ofstream(file + ".new") << uplinks_table(rack, spine);
  std::filesystem::rename(file + ".new", file);
  live_->notify();
}

TrainedFabric::Job& TrainedFabric::job(const std::string& name) {
  return **std::find_if(jobs_.begin(), jobs_.end(),
                        [&](const std::unique_ptr<Job>& one) { return one->name == name; });
}

std::vector<TrainedFabric::Line> TrainedFabric::lines(const std::string& name, size_t rank) {
  std::vector<Line> out;
  std::ifstream in(fmt::format("{}/rank-{}.jsonl", folder_of(name), rank));
  for (std::string text; std::getline(in, text);) {
    const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
    if (!json.is_object()) continue;
    if (json.contains("seconds")) {
      out.back().seconds = json["seconds"];
      continue;
    }
    Line& line = out.emplace_back();
    line.iteration = json["iteration"];
    line.begin = json["begin"];
    line.loss = json["loss"];
    line.node = json["node"];
    line.process = json["pid"].dump();
    line.from = json["from"][0];
    line.from_port = json["from"][1];
    line.to = json["to"][0];
    line.to_port = json["to"][1];
  }
  return out;
}

int TrainedFabric::most_done(const Job& job) {
  size_t most = 0;
  for (size_t r = 0; r < job.ranks; ++r) most = std::max(most, lines(job.name, r).size());
  return static_cast<int>(most);
}

int TrainedFabric::least_done(const Job& job) {
  size_t least = SIZE_MAX;
  for (size_t r = 0; r < job.ranks; ++r) least = std::min(least, lines(job.name, r).size());
  return static_cast<int>(least);
}

void TrainedFabric::let(const Job& job, const std::string& text) {
  const std::string file = folder_of(job.name) + "/until";
  std::ofstream(file + ".new") << text;
  std::filesystem::rename(file + ".new", file);
}

bool TrainedFabric::run_until(const std::vector<std::string>& names,
                              const std::function<bool()>& enough) {
  for (const std::string& name : names) let(job(name), "1000000");
  const bool done = eventually(enough, kPatience);
  // Ranks are at most one iteration apart, so that none has come that far when it is written.
  for (const std::string& name : names) {
    const int last = most_done(job(name)) + 4;
    let(job(name), std::to_string(last));
    EXPECT_TRUE(eventually([&] { return least_done(job(name)) >= last; }, kPatience))
        << live_->logs();
  }
  return done;
}

std::map<std::string, double> TrainedFabric::measure(const std::vector<std::string>& names,
                                                     int iterations) {
  std::map<std::string, int> first;
  for (const std::string& name : names) first[name] = least_done(job(name));
  const CoreTime before = core_time();
  double last = 0;  // when all still ran
  EXPECT_TRUE(run_until(names, [&] {
    last = now();
    return std::all_of(names.begin(), names.end(), [&](const std::string& name) {
      return least_done(job(name)) >= first[name] + iterations + 1;
    });
  })) << live_->logs();
  const CoreTime after = core_time();
  busy_ = (after.busy - before.busy) / std::max(1.0, after.all - before.all);
  std::map<std::string, double> means;
  for (const std::string& name : names) {
    double seconds = 0;
    int count = 0;
    for (const Line& line : lines(name, 0)) {
      if (line.iteration > first[name] && line.seconds > 0 && line.begin + line.seconds < last) {
        seconds += line.seconds;
        ++count;
      }
    }
    means[name] = count == 0 ? 0 : seconds / count;
  }
  predict(names);
  return means;
}

PredictedJob TrainedFabric::as_it_is(const Job& job) {
  PredictedJob out;
  out.compute_us = options_.compute_ms * 1000;
  out.piece_bytes = static_cast<int64_t>(options_.parameters) * 4 / static_cast<int64_t>(job.ranks);
  std::vector<Line> last;
  for (size_t r = 0; r < job.ranks; ++r) {
    const std::vector<Line> all = lines(job.name, r);
    last.push_back(all.empty() ? Line() : all.back());
    const RingJob::Place place = place_of(last.back().node);
    out.ring.push_back({place.rack, place.host, -1});
  }
  for (size_t r = 0; r < job.ranks; ++r) {
    const PredictedJob::Host& next = out.ring[(r + 1) % job.ranks];
    if (next.rack == out.ring[r].rack) continue;
    AskedPaths::Options asked;
    asked.command = {"nsenter", "--net=" + fabric_->path(router_name(out.ring[r].rack))};
    asked.interface = fmt::format("h{}", out.ring[r].host);
    for (int spine = 0; spine < options_.fabric.spines; ++spine) {
      asked.uplinks[fmt::format("up{}", spine)] = spine;
    }
    AskedPaths router(asked);
    const PacketHeader header{
        parse_ipv4(last[r].from).value_or(0), parse_ipv4(last[r].to).value_or(0), Protocol::kTcp,
        static_cast<uint16_t>(last[r].from_port), static_cast<uint16_t>(last[r].to_port)};
    const absl::StatusOr<std::vector<int>> spines = router.uplinks({{header}});
    EXPECT_TRUE(spines.ok()) << spines.status();
    if (spines.ok()) out.ring[r].spine = spines->front();
  }
  return out;
}

void TrainedFabric::predict(const std::vector<std::string>& names) {
  std::vector<PredictedJob> jobs;
  for (const std::string& name : names) jobs.push_back(as_it_is(job(name)));
  const std::vector<double> seconds = predicted_iterations(
      jobs, options_.fabric.racks, options_.fabric.hosts, options_.fabric.spines, goodput_);
  predicted_.clear();
  for (size_t i = 0; i < names.size(); ++i) predicted_[names[i]] = seconds[i];
}

double TrainedFabric::reroute_without(int rack, int spine) {
  const std::string leaf = fmt::format("leaf{}", rack);
  const double begin = now();
  tell_failed(rack, spine);
  while (now() - begin < static_cast<double>(kPatience.count())) {
    int left_out = 0, others = 0;
    for (const auto& entry : std::filesystem::directory_iterator(live_->file(""))) {
      if (!entry.path().filename().string().starts_with("routes-")) continue;
      const nlohmann::json flows = nlohmann::json::parse(text_of(entry.path()), nullptr, false);
      if (!flows.is_array()) continue;
      for (const nlohmann::json& flow : flows) {
        if (flow["from_rack"] != leaf && flow["to_rack"] != leaf) continue;
        ++(flow["uplink"] == spine ? others : left_out);
      }
    }
    if (left_out > 0 && others == 0) return now() - begin;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return -1;
}

bool TrainedFabric::on_their_uplinks() {
  const nlohmann::json routes = nlohmann::json::parse(live_->get("/api/v1/routes"), nullptr, false);
  if (!routes.is_object()) return false;
  for (const std::unique_ptr<Job>& one : jobs_) {
    if (least_done(*one) == 0) return false;
    const PredictedJob now_at = as_it_is(*one);
    for (const PredictedJob::Host& host : now_at.ring) {
      if (host.spine < 0) continue;
      const std::string node = fmt::format("r{}n{}", host.rack, host.host);
      bool found = false;
      for (const nlohmann::json& flow : routes["flows"]) {
        found |= flow["job"] == one->id && flow["from"] == node && flow["uplink"] == host.spine;
      }
      if (!found) return false;
    }
  }
  return true;
}

int TrainedFabric::workers_moved() {
  int moved = 0;
  for (const std::unique_ptr<Job>& one : jobs_) {
    for (size_t r = 0; r < one->ranks; ++r) {
      std::set<std::string> processes;
      for (const Line& line : lines(one->name, r)) processes.insert(line.process);
      moved += static_cast<int>(processes.size()) - 1;
    }
  }
  return moved;
}

std::string TrainedFabric::compare_with_undisturbed() {
  int last = 0;
  for (const std::unique_ptr<Job>& one : jobs_) last = std::max(last, most_done(*one) + 4);
  for (const std::unique_ptr<Job>& one : jobs_) let(*one, fmt::format("{} last", last));
  const std::string plain = "undisturbed";
  std::filesystem::create_directories(folder_of(plain));
  const Process meeting = store(plain);
  std::ofstream(folder_of(plain) + "/until") << last << " last";
  const size_t ranks = jobs_.front()->ranks;
  std::vector<Process> processes;
  for (size_t r = 0; r < ranks; ++r) {
    processes.push_back(
        Process({kPython, std::string(MONKEYTREE_SOURCE_DIR) + "/tests/fabric/train_ring.py",
                 "--out", folder_of(plain), "--parameters", std::to_string(options_.parameters)},
                {{"MASTER_ADDR", "127.0.0.1"},
                 {"MASTER_PORT", text_of(folder_of(plain) + "/port")},
                 {"WORLD_SIZE", std::to_string(ranks)},
                 {"RANK", std::to_string(r)},
                 {"OMP_NUM_THREADS", "1"},
                 {"PYTHONDONTWRITEBYTECODE", "1"},
                 {"PYTHONPATH", MONKEYTREE_PYTHON},
                 {"MONKEYTREE_AGENT_SOCKET", live_->file("no-agent")}},
                live_->file("undisturbed.log")));
  }
  const auto done = [&](const std::string& name, size_t r) {
    return text_of(fmt::format("{}/rank-{}.done", folder_of(name), r));
  };
  for (size_t r = 0; r < ranks; ++r) {
    std::vector<std::string> wanted;
    if (!eventually([&] { return !done(plain, r).empty(); }, kPatience)) {
      return "the undisturbed run does not end\n" + live_->logs();
    }
    for (const Line& line : lines(plain, r)) wanted.push_back(line.loss);
    if (wanted.size() != static_cast<size_t>(last)) return "the undisturbed run is too short";
    for (const std::unique_ptr<Job>& one : jobs_) {
      if (!eventually([&] { return !done(one->name, r).empty(); }, kPatience)) {
        return fmt::format("job {} does not end\n{}", one->name, live_->logs());
      }
      std::vector<std::string> losses;
      for (const Line& line : lines(one->name, r)) losses.push_back(line.loss);
      if (losses != wanted) return fmt::format("losses of rank {} of job {} differ", r, one->name);
      if (done(one->name, r) != done(plain, r)) {
        return fmt::format("parameters of rank {} of job {} differ", r, one->name);
      }
    }
  }
  return "";
}

void TrainedFabric::mark(const std::string& text) {
  const std::lock_guard lock(mutex_);
  timeline_.marks.push_back({now() - began_, text});
}

void TrainedFabric::watch() {
  std::vector<UplinkCount> before = fabric_->counts().value_or(std::vector<UplinkCount>());
  double at = now();
  while (!stop_) {
    std::this_thread::sleep_for(std::chrono::milliseconds(400));
    const std::vector<UplinkCount> counts = fabric_->counts().value_or(std::vector<UplinkCount>());
    const double until = now();
    if (counts.size() != before.size()) continue;
    Timeline::Sample sample{at - began_, until - began_, {}};
    for (const UplinkCount& carried : difference(before, counts)) {
      const double bits = 8 * static_cast<double>(std::max(carried.up_bytes, carried.down_bytes));
      sample.used.push_back(bits / (until - at) / 1e6 / options_.fabric.uplink_mbit);
    }
    const std::lock_guard lock(mutex_);
    timeline_.samples.push_back(std::move(sample));
    before = counts;
    at = until;
  }
}

const Timeline& TrainedFabric::timeline() {
  const std::lock_guard lock(mutex_);
  timeline_.iterations.clear();
  for (size_t j = 0; j < jobs_.size(); ++j) {
    std::string process;
    for (const Line& line : lines(jobs_[j]->name, 0)) {
      timeline_.iterations.push_back({static_cast<int>(j), line.begin - began_, line.seconds});
    }
    for (size_t r = 0; r < jobs_[j]->ranks; ++r) {
      std::string node;
      for (const Line& line : lines(jobs_[j]->name, r)) {
        if (!node.empty() && node != line.node) {
          timeline_.marks.push_back(
              {line.begin - began_, fmt::format("{} {} → {}", jobs_[j]->name, node, line.node)});
        }
        node = line.node;
      }
    }
  }
  std::sort(timeline_.marks.begin(), timeline_.marks.end(),
            [](const Timeline::Mark& a, const Timeline::Mark& b) { return a.at < b.at; });
  return timeline_;
}

}  // namespace monkeytree
