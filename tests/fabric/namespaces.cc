#include "namespaces.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <system_error>
#include <thread>

namespace monkeytree {
namespace {

absl::Status failed(std::string_view what) {
  return absl::InternalError(fmt::format("{}: {}", what, std::strerror(errno)));
}

bool is_number(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
}

}  // namespace

absl::StatusOr<Fd> new_namespace() {
  absl::StatusOr<Fd> space = absl::UnknownError("");
  std::thread([&] {
    if (unshare(CLONE_NEWNET) != 0) {
      space = failed("no network namespace");
      return;
    }
    Fd opened(open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC));
    if (opened.get() < 0) {
      space = failed("/proc/thread-self/ns/net");
      return;
    }
    space = std::move(opened);
  }).join();
  return space;
}

absl::Status inside_namespace(int space, const std::function<void()>& what) {
  absl::Status entered;
  std::thread([&] {
    if (setns(space, CLONE_NEWNET) != 0) {
      entered = failed("cannot enter the network namespace");
      return;
    }
    what();
  }).join();
  return entered;
}

ProcessName name_of_process(pid_t process) {
  std::ifstream in(fmt::format("/proc/{}/stat", process));
  const std::string text(std::istreambuf_iterator<char>(in), {});
  const size_t end = text.rfind(')');  // the command's name may hold anything
  ProcessName name;
  name.process = process;
  if (end == std::string::npos) return name;
  std::istringstream fields(text.substr(end + 1));
  std::string field;
  constexpr int kStart = 22 - 3;  // fields after the name, from 0
  for (int i = 0; i <= kStart && fields >> field; ++i) {
    if (i == 0 && (field == "Z" || field == "X")) return name;
    if (i == kStart) name.start = std::stoull(field);
  }
  return name;
}

ino_t namespace_number(const std::string& path) {
  struct stat status {};
  return stat(path.c_str(), &status) == 0 ? status.st_ino : 0;
}

std::vector<std::string> held_namespaces(pid_t process) {
  std::vector<std::string> held;
  std::error_code fault;
  const std::string folder = fmt::format("/proc/{}/fd", process);
  for (const auto& entry : std::filesystem::directory_iterator(folder, fault)) {
    std::error_code gone;
    const std::string target = std::filesystem::read_symlink(entry.path(), gone);
    if (target.starts_with("net:[")) held.push_back(entry.path());
  }
  return held;
}

std::vector<pid_t> all_processes() {
  std::vector<pid_t> processes;
  std::error_code fault;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", fault)) {
    const std::string name = entry.path().filename();
    if (is_number(name)) processes.push_back(std::stoi(name));
  }
  return processes;
}

}  // namespace monkeytree
