#pragma once

#include <string>
#include <vector>

#include "process.h"
#include "program.h"

namespace monkeytree {

/// `monkeytree controller` as a process of its own, on free ports, that ends with its owner.
class RunningController {
 public:
  /// `configuration`: all but journal and addresses. Waits until it has started.
  explicit RunningController(const std::string& configuration);

  /// HOST:PORT of the HTTP interface.
  const std::string& address() const { return address_; }
  const TemporaryFolder& folder() const { return folder_; }
  std::string log() const { return folder_.read("log"); }

  void start();
  void signal(int number) { process_.signal(number); }
  int wait() { return process_.wait(); }

  /// Runs a command against it.
  ProgramRun run(std::vector<std::string> arguments) const;

 private:
  TemporaryFolder folder_;
  std::string address_;
  Process process_;
};

}  // namespace monkeytree
