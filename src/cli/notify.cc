#include "cli/notify.h"

#include <absl/strings/str_join.h>
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "cli/api_client.h"
#include "cli/common.h"
#include "identity/tls_files.h"
#include "service/token.h"

namespace monkeytree {
namespace {

constexpr size_t kMaxWhy = 200;
constexpr std::chrono::seconds kWaitLimit{15};

constexpr const char* kExamples =
    "Examples:\n"
    "  monkeytree notify                        in PrologSlurmctld, EpilogSlurmctld\n"
    "  monkeytree notify job 4711 has started\n"
    "  monkeytree notify --address 10.0.0.1:7460 --ca /etc/monkeytree/tls/ca.crt\n"
    "  monkeytree notify --wait a try           says whether it has arrived\n"
    "  monkeytree-notify job 4711 has ended      the same, started sooner\n"
    "\n"
    "Takes 20 ms at most and ends with 0 whatever happens, so that it never delays\n"
    "or fails a job; a notification that is lost is made good by the controller's\n"
    "poll. The address is a number, or localhost: no name is looked up. Also by\n"
    "MONKEYTREE_ADDRESS. With --ca (MONKEYTREE_CA_FILE) it goes by HTTPS, from a\n"
    "process in the background.";

struct NotifyArguments {
  std::string address, ca;
  std::vector<std::string> why;
  bool wait = false;
};

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

int notify_and_wait(const NotifyArguments& arguments) {
  std::string where =
      arguments.address.empty() ? environment("MONKEYTREE_ADDRESS") : arguments.address;
  if (where.empty()) where = "127.0.0.1:7460";
  const std::optional<ListenAddress> address = parse_address(where);
  if (!address) {
    print_error("--address: expected HOST:PORT such as 127.0.0.1:7460");
    return kExitBadInput;
  }
  ApiServer server{*address, "", ""};
  const std::string ca = arguments.ca.empty() ? environment("MONKEYTREE_CA_FILE") : arguments.ca;
  if (!ca.empty()) {
    const absl::StatusOr<std::string> authorities = read_authorities(ca);
    if (!authorities.ok()) {
      print_error(message_of(authorities.status()));
      return kExitBadInput;
    }
    server.authorities = *authorities;
  }
  // Only a notification from another machine needs one.
  if (const std::string file = environment("MONKEYTREE_TOKEN_FILE"); !file.empty()) {
    const absl::StatusOr<std::string> token = read_token(file);
    if (!token.ok()) {
      print_error(message_of(token.status()));
      return kExitBadInput;
    }
    server.token = *token;
  }
  const nlohmann::json body = {{"why", absl::StrJoin(arguments.why, " ").substr(0, kMaxWhy)}};
  const absl::StatusOr<ApiAnswer> answer =
      call_api(server, "POST", "/api/v1/notify",
               body.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace), kWaitLimit);
  if (!answer.ok()) {
    print_error(message_of(answer.status()));
    return kExitFailed;
  }
  if (answer->status < 300) return kExitDone;
  print_error(fmt::format("HTTP status {}", answer->status));
  return kExitFailed;
}

}  // namespace

void add_notify(CLI::App& app, int& exit_code) {
  CLI::App& command =
      add_command(app, "notify", "tells the controller that something has happened", kExamples);
  const auto a = std::make_shared<NotifyArguments>();
  command.add_option("--address", a->address, "of the controller; else 127.0.0.1:7460")
      ->type_name("HOST:PORT");
  command.add_option("--ca", a->ca, "of the controller's certificate: by HTTPS")->type_name("FILE");
  command.add_flag("--wait", a->wait, "waits for the answer, and fails where there is none");
  command.add_option("WHY", a->why, "what has happened, for the log")->type_name("");
  command.callback([a, &exit_code] { exit_code = a->wait ? notify_and_wait(*a) : kExitDone; });
}

}  // namespace monkeytree
