#include "cli/view.h"

#include <fmt/format.h>

#include <chrono>
#include <csignal>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/json.h"
#include "base/status.h"
#include "cli/common.h"
#include "service/address.h"
#include "service/api_file.h"
#include "service/http_server.h"

namespace monkeytree {
namespace {

constexpr const char* kExamples =
    "Examples:\n"
    "  monkeytree view cluster.json                prints an address; Ctrl-C ends it\n"
    "  squeue --json | monkeytree import slurm --topology topology.conf --jobs - |\n"
    "      monkeytree view -\n"
    "  monkeytree view cluster.json --listen 127.0.0.1:PORT\n"
    "      and, from your desk: ssh -L PORT:127.0.0.1:PORT HOST\n"
    "\n"
    "Racks with their jobs, degrees and bounds, and what-if: uplinks, failures,\n"
    "drains, jobs that come and go, planned as `monkeytree plan` does. Nothing is\n"
    "changed, and only this machine is answered. docs/dashboard.md shows the page.";

/// Files may be larger here than what a controller takes from the network.
constexpr size_t kMostBody = size_t{64} << 20;

struct ViewOptions {
  std::string snapshot, listen = "127.0.0.1:0";
  std::optional<int> uplinks;
};

int run_view(const ViewOptions& options) {
  const std::optional<ListenAddress> address = parse_address(options.listen);
  if (!address || !is_loopback(address->host)) {
    print_error(
        fmt::format("--listen {}: expected an address of this machine alone, "
                    "127.0.0.1:PORT; from elsewhere by ssh -L",
                    printable(options.listen)));
    return kExitBadInput;
  }
  std::optional<SnapshotInput> input = read_snapshot(options.snapshot, options.uplinks);
  if (!input) return kExitBadInput;
  const sigset_t signals = block_end_signals();
  const double now_s =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  TryApi::Limits limits;
  limits.body = kMostBody;
  FileApi api(std::move(input->snapshot),
              options.snapshot == "-" ? "standard input" : "the file " + options.snapshot, now_s,
              limits);
  HttpServer::Handlers handlers;
  handlers.answer = [&api](const HttpRequest& request) { return api.answer(request); };
  handlers.slow = TryApi::slow;
  handlers.most_body = [&api](const HttpRequest& request) { return api.most_body(request); };
  const absl::StatusOr<std::unique_ptr<HttpServer>> server =
      HttpServer::start(*address, std::move(handlers), HttpLimits());
  if (!server.ok()) {
    print_error(message_of(server.status()));
    return kExitFailed;
  }
  const int printed =
      print_result(fmt::format("http://{}/\n", to_string((*server)->address())), kExitDone);
  if (printed != kExitDone) return printed;
  int number = 0;
  while (sigwait(&signals, &number) != 0) {
  }
  return kExitDone;
}

}  // namespace

void add_view(CLI::App& app, int& exit_code) {
  const auto options = std::make_shared<ViewOptions>();
  CLI::App& command =
      add_command(app, "view", "the dashboard on a file: racks, jobs, what-if", kExamples);
  add_snapshot_argument(command, options->snapshot);
  command
      .add_option("--listen", options->listen,
                  "where the page is, on loopback; port 0, the default, is any that is free")
      ->type_name("HOST:PORT");
  add_uplinks_option(command, options->uplinks);
  command.callback([options, &exit_code] { exit_code = run_view(*options); });
}

}  // namespace monkeytree
