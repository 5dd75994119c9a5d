#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

namespace monkeytree {

/// A program that runs beside a test and ends with its owner, also when that crashes.
class Process {
 public:
  Process() = default;
  /// `arguments`: the program, by path or as PATH finds it, and what it is told; `environment`
  /// comes on top of ours. Output and errors are appended to the file `log`.
  Process(const std::vector<std::string>& arguments,
          const std::map<std::string, std::string>& environment, const std::string& log);
  Process(Process&& other) noexcept;
  Process& operator=(Process&& other) noexcept;
  ~Process();

  pid_t id() const { return id_; }
  /// Sends the signal; for SIGKILL and SIGTERM also waits for the end.
  void signal(int number);
  bool running();
  /// The exit code, 128 + signal where it was killed; -1 where it goes on.
  int wait();

 private:
  pid_t id_ = 0;
  int exit_code_ = -1;
  bool ended_ = true;
};

/// A TCP port of loopback that is free now, as far as can be known.
int free_port();

}  // namespace monkeytree
