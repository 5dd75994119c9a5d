// What `monkeytree notify` costs the scheduler that calls it, process and all: with a controller
// that is down, one that hangs, and one that answers. Also an answer of the HTTP interface.

#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "service/http_server.h"
#include "service/test_client.h"

extern char** environ;  // NOLINT: of the C library

namespace monkeytree {
namespace {

/// A bound port: nobody answers there, and where it is not listened on connections are refused.
class SilentPort {
 public:
  explicit SilentPort(bool listens) : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    bind(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address);
    if (listens) listen(socket_, 1);
    socklen_t size = sizeof address;
    getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
  }
  ~SilentPort() { close(socket_); }
  SilentPort(const SilentPort&) = delete;
  SilentPort& operator=(const SilentPort&) = delete;
  int port() const { return port_; }

 private:
  int socket_, port_ = 0;
};

void run(std::vector<std::string> arguments) {
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  pid_t process = 0;
  if (posix_spawn(&process, argv[0], nullptr, nullptr, argv.data(), environ) != 0) return;
  waitpid(process, nullptr, 0);
}

std::unique_ptr<HttpServer> answering_server() {
  HttpServer::Handlers handlers;
  handlers.answer = [](const HttpRequest&) { return HttpResponse(); };
  return *HttpServer::start({"127.0.0.1", 0}, handlers, HttpLimits());
}

void notify(benchmark::State& state, const std::string& program, int port) {
  std::vector<std::string> arguments = {MONKEYTREE_BUILD + program};
  if (program == "/monkeytree") arguments.emplace_back("notify");
  arguments.push_back("--address=127.0.0.1:" + std::to_string(port));
  for (auto _ : state) run(arguments);
}

void notify_down(benchmark::State& state, const std::string& program) {
  const SilentPort port(false);
  notify(state, program, port.port());
}
void notify_hangs(benchmark::State& state, const std::string& program) {
  const SilentPort port(true);
  notify(state, program, port.port());
}
void notify_answered(benchmark::State& state, const std::string& program) {
  const std::unique_ptr<HttpServer> server = answering_server();
  notify(state, program, server->address().port);
}
void http_answer(benchmark::State& state) {
  const std::unique_ptr<HttpServer> server = answering_server();
  for (auto _ : state) benchmark::DoNotOptimize(get(server->address().port, "/"));
}

BENCHMARK_CAPTURE(notify_down, small_program, "/monkeytree-notify")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(notify_hangs, small_program, "/monkeytree-notify")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(notify_answered, small_program, "/monkeytree-notify")
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(notify_down, whole_program, "/monkeytree")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(notify_hangs, whole_program, "/monkeytree")->Unit(benchmark::kMillisecond);
BENCHMARK(http_answer)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace monkeytree

BENCHMARK_MAIN();
