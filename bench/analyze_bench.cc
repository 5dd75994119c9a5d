/// What `monkeytree analyze` costs as a whole process, start to end, on a generated snapshot file.
/// Usage: analyze_bench [--smoke] [PROGRAM]

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "bench/churn.h"
#include "cluster/snapshot_json.h"

namespace monkeytree::bench {
namespace {

struct Run {
  int status = -1;
  double wall_ms = 0;
  double cpu_ms = 0;
  double peak_mb = 0;
};

double ms_of(const timeval& t) {
  return static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_usec) * 1e-3;
}

/// Runs a program with standard output thrown away.
Run run(std::vector<std::string> words) {
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  Run out;
  const auto start = std::chrono::steady_clock::now();
  const pid_t child = fork();
  if (child == 0) {
    const int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    dup2(null, STDOUT_FILENO);
    execv(arguments[0], arguments.data());
    _exit(127);
  }
  rusage usage{};
  wait4(child, &out.status, 0, &usage);
  out.wall_ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  out.cpu_ms = ms_of(usage.ru_utime) + ms_of(usage.ru_stime);
  out.peak_mb = static_cast<double>(usage.ru_maxrss) / 1024;
  return out;
}

/// Writes the file in a process of its own: a child's peak memory counts from its parent's.
bool generate(int gpus, const std::string& file) {
  const pid_t child = fork();
  if (child == 0) {
    ChurnOptions options;
    options.racks = gpus / 64;
    options.mix = JobMix::kBroad;
    Churn churn(options);
    for (int i = 0; i < options.racks * options.nodes_per_rack; ++i) churn.arrive();
    std::ofstream out(file, std::ios::binary);
    out << write_snapshot(churn.snapshot());
    out.close();
    _exit(out ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status == 0;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

int row(const std::string& program, const std::string& file, int gpus, int repeats,
        const std::vector<std::string>& extra) {
  std::vector<std::string> words = {program, "analyze", file};
  words.insert(words.end(), extra.begin(), extra.end());
  std::vector<double> wall, cpu, peak;
  for (int i = 0; i < repeats; ++i) {
    const Run result = run(words);
    if (result.status != 0) {
      fmt::print(stderr, "{} analyze {}: status {}\n", program, file, result.status);
      return 1;
    }
    wall.push_back(result.wall_ms);
    cpu.push_back(result.cpu_ms);
    peak.push_back(result.peak_mb);
  }
  std::ifstream in(file, std::ios::binary | std::ios::ate);
  fmt::print("{:>7} {:>8.2f} {:<8} {:>8.1f} {:>8.1f} {:>8.1f}\n", gpus,
             static_cast<double>(in.tellg()) / 1e6, extra.empty() ? "text" : "json", median(cpu),
             median(wall), median(peak));
  return 0;
}

int all(bool smoke, const std::string& program) {
  char folder[] = "/tmp/monkeytree-bench-XXXXXX";
  if (mkdtemp(folder) == nullptr) return 1;
  const std::string file = std::string(folder) + "/snapshot.json";
  fmt::print("monkeytree analyze, the whole process, median of {} runs\n", smoke ? 1 : 11);
  fmt::print("{:>7} {:>8} {:<8} {:>8} {:>8} {:>8}\n", "GPUs", "file MB", "output", "CPU ms",
             "wall ms", "peak MB");
  int failed = 0;
  for (int gpus : smoke ? std::vector<int>{1024} : std::vector<int>{1024, 16384, 131072}) {
    // Flushed, or a forked child would print it again.
    std::fflush(stdout);
    if (!generate(gpus, file)) return 1;
    for (const std::vector<std::string>& extra :
         {std::vector<std::string>{}, std::vector<std::string>{"--json"}}) {
      std::fflush(stdout);
      failed |= row(program, file, gpus, smoke ? 1 : 11, extra);
    }
  }
  unlink(file.c_str());
  rmdir(folder);
  return failed;
}

}  // namespace
}  // namespace monkeytree::bench

int main(int argc, char** argv) {
  bool smoke = false;
  std::string program = MONKEYTREE_PROGRAM;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--smoke") {
      smoke = true;
    } else {
      program = argument;
    }
  }
  return monkeytree::bench::all(smoke, program);
}
