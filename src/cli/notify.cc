#include "cli/notify.h"

#include <memory>
#include <string>
#include <vector>

#include "cli/common.h"

namespace monkeytree {
namespace {

constexpr const char* kExamples =
    "Examples:\n"
    "  monkeytree notify                        in PrologSlurmctld, EpilogSlurmctld\n"
    "  monkeytree notify job 4711 has started\n"
    "  monkeytree notify --address 10.0.0.1:7460\n"
    "  monkeytree-notify job 4711 has ended      the same, started sooner\n"
    "\n"
    "Takes 20 ms at most and ends with 0 whatever happens, so that it never delays\n"
    "or fails a job; a notification that is lost is made good by the controller's\n"
    "poll. The address is a number, or localhost: no name is looked up. Also by\n"
    "MONKEYTREE_ADDRESS.";

}  // namespace

void add_notify(CLI::App& app, int& exit_code) {
  CLI::App& command =
      add_command(app, "notify", "tells the controller that something has happened", kExamples);
  const auto address = std::make_shared<std::string>();
  const auto why = std::make_shared<std::vector<std::string>>();
  command.add_option("--address", *address, "of the controller; else 127.0.0.1:7460")
      ->type_name("HOST:PORT");
  command.add_option("WHY", *why, "what has happened, for the log")->type_name("");
  command.callback([address, why, &exit_code] { exit_code = kExitDone; });
}

}  // namespace monkeytree
