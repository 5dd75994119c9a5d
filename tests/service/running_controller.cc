#include "running_controller.h"

#include <gtest/gtest.h>

#include "base/eventually.h"

namespace monkeytree {
RunningController::RunningController(const std::string& configuration) {
  folder_.write("controller.yaml",
                configuration + "journal: " + folder_.path() +
                    "/journal.db\nlisten: {http: 127.0.0.1:0, agents: 127.0.0.1:0}\n");
  start();
}

void RunningController::start() {
  const std::string log = folder_.write("log", "");
  const std::string config = folder_.path() + "/controller.yaml";
  process_ = Process({MONKEYTREE_PROGRAM, "controller", "--config", config}, {}, log);
  EXPECT_TRUE(eventually([this] {
    const std::string text = this->log();
    const size_t started = text.find("event=started");
    const size_t at = text.find(" http=", started);
    const size_t end = text.find(' ', at + 6);
    if (started == std::string::npos || at == std::string::npos || end == std::string::npos) {
      return false;
    }
    address_ = text.substr(at + 6, end - at - 6);
    return true;
  })) << "the controller has not started:\n"
      << this->log();
}

ProgramRun RunningController::run(std::vector<std::string> arguments) const {
  arguments.insert(arguments.begin() + 1, {"--address", address_});
  return run_program(arguments);
}

}  // namespace monkeytree
