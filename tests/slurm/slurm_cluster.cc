#include "slurm_cluster.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <string_view>
#include <utility>

namespace monkeytree {
namespace {

std::vector<std::string> arguments_of(const SlurmClusterOptions& options) {
  std::vector<std::string> out = {
      MONKEYTREE_SLURM_CLUSTER,      "--racks",   std::to_string(options.racks),        "--nodes",
      std::to_string(options.nodes), "--flavour", std::string(name_of(options.flavour))};
  if (!options.database) out.push_back("--no-database");
  if (options.rest) out.push_back("--rest");
  out.insert(out.end(), {"--address", options.address});
  for (const SlurmClusterOptions::Host& host : options.hosts) {
    out.insert(out.end(), {"--host", host.address + "=" + host.space});
  }
  for (const std::string& line : options.settings) {
    out.push_back("--set");
    out.push_back(line);
  }
  return out;
}

}  // namespace

std::string SlurmCluster::missing() {
  if (geteuid() != 0) return "a Slurm cluster of its own needs root";
  const char* path = std::getenv("PATH");
  const std::string folders = std::string(path ? path : "/usr/bin:/bin") + ":/usr/sbin:/sbin";
  for (const char* program : {"slurmctld", "slurmd", "slurmdbd", "squeue", "munged", "mariadbd"}) {
    if (find_in_path(program, folders).ok()) continue;
    return fmt::format("{} is not installed: scripts/setup installs it", program);
  }
  return "";
}

absl::StatusOr<std::unique_ptr<SlurmCluster>> SlurmCluster::start(
    const SlurmClusterOptions& options) {
  std::unique_ptr<SlurmCluster> out(new SlurmCluster);
  std::array<int, 2> in{}, from{};
  if (pipe2(in.data(), O_CLOEXEC) != 0 || pipe2(from.data(), O_CLOEXEC) != 0) {
    return absl::InternalError("pipe");
  }
  std::vector<std::string> words = arguments_of(options);
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  signal(SIGPIPE, SIG_IGN);
  out->keeper_ = fork();
  if (out->keeper_ == 0) {
    setsid();  // a Ctrl-C at the terminal is not for it: it cleans up when we are gone
    dup2(in[0], STDIN_FILENO);
    dup2(from[1], STDOUT_FILENO);
    execv(argv[0], argv.data());
    _exit(127);
  }
  close(in[0]);
  close(from[1]);
  out->to_keeper_ = in[1];
  out->from_keeper_ = from[0];
  const std::string line = out->hear();
  constexpr std::string_view kReady = "ready ";
  if (line.compare(0, kReady.size(), kReady) != 0) {
    std::string all = line;
    for (std::string more = out->hear(); !more.empty(); more = out->hear()) all += "\n" + more;
    return absl::InternalError(fmt::format("no Slurm cluster: {}", all));
  }
  out->folder_ = line.substr(kReady.size());
  return out;
}

SlurmCluster::~SlurmCluster() {
  if (to_keeper_ >= 0) close(to_keeper_);
  if (keeper_ > 0) {
    while (waitpid(keeper_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  if (from_keeper_ >= 0) close(from_keeper_);
}

std::string SlurmCluster::hear() {
  while (heard_.find('\n') == std::string::npos) {
    std::array<char, 4096> buffer{};
    const ssize_t got = read(from_keeper_, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return std::exchange(heard_, "");
    heard_.append(buffer.data(), static_cast<size_t>(got));
  }
  const size_t end = heard_.find('\n');
  std::string line = heard_.substr(0, end);
  heard_.erase(0, end + 1);
  return line;
}

void SlurmCluster::tell(const std::string& verb, const std::string& name) {
  const std::string line = verb + " " + name + "\n";
  ASSERT_EQ(write(to_keeper_, line.data(), line.size()), static_cast<ssize_t>(line.size()));
  ASSERT_EQ(hear(), "ok") << line;
}

std::string SlurmCluster::not_idle() {
  return run(
      {"sinfo", "--noheader", "--Node", "--states=ALLOC,MIX,COMP,DRAIN,DOWN", "--format=%N %T"});
}

CommandResult SlurmCluster::try_run(const std::vector<std::string>& arguments,
                                    const std::string& user) {
  Command command;
  command.arguments = arguments;
  command.environment = {
      {"PATH", "/usr/sbin:/usr/bin:/sbin:/bin"}, {"LC_ALL", "C"}, {"SLURM_CONF", slurm_conf()}};
  command.folder = "/tmp";
  command.output_limit = size_t{64} << 20;
  if (!user.empty()) {
    absl::StatusOr<UserIds> ids = find_user(user);
    if (!ids.ok()) return {1, "", std::string(ids.status().message())};
    command.user = *ids;
  }
  absl::StatusOr<CommandResult> result =
      run_command(command, std::chrono::steady_clock::now() + std::chrono::seconds(120));
  if (!result.ok()) return {1, "", std::string(result.status().message())};
  return *result;
}

std::string SlurmCluster::run(const std::vector<std::string>& arguments, const std::string& user) {
  const CommandResult result = try_run(arguments, user);
  EXPECT_EQ(result.exit_code, 0) << testing::PrintToString(arguments) << "\n" << result.err;
  return result.out + result.err;
}

}  // namespace monkeytree
