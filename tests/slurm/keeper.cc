/// Keeps a real Slurm cluster on this machine for as long as a test needs it.
///
///     slurm_test_cluster [options]              until standard input ends
///     slurm_test_cluster [options] -- COMMAND   until the command ends; its exit code is ours
///       --racks N --nodes N        nodes of each rack; default 4 and 4
///       --flavour NAME             companion: select/cons_tres with GPUs; merge: select/linear;
///                                  merge-exclusive: select/cons_tres, whole nodes
///       --no-database              no slurmdbd
///       --rest                     slurmrestd at FOLDER/rest/socket
///       --set KEY=VALUE            a line of slurm.conf, may be given several times
///       --address ADDRESS          where the nodes reach slurmctld; default 127.0.0.1
///       --host ADDRESS=PATH        the next node is there, in the network namespace of that path
///
/// Prints "ready FOLDER" once all nodes are idle; FOLDER/etc/slurm.conf is the SLURM_CONF to use.
/// Then it takes lines from standard input: "stop NAME", "kill NAME", "start NAME", "pause NAME",
/// "continue NAME", with NAME of slurmctld, slurmdbd, mariadbd, munged or a node, and answers "ok".
/// "stop" asks the daemon to end and waits; "kill" does not ask.
/// However it ends, nothing stays: every process of the cluster, those of jobs among them, is a
/// descendant that comes back here when its parent dies, and is killed; daemons die with us.
#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <thread>

#include "base/command.h"
#include "slurm_files.h"

namespace monkeytree {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

/// How long a cluster may take to be ready, on the busiest of machines.
constexpr seconds kPatience{300};

struct Arguments {
  SlurmClusterOptions options;
  std::vector<std::string> command;
};

bool parse(int argc, char** argv, Arguments& out) {
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--") {
      out.command.assign(argv + i + 1, argv + argc);
      return !out.command.empty();
    }
    if (word == "--no-database") {
      out.options.database = false;
      continue;
    }
    if (word == "--rest") {
      out.options.rest = true;
      continue;
    }
    if (++i == argc) return false;
    const std::string value = argv[i];
    if (word == "--racks") {
      out.options.racks = std::atoi(value.c_str());
    } else if (word == "--nodes") {
      out.options.nodes = std::atoi(value.c_str());
    } else if (word == "--flavour" && flavour_of(value)) {
      out.options.flavour = *flavour_of(value);
    } else if (word == "--address") {
      out.options.address = value;
    } else if (word == "--host" && value.find('=') != std::string::npos) {
      const size_t at = value.find('=');
      out.options.hosts.push_back({value.substr(0, at), value.substr(at + 1)});
    } else if (word == "--set" && value.find('=') != std::string::npos) {
      out.options.settings.push_back(value);
    } else {
      return false;
    }
  }
  const size_t nodes = node_names(out.options).size();
  return nodes > 0 && (out.options.hosts.empty() || out.options.hosts.size() == nodes);
}

