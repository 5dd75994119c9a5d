/// What importing Slurm's files costs: a large `squeue --json` with its job_resources, and 10,000
/// nodes in 500 leaves under three levels. Each import runs in a process of its own, so that its
/// peak memory is its own.
/// Usage: import_bench [--smoke]

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "cluster/snapshot_json.h"
#include "inventory/import.h"

namespace monkeytree::bench {
namespace {

constexpr int kNodesPerLeaf = 20;

std::string node(int i) { return fmt::format("n{:05}", i); }

/// Three levels: leaves of 20 nodes, ten of which hang on a middle switch, all under one root.
void write_topology(const std::string& file, int nodes) {
  std::ofstream out(file);
  const int leaves = nodes / kNodesPerLeaf;
  for (int leaf = 0; leaf < leaves; ++leaf) {
    out << fmt::format("SwitchName=leaf{} Nodes=n[{:05}-{:05}]\n", leaf, leaf * kNodesPerLeaf,
                       (leaf + 1) * kNodesPerLeaf - 1);
  }
  const int middles = (leaves + 9) / 10;
  for (int m = 0; m < middles; ++m) {
    out << fmt::format("SwitchName=mid{} Switches=leaf[{}-{}]\n", m, m * 10,
                       std::min(leaves, m * 10 + 10) - 1);
  }
  out << fmt::format("SwitchName=root Switches=mid[0-{}]\n", middles - 1);
}

/// `scontrol show node -o`, cut to what is read and some of what is not.
void write_nodes(const std::string& file, int nodes) {
  std::ofstream out(file);
  for (int i = 0; i < nodes; ++i) {
    out << fmt::format(
        "NodeName={} Arch=x86_64 CPUAlloc=64 AvailableFeatures=(null) "
        "Gres=gpu:h200:8(S:0-1) NodeAddr={} RealMemory=1000 State=ALLOCATED "
        "ThreadsPerCore=1 CfgTRES=cpu=64,mem=1000M,billing=64\n",
        node(i), node(i));
  }
}

/// A node's part of job_resources, indented as Slurm 22.05 prints it: some 5 KB for 64 cores.
std::string resources_of_node(const std::string& name, int cores) {
  std::string out = "          {\n            \"sockets\": {\n";
  for (int socket = 0; socket < 2; ++socket) {
    out += fmt::format("              \"{}\": {{\n                \"cores\": {{\n", socket);
    for (int core = 0; core < cores / 2; ++core) {
      out += fmt::format("                  \"{}\": \"allocated\"{}\n", core,
                         core + 1 < cores / 2 ? "," : "");
    }
    out += fmt::format("                }}\n              }}{}\n", socket == 0 ? "," : "");
  }
  return out + fmt::format(
                   "            }},\n            \"nodename\": \"{}\",\n"
                   "            \"cpus_used\": 0,\n            \"memory_used\": 0,\n"
                   "            \"memory_allocated\": 0\n          }}",
                   name);
}

/// Jobs of 16 nodes on all nodes, then finished ones until the file is large enough.
int64_t write_jobs(const std::string& file, int nodes, int64_t bytes) {
  std::ofstream out(file);
  out << "{\n  \"meta\": {\n    \"Slurm\": {\"release\": \"22.05.8\"}\n  },\n  \"jobs\": [";
  int id = 1;
  for (int first = 0; first + 16 <= nodes || out.tellp() < bytes; first += 16, ++id) {
    const bool running = first + 16 <= nodes;
    const int at = running ? first : first % (nodes - 16);
    out << fmt::format(
        "{}\n    {{\n      \"account\": \"\",\n      \"array_job_id\": 0,\n"
        "      \"array_task_id\": null,\n      \"comment\": \"dp=16,tp=8,pp=1\",\n",
        id == 1 ? "" : ",", id);
    for (int field = 0; field < 80; ++field) out << "      \"field" << field << "\": 0,\n";
    out << fmt::format(
        "      \"gres_detail\": [\n        \"gpu:8(IDX:0-7)\"\n      ],\n"
        "      \"job_id\": {},\n      \"job_resources\": {{\n"
        "        \"nodes\": \"n[{:05}-{:05}]\",\n        \"allocated_nodes\": [\n",
        id, at, at + 15);
    for (int i = 0; i < 16; ++i) {
      out << resources_of_node(node(at + i), 64) << (i < 15 ? ",\n" : "\n");
    }
    out << fmt::format(
        "        ]\n      }},\n      \"job_state\": \"{}\",\n      \"name\": \"llm\",\n"
        "      \"nodes\": \"n[{:05}-{:05}]\",\n      \"tres_per_node\": \"gres:gpu:8\",\n"
        "      \"user_name\": \"root\"\n    }}",
        running ? "RUNNING" : "COMPLETED", at, at + 15);
  }
  out << "\n  ]\n}\n";
  return static_cast<int64_t>(out.tellp());
}

/// Imports in a process of its own and prints what it took.
bool measure(std::string_view what, const SlurmFiles& files, int64_t bytes) {
  const auto start = std::chrono::steady_clock::now();
  const pid_t child = fork();
  if (child == 0) {
    Diagnostics diagnostics;
    const std::optional<Snapshot> snapshot = import_slurm(files, diagnostics);
    std::fputs(diagnostics.text().c_str(), stderr);
    _exit(snapshot && !write_snapshot(*snapshot).empty() ? 0 : 1);
  }
  int status = 0;
  rusage usage{};
  wait4(child, &status, 0, &usage);
  const double wall =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  const double cpu = seconds(usage.ru_utime) + seconds(usage.ru_stime);
  const double megabytes = static_cast<double>(bytes) * 1e-6;
  fmt::print(
      "{:<34} {:>7.1f} MB  cpu {:>6.3f} s  wall {:>6.3f} s  {:>6.0f} MB/s of cpu  peak {:>5.0f} "
      "MB\n",
      what, megabytes, cpu, wall, megabytes / cpu, static_cast<double>(usage.ru_maxrss) * 1024e-6);
  std::fflush(stdout);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

int run(bool smoke) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::temp_directory_path() / fmt::format("import_bench_{}", getpid());
  fs::create_directories(folder);
  const auto path = [&](const char* name) { return (folder / name).string(); };
  const int64_t wanted = smoke ? 10'000'000 : 300'000'000;
  write_topology(path("topology.conf"), 10000);
  write_nodes(path("nodes.txt"), 10000);
  { std::ofstream(path("none.json")) << "{\"jobs\": []}\n"; }
  bool good =
      measure("10,000 nodes in 500 leaves", {path("topology.conf"), path("none.json"), "", "8", ""},
              static_cast<int64_t>(fs::file_size(path("topology.conf"))));
  good &= measure("the same with --nodes",
                  {path("topology.conf"), path("none.json"), path("nodes.txt"), "8", ""},
                  static_cast<int64_t>(fs::file_size(path("nodes.txt"))));
  const int64_t bytes = write_jobs(path("jobs.json"), 10000, wanted);
  good &= measure("squeue --json and --nodes",
                  {path("topology.conf"), path("jobs.json"), path("nodes.txt"), "8", ""}, bytes);
  fs::remove_all(folder);
  return good ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace
}  // namespace monkeytree::bench

int main(int argc, char** argv) {
  return monkeytree::bench::run(argc > 1 && std::string_view(argv[1]) == "--smoke");
}
