#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "program.h"

namespace monkeytree {

/// `monkeytree controller` as a process of its own, on free ports, that ends with its owner.
class RunningController {
 public:
  /// `configuration`: all but journal and addresses. Waits until it has started.
  explicit RunningController(const std::string& configuration);
  ~RunningController();  ///< kills it
  RunningController(const RunningController&) = delete;
  RunningController& operator=(const RunningController&) = delete;

  /// HOST:PORT of the HTTP interface.
  const std::string& address() const { return address_; }
  const TemporaryFolder& folder() const { return folder_; }
  std::string log() const { return folder_.read("log"); }

  void start();
  void signal(int number) const;
  /// Exit code, or 128 + signal; -1 where it does not end within two minutes.
  int wait();

  /// Runs a command against it.
  ProgramRun run(std::vector<std::string> arguments) const;

 private:
  TemporaryFolder folder_;
  std::string address_;
  pid_t process_ = 0;
};

}  // namespace monkeytree