/// A port that stays ours: bound but not listened on, so that the kernel gives it to nobody who
/// asks for any port, while a daemon that names it (and allows reuse, as Slurm's do) may listen.
int keep_port() {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int yes = 1;
  setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  socklen_t size = sizeof address;
  if (bind(socket, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    return 0;
  }
  return ntohs(address.sin_port);
}

class Keeper {
 public:
  explicit Keeper(SlurmClusterOptions options) : options_(std::move(options)) {}
  Keeper(const Keeper&) = delete;
  Keeper& operator=(const Keeper&) = delete;
  ~Keeper() {
    end_descendants();
    std::error_code ignored;
    if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
  }

  const std::string& folder() const { return folder_; }
  const std::string& fault() const { return fault_; }

  bool start() {
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    std::string pattern = std::filesystem::temp_directory_path() / "monkeytree_slurm_XXXXXX";
    if (!mkdtemp(pattern.data())) return failed("no temporary folder");
    folder_ = pattern;
    std::filesystem::permissions(folder_, std::filesystem::perms(0755));  // for jobs of any user
    SlurmPorts ports;
    ports.controller = keep_port();
    ports.database = keep_port();
    for (size_t n = 0; n < node_names(options_).size(); ++n) ports.nodes.push_back(keep_port());
    if (!write_slurm_files(options_, ports, folder_)) return failed("cannot write the files");
    setenv("SLURM_CONF", (folder_ + "/etc/slurm.conf").c_str(), 1);
    setenv("MYSQL_UNIX_PORT", (folder_ + "/db.sock").c_str(), 1);
    for (char** name = environ; *name; ++name) {
      const std::string entry = *name;
      environment_[entry.substr(0, entry.find('='))] = entry.substr(entry.find('=') + 1);
    }
    describe_daemons();
    return start_munge() && (!options_.database || start_database()) && start_slurm() &&
           (!options_.rest || start_rest());
  }

  /// Carries out a line of standard input.
  std::string carry_out(const std::string& line) {
    const size_t blank = line.find(' ');
    const std::string verb = line.substr(0, blank);
    const std::string name = blank == std::string::npos ? "" : line.substr(blank + 1);
    const auto daemon = daemons_.find(name);
    if (daemon == daemons_.end()) return "unknown name";
    const pid_t process = daemon->second.process;
    if (verb == "start") {
      if (process > 0) return "runs already";
      run(name);
      return "ok";
    }
    if (process <= 0) return "does not run";
    if (verb == "pause" || verb == "continue") {
      kill(process, verb == "pause" ? SIGSTOP : SIGCONT);
      return "ok";
    }
    if (verb != "stop" && verb != "kill") return "unknown verb";
    kill(process, verb == "kill" ? SIGKILL : SIGTERM);
    waitpid(process, nullptr, 0);
    daemon->second.process = 0;
    return "ok";
  }

  /// Takes notice of processes that have ended.
  void reap(pid_t command, int& command_status, bool& command_ended) {
    int status = 0;
    pid_t ended = 0;
    while ((ended = waitpid(-1, &status, WNOHANG)) > 0) {
      if (ended == command) {
        command_status = status;
        command_ended = true;
      }
      for (auto& [name, daemon] : daemons_) {
        if (daemon.process == ended) daemon.process = 0;
      }
    }
  }

  pid_t spawn(const std::vector<std::string>& arguments, const std::string& log) {
    std::vector<char*> argv;
    for (const std::string& word : arguments) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    const pid_t parent = getpid();
    const pid_t child = fork();
    if (child != 0) return child;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(126);
    setpgid(0, 0);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    if (!log.empty()) {
      dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);
      const int out = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
      dup2(out, STDOUT_FILENO);
      dup2(out, STDERR_FILENO);
    }
    execvp(argv[0], argv.data());
    _exit(127);
  }

 private:
  struct Daemon {
    std::vector<std::string> arguments;
    pid_t process = 0;
  };

  bool failed(std::string why) {
    fault_ = std::move(why);
    return false;
  }

  void describe_daemons() {
    const std::string conf = folder_ + "/etc/slurm.conf";
    daemons_["munged"].arguments = {"munged",
                                    "--foreground",
                                    "--force",
                                    "--num-threads=4",
                                    "--key-file=" + folder_ + "/munge.key",
                                    "--socket=" + folder_ + "/munge.sock",
                                    "--pid-file=" + folder_ + "/pid/munged",
                                    "--log-file=" + folder_ + "/log/munged",
                                    "--seed-file=" + folder_ + "/munge.seed"};
    // Without its own tables and durability MariaDB is ready in a fifth of a second.
    daemons_["mariadbd"].arguments = {"mariadbd",
                                      "--no-defaults",
                                      "--user=root",
                                      "--datadir=" + folder_ + "/db",
                                      "--socket=" + folder_ + "/db.sock",
                                      "--pid-file=" + folder_ + "/pid/mariadbd",
                                      "--log-error=" + folder_ + "/log/mariadbd",
                                      "--skip-grant-tables",
                                      "--skip-networking",
                                      "--innodb-buffer-pool-size=64M",
                                      "--innodb-log-file-size=16M",
                                      "--innodb-lock-wait-timeout=900",
                                      "--innodb-flush-log-at-trx-commit=0",
                                      "--innodb-flush-method=nosync",
                                      "--innodb-doublewrite=0"};
    daemons_["slurmdbd"].arguments = {"slurmdbd", "-D"};
    // It refuses to run as root or as SlurmUser.
    daemons_["slurmrestd"].arguments = {"setpriv",
                                        "--reuid=daemon",
                                        "--regid=daemon",
                                        "--clear-groups",
                                        "--pdeathsig=KILL",
                                        "slurmrestd",
                                        "-f",
                                        conf,
                                        "-s",
                                        "openapi/v0.0.38",
                                        "-a",
                                        "rest_auth/local",
                                        "unix:" + folder_ + "/rest/socket"};
    daemons_["slurmctld"].arguments = {"slurmctld", "-D", "-f", conf};
    size_t next = 0;
    for (const std::string& node : node_names(options_)) {
      std::vector<std::string>& words = daemons_[node].arguments;
      // Not ip netns exec, which would hide the control groups.
      if (!options_.hosts.empty()) words = {"nsenter", "--net=" + options_.hosts[next++].space};
      for (const char* word : {"slurmd", "-D", "-f"}) words.emplace_back(word);
      words.insert(words.end(), {conf, "-N", node});
    }
  }

  void run(const std::string& name) {
    Daemon& daemon = daemons_.at(name);
    daemon.process = spawn(daemon.arguments, folder_ + "/log/" + name + ".out");
  }

  bool answers(const std::vector<std::string>& arguments, std::string* out = nullptr) {
    Command command;
    command.arguments = arguments;
    command.environment = environment_;
    command.output_limit = size_t{64} << 20;
    const absl::StatusOr<CommandResult> result = run_command(command, Clock::now() + seconds(20));
    if (result.ok() && out) *out = result->out;
    return result.ok() && result->exit_code == 0;
  }

  bool wait_for(const std::string& name, const std::function<bool()>& ready) {
    const Clock::time_point give_up = Clock::now() + kPatience;
    while (Clock::now() < give_up) {
      if (ready()) return true;
      int status = 0;
      if (waitpid(daemons_.at(name).process, &status, WNOHANG) > 0) {
        return failed(fmt::format("{} ended at once: {}", name, last_lines(name)));
      }
      std::this_thread::sleep_for(milliseconds(20));
    }
    return failed(fmt::format("{} is not ready: {}", name, last_lines(name)));
  }

  std::string last_lines(const std::string& name) const {
    std::string text;
    for (const char* end : {"", ".out"}) {
      std::ifstream in(folder_ + "/log/" + name + end);
      std::string log(std::istreambuf_iterator<char>(in), {});
      text += log.substr(log.size() - std::min<size_t>(log.size(), 1500));
    }
    return text;
  }

  bool start_munge() {
    std::ifstream random("/dev/urandom", std::ios::binary);
    std::string key(128, '\0');
    random.read(key.data(), static_cast<std::streamsize>(key.size()));
    std::ofstream(folder_ + "/munge.key", std::ios::binary) << key;
    std::filesystem::permissions(folder_ + "/munge.key", std::filesystem::perms(0400));
    run("munged");
    return wait_for("munged", [&] {
      return answers({"munge", "-S", folder_ + "/munge.sock", "-n"});
    });
  }

  bool start_database() {
    run("mariadbd");
    const bool ready = wait_for("mariadbd", [&] {
      return answers({"mariadb", "--no-defaults", "-S", folder_ + "/db.sock", "-e",
                      "create database if not exists slurm_acct"});
    });
    if (!ready) return false;
    run("slurmdbd");
    return wait_for("slurmdbd", [&] { return answers({"sacctmgr", "-n", "list", "cluster"}); });
  }

  bool start_slurm() {
    run("slurmctld");
    const std::vector<std::string> names = node_names(options_);
    for (const std::string& node : names) run(node);
    return wait_for("slurmctld", [&] {
      std::string text;
      if (!answers({"scontrol", "--oneliner", "show", "node"}, &text)) return false;
      size_t idle = 0, from = 0;
      while (from < text.size()) {
        const size_t end = std::min(text.find('\n', from), text.size());
        const std::string_view line = std::string_view(text).substr(from, end - from);
        // A start time says that the node's daemon has reported.
        idle +=
            line.find("State=IDLE ") != line.npos && line.find("SlurmdStartTime=2") != line.npos;
        from = end + 1;
      }
      return idle == names.size();
    });
  }

  bool start_rest() {
    std::filesystem::permissions(folder_ + "/rest", std::filesystem::perms(0777));
    run("slurmrestd");
    return wait_for("slurmrestd",
                    [&] { return std::filesystem::exists(folder_ + "/rest/socket"); });
  }

  /// Kills what has us as its parent, again and again until nothing has: the children of what dies
  /// come to us.
  static void end_descendants() {
    while (true) {
      for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
        const std::string name = entry.path().filename();
        if (name.find_first_not_of("0123456789") != std::string::npos) continue;
        std::ifstream in(entry.path() / "stat");
        std::string text(std::istreambuf_iterator<char>(in), {});
        const size_t end = text.rfind(')');
        if (end == std::string::npos) continue;
        if (std::atoi(text.c_str() + std::min(end + 4, text.size())) == getpid()) {
          kill(std::atoi(name.c_str()), SIGKILL);
        }
      }
      pid_t ended = 0;
      while ((ended = waitpid(-1, nullptr, WNOHANG)) > 0) {
      }
      if (ended < 0 && errno == ECHILD) return;
      std::this_thread::sleep_for(milliseconds(5));
    }
  }

  SlurmClusterOptions options_;
  std::string folder_, fault_;
  std::map<std::string, std::string> environment_;
  std::map<std::string, Daemon> daemons_;
};

/// Serves standard input, or waits for the command, until there is an end. Returns the exit code.
int serve(Keeper& keeper, const std::vector<std::string>& command, int signals) {
  const pid_t child = command.empty() ? 0 : keeper.spawn(command, "");
  std::string input;
  while (true) {
    pollfd ends[2] = {{child == 0 ? STDIN_FILENO : -1, POLLIN, 0}, {signals, POLLIN, 0}};
    poll(ends, 2, -1);
    if (ends[1].revents != 0) {
      signalfd_siginfo info{};
      if (read(signals, &info, sizeof info) == sizeof info && info.ssi_signo != SIGCHLD) {
        return 128 + static_cast<int>(info.ssi_signo);
      }
      int status = 0;
      bool ended = false;
      keeper.reap(child, status, ended);
      if (ended) return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
    if (ends[0].revents == 0) continue;
    char buffer[4096];
    const ssize_t got = read(STDIN_FILENO, buffer, sizeof buffer);
    if (got <= 0) return 0;
    input.append(buffer, static_cast<size_t>(got));
    for (size_t end = input.find('\n'); end != std::string::npos; end = input.find('\n')) {
      std::cout << keeper.carry_out(input.substr(0, end)) << std::endl;
      input.erase(0, end + 1);
    }
  }
}

int keep(int argc, char** argv) {
  Arguments arguments;
  if (!parse(argc, argv, arguments)) {
    std::cerr << "slurm_test_cluster [--racks N] [--nodes N] "
                 "[--flavour companion|merge|merge-exclusive] [--no-database] [--rest] [--set "
                 "KEY=VALUE]... [--address ADDRESS] [--host ADDRESS=PATH]... [-- COMMAND...]\n";
    return 2;
  }
  sigset_t watched;
  sigemptyset(&watched);
  for (int signal : {SIGCHLD, SIGTERM, SIGINT, SIGHUP}) sigaddset(&watched, signal);
  sigprocmask(SIG_BLOCK, &watched, nullptr);
  signal(SIGPIPE, SIG_IGN);
  const int signals = signalfd(-1, &watched, SFD_CLOEXEC);
  Keeper keeper(std::move(arguments.options));
  if (!keeper.start()) {
    std::cout << "failed " << keeper.fault() << std::endl;
    return 1;
  }
  if (arguments.command.empty()) std::cout << "ready " << keeper.folder() << std::endl;
  return serve(keeper, arguments.command, signals);
}

}  // namespace
}  // namespace monkeytree

int main(int argc, char** argv) { return monkeytree::keep(argc, argv); }
