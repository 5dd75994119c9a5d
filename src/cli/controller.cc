#include "cli/controller.h"

#include <absl/strings/numbers.h>
#include <fmt/format.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "agent/data_address.h"
#include "base/file.h"
#include "base/json.h"
#include "base/status.h"
#include "cli/common.h"
#include "cluster/snapshot_json.h"
#include "control/controller.h"
#include "identity/grpc_credentials.h"
#include "inventory/emulated_scheduler.h"
#include "inventory/emulated_socket.h"
#include "inventory/recorded_scheduler.h"
#include "inventory/slurm_scheduler.h"
#include "kubernetes/scheduler.h"
#include "service/api.h"
#include "service/config.h"
#include "service/etcd_leadership.h"
#include "service/event_feed.h"
#include "service/grpc_executor.h"
#include "service/http_server.h"
#include "service/tokens.h"
#include "wire/log.h"

namespace monkeytree {
namespace {

constexpr const char* kExamples =
    "Examples:\n"
    "  monkeytree controller --config /etc/monkeytree/controller.yaml\n"
    "  monkeytree controller --config controller.yaml --check\n"
    "                                          reads it, says what would hold, and ends\n"
    "\n"
    "packaging/controller.yaml shows all fields; without changes to it the controller\n"
    "looks and says, and changes nothing. docs/operating.md goes from there.\n"
    "SIGTERM and SIGINT end it when the steps under way have ended; a second one\n"
    "at once: the next start goes on from the journal. SIGHUP does nothing.\n"
    "Exit code: 0 stopped, 1 could not start, 2 bad usage or configuration.";

/// Under which the journal keeps the highest token that agents were given.
constexpr std::string_view kFence = "fence";

std::string host_name() {
  char name[256] = {};
  gethostname(name, sizeof(name) - 1);
  return name;
}

double wall_s() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

double steady_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

spdlog::level::level_enum level_of(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  return spdlog::level::info;
}

/// One line an event on standard error.
LogSink log_to_stderr(const std::string& level) {
  const auto logger = std::make_shared<spdlog::logger>(
      "controller", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_pattern("time=%Y-%m-%dT%H:%M:%S.%e%z level=%l %v");
  logger->set_level(spdlog::level::from_str(level));
  logger->flush_on(spdlog::level::trace);
  return [logger](LogLevel severity, std::string_view event, const LogFields& fields) {
    logger->log(level_of(severity), "{}", log_line(event, fields));
  };
}

/// Tells systemd, where it started us as Type=notify.
void tell_systemd(const char* what) {
  const char* path = std::getenv("NOTIFY_SOCKET");
  if (path == nullptr || (path[0] != '/' && path[0] != '@')) return;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const size_t length = std::strlen(path);
  if (length >= sizeof address.sun_path) return;
  std::memcpy(address.sun_path, path, length);
  if (path[0] == '@') address.sun_path[0] = '\0';  // an abstract one
  const int socket = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (socket < 0) return;
  sendto(socket, what, std::strlen(what), MSG_NOSIGNAL, reinterpret_cast<const sockaddr*>(&address),
         static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + length));
  close(socket);
}

/// Jobs that come and go in the emulated cluster.
class Churn {
 public:
  Churn(EmulatedScheduler& cluster, const EmulatedSettings& settings,
        std::function<void(const std::string&)> happened)
      : churn_(cluster, settings.seed, churn_settings(settings)), happened_(std::move(happened)) {
    for (int i = 0; i < settings.first_jobs; ++i) churn_.step();
    if (settings.every_s <= 0) return;
    thread_ = std::jthread([this, every_s = settings.every_s](const std::stop_token& stop) {
      std::unique_lock lock(mutex_);
      const auto every = std::chrono::duration<double>(every_s);
      while (!wake_.wait_for(lock, stop, every, [] { return false; }) && !stop.stop_requested()) {
        happened_(churn_.step());
      }
    });
  }

 private:
  static EmulatedChurn::Settings churn_settings(const EmulatedSettings& settings) {
    EmulatedChurn::Settings out;
    out.load = settings.load;
    return out;
  }

  EmulatedChurn churn_;
  std::function<void(const std::string&)> happened_;
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::jthread thread_;
};

/// All parts of a controller's process, from its configuration; ended in the reverse order.
class Process {
 public:
  explicit Process(const ServiceConfig& config)
      : config_(config), log_(log_to_stderr(config.log_level)) {}

  /// 0 after a signal has ended it.
  int run() {
    const sigset_t signals = block_end_signals();
    if (const absl::Status status = start(); !status.ok()) {
      print_error(message_of(status));
      return kExitFailed;
    }
    tell_systemd("READY=1");
    wait_for_end(signals);
    tell_systemd("STOPPING=1");
    // From here on a second signal ends us at once.
    for (const int number : {SIGTERM, SIGINT}) std::signal(number, SIG_DFL);
    pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
    if (kubernetes_ != nullptr) kubernetes_->on_change({});
    churn_.reset();
    server_.reset();
    controller_->stop();
    if (leadership_) leadership_->resign();
    log_(LogLevel::kInfo, "stopped", {});
    return kExitDone;
  }

 private:
  absl::Status start() {
    warn();
    absl::StatusOr<Journal> journal = Journal::open(config_.journal);
    if (!journal.ok()) {
      return with_context(journal.status(), fmt::format("journal {}", config_.journal));
    }
    journal_.emplace(*std::move(journal));
    const absl::StatusOr<uint64_t> fence = last_fence();
    if (!fence.ok()) return with_context(fence.status(), "journal");
    if (absl::Status status = make_scheduler(); !status.ok()) return status;
    if (config_.etcd.configured()) {
      if (absl::Status status = make_leadership(*fence); !status.ok()) return status;
    } else if (absl::Status status = write_fence(*fence + 1); !status.ok()) {
      return with_context(status, "journal");
    }
    if (absl::Status status = make_executor(*fence + 1); !status.ok()) return status;
    make_controller();
    if (absl::Status status = listen(); !status.ok()) return status;
    if (absl::Status status = controller_->start(); !status.ok()) {
      return with_context(status, "the journal");
    }
    log_(LogLevel::kInfo, "started",
         {{"mode", std::string(name_of(config_.rules.mode))},
          {"scheduler", scheduler_->describe()},
          {"http", to_string(server_->address())},
          {"agents", to_string(ListenAddress{config_.agents.host, executor_->port()})},
          {"journal", config_.journal}});
    if (leadership_) leadership_->start();
    if (kubernetes_ != nullptr) {
      kubernetes_->on_change([this] { controller_->notify("the cluster has changed"); });
    }
    if (emulated_ != nullptr) {
      churn_.emplace(*emulated_, config_.emulated, [this](const std::string& what) {
        log_(LogLevel::kInfo, "churn", {{"text", what}});
        controller_->notify(what);
      });
      controller_->notify("jobs have come");
    }
    return absl::OkStatus();
  }

  void warn() const {
    tell_of_grpc([log = log_](const std::string& text) {
      log(LogLevel::kWarning, "grpc", {{"text", text}});
    });
    if (const auto pem = read_file(config_.tls.certificate); config_.tls.configured() && pem.ok()) {
      const absl::StatusOr<Certificate> certificate = read_certificate(*pem);
      const std::string warning =
          certificate.ok() ? expiry_warning(*certificate, unix_now_s()) : "";
      if (!warning.empty()) log_(LogLevel::kWarning, "certificate", {{"text", warning}});
    }
    if (config_.insecure) {
      log_(LogLevel::kWarning, "insecure",
           {{"text",
             "insecure: true lets the controller listen on addresses that other machines "
             "reach, and nobody who comes is asked who they are"}});
    }
    if (config_.tokens.empty()) {
      log_(LogLevel::kInfo, "no tokens",
           {{"text", "changing calls are refused: no tokens are configured"}});
    } else if (const absl::StatusOr<std::vector<TokenEntry>> tokens = read_tokens(config_.tokens);
               !tokens.ok()) {
      log_(LogLevel::kWarning, "no tokens",
           {{"text", fmt::format("changing calls are refused: {}", message_of(tokens.status()))}});
    }
  }

  /// The highest token that agents were given from this journal; they refuse lower ones.
  absl::StatusOr<uint64_t> last_fence() const {
    const absl::StatusOr<std::optional<std::string>> last = journal_->get(kFence);
    if (!last.ok()) return last.status();
    uint64_t fence = 0;
    if (*last && !absl::SimpleAtoi(**last, &fence)) {
      return absl::DataLossError("its fence is not a number");
    }
    return fence;
  }

  absl::Status write_fence(uint64_t fence) { return journal_->set(kFence, std::to_string(fence)); }

  absl::Status make_leadership(uint64_t fence) {
    absl::StatusOr<std::unique_ptr<Etcd>> etcd = Etcd::open(config_.etcd.access);
    if (!etcd.ok()) return with_context(etcd.status(), "etcd");
    etcd_ = *std::move(etcd);
    EtcdLeadership::Settings settings;
    settings.election.prefix = config_.etcd.prefix;
    settings.election.name = config_.etcd.name.empty() ? host_name() : config_.etcd.name;
    settings.election.lease = std::chrono::seconds(config_.etcd.lease_s);
    settings.election.address = [this, name = settings.election.name] {
      ListenAddress at = server_->address();
      if (at.host == "0.0.0.0" || at.host == "::") at.host = name;
      return to_string(at);
    };
    settings.known_token = fence;
    settings.changed = [this] { on_leadership(); };
    leadership_.emplace(*etcd_, std::move(settings));
    return absl::OkStatus();
  }

  void on_leadership() {
    const uint64_t token = leadership_->token();
    // So that this controller alone, without etcd, would go on with higher ones.
    if (token != 0 && token != written_fence_.exchange(token)) write_fence(token).IgnoreError();
    executor_->leadership_changed();
    controller_->leadership_changed();
  }

  absl::Status make_scheduler() {
    switch (config_.scheduler) {
      case SchedulerKind::kSlurm:
        scheduler_ = std::make_unique<SlurmScheduler>(config_.slurm);
        return absl::OkStatus();
      case SchedulerKind::kKubernetes: {
        auto cluster = std::make_unique<KubernetesScheduler>(config_.kubernetes);
        kubernetes_ = cluster.get();
        scheduler_ = std::move(cluster);
        return kubernetes_->listen();
      }
      case SchedulerKind::kEmulated: {
        const EmulatedSettings& e = config_.emulated;
        if (!e.socket.empty()) {
          scheduler_ = std::make_unique<EmulatedProxy>(e.socket);
          return absl::OkStatus();
        }
        auto cluster = std::make_unique<EmulatedScheduler>(
            uniform_cluster(e.racks, e.nodes_per_rack, e.slots_per_node, e.uplinks));
        emulated_ = cluster.get();
        scheduler_ = std::move(cluster);
        return absl::OkStatus();
      }
      case SchedulerKind::kRecorded:
        return make_recorded();
    }
    return absl::InternalError("a scheduler of no kind");
  }

  absl::Status make_recorded() {
    std::vector<Snapshot> snapshots;
    for (const std::string& file : config_.recorded.snapshots) {
      const absl::StatusOr<std::string> text = read_file(file);
      if (!text.ok()) return with_context(text.status(), file);
      Diagnostics findings;
      std::optional<Snapshot> snapshot = parse_snapshot(*text, printable(file), findings);
      if (!snapshot) {
        return absl::InvalidArgumentError(findings.findings().front().text());
      }
      snapshots.push_back(*std::move(snapshot));
    }
    scheduler_ = std::make_unique<RecordedScheduler>(std::move(snapshots), config_.recorded.every_s,
                                                     steady_s);
    return absl::OkStatus();
  }

  absl::Status make_executor(uint64_t fence) {
    GrpcExecutorOptions options;
    options.listen = to_string(config_.agents);
    options.tls = config_.tls;
    options.insecure = config_.insecure;
    options.fence = fence;
    if (leadership_) options.leads = [this] { return leadership_->token(); };
    options.log = log_;
    absl::StatusOr<std::unique_ptr<GrpcExecutor>> executor = GrpcExecutor::start(options);
    if (!executor.ok()) return executor.status();
    executor_ = *std::move(executor);
    return absl::OkStatus();
  }

  void make_controller() {
    feed_ = std::make_unique<EventFeed>(*journal_, EventFeed::Settings(), [this] {
      if (Api* api = late_.load()) api->pass_on_late();
    });
    Controller::Parts parts{*scheduler_,
                            *executor_,
                            *journal_,
                            wall_s,
                            [this](const Event& event) { on_event(event); },
                            [this](const StepNotice& notice) { on_step(notice); },
                            leadership_ ? &*leadership_ : nullptr};
    controller_.emplace(std::move(parts), config_.rules);
  }

  absl::Status listen() {
    Api::Settings settings;
    settings.loopback = is_loopback(config_.http.host);
    for (InterfaceAddress& one : interface_addresses()) settings.own.insert(std::move(one.address));
    settings.insecure = config_.insecure;
    settings.tokens = config_.tokens;
    api_ =
        std::make_unique<Api>(Api::Parts{*controller_, *feed_, metrics_, wall_s,
                                         [this](const std::string& line) {
                                           log_(LogLevel::kWarning, "refused", {{"request", line}});
                                         }},
                              settings);
    late_ = api_.get();
    HttpServer::Handlers handlers;
    handlers.answer = [this](const HttpRequest& request) { return api_->answer(request); };
    handlers.slow = Api::slow;
    handlers.most_body = [this](const HttpRequest& request) { return api_->most_body(request); };
    handlers.drained = [this] { feed_->poke(); };
    handlers.refused = [this](const std::string& line) { api_->refused(line); };
    absl::StatusOr<std::unique_ptr<HttpServer>> server =
        HttpServer::start(config_.http, std::move(handlers), HttpLimits(), config_.tls);
    if (!server.ok()) return server.status();
    server_ = *std::move(server);
    return absl::OkStatus();
  }

  void on_event(const Event& event) {
    metrics_.on_event(event);
    const bool bad = event.kind == "trouble" || event.kind == "orphan";
    log_(bad ? LogLevel::kWarning : LogLevel::kInfo, event.kind, {{"text", event.text}});
    if (feed_) feed_->poke();
  }

  void on_step(const StepNotice& notice) {
    metrics_.on_step(notice);
    log_(LogLevel::kDebug, "step",
         {{"migration", notice.migration.id},
          {"job", notice.migration.job},
          {"step", std::string(name_of(notice.step))},
          {"outcome", notice.began ? "begun" : text_of(notice.outcome)}});
  }

  void wait_for_end(const sigset_t& signals) const {
    while (true) {
      int number = 0;
      if (sigwait(&signals, &number) != 0) continue;
      if (number != SIGHUP) {
        log_(LogLevel::kInfo, "stopping", {{"signal", strsignal(number)}});
        return;
      }
      log_(LogLevel::kInfo, "hangup",
           {{"text", "the configuration is read at the start only: restart to take up a change"}});
    }
  }

  const ServiceConfig& config_;
  const LogSink log_;
  std::optional<Journal> journal_;
  std::unique_ptr<Scheduler> scheduler_;
  KubernetesScheduler* kubernetes_ =
      nullptr;                             ///< scheduler_, where it is one that tells of changes
  EmulatedScheduler* emulated_ = nullptr;  ///< scheduler_, where it is one that jobs come to
  std::unique_ptr<Etcd> etcd_;
  std::optional<EtcdLeadership> leadership_;
  std::atomic<uint64_t> written_fence_ = 0;
  std::unique_ptr<GrpcExecutor> executor_;
  Metrics metrics_;
  // The feed outlives the controller, whose events poke it, and does not outlive the api it calls.
  std::unique_ptr<Api> api_;
  std::atomic<Api*> late_ = nullptr;  ///< api_, for the feed's thread
  std::unique_ptr<EventFeed> feed_;
  std::optional<Controller> controller_;
  std::unique_ptr<HttpServer> server_;
  std::optional<Churn> churn_;
};

/// What stands in the way of a start on this machine, though the file is well formed.
std::vector<std::string> obstacles(const ServiceConfig& config) {
  std::vector<std::string> out;
  const auto must_be_there = [&](const char* field, const std::filesystem::path& path) {
    std::error_code error;
    if (!path.empty() && !std::filesystem::exists(path, error)) {
      out.push_back(fmt::format("{}: there is no {}", field, printable(path.string())));
    }
  };
  const std::filesystem::path folder = std::filesystem::path(config.journal).parent_path();
  must_be_there("journal", folder);
  if (config.scheduler == SchedulerKind::kSlurm) {
    must_be_there("scheduler: topology", config.slurm.topology);
    must_be_there("scheduler: slurm_conf", config.slurm.slurm_conf);
    must_be_there("scheduler: programs", config.slurm.programs);
    must_be_there("scheduler: slurmrestd", config.slurm.slurmrestd);
  }
  if (config.scheduler == SchedulerKind::kKubernetes) {
    must_be_there("scheduler: kubeconfig", config.kubernetes.kubeconfig);
    must_be_there("scheduler: webhook_certificate", config.kubernetes.webhook.certificate);
    must_be_there("scheduler: webhook_key", config.kubernetes.webhook.key);
    if (config.rules.mode != Mode::kObserve && !config.kubernetes.webhook.configured()) {
      out.push_back(fmt::format("mode {}: without a webhook a Kubernetes cluster is only observed",
                                name_of(config.rules.mode)));
    }
  }
  for (const std::string& snapshot : config.recorded.snapshots) {
    must_be_there("scheduler: snapshots", snapshot);
  }
  if (!config.tokens.empty()) {
    if (const auto tokens = read_tokens(config.tokens); !tokens.ok()) {
      out.emplace_back(message_of(tokens.status()));
    }
  } else if (config.rules.mode != Mode::kObserve) {
    out.push_back(fmt::format("mode {} without tokens: nobody could approve, pause or cancel",
                              name_of(config.rules.mode)));
  }
  if (config.tls.configured()) {
    const auto identity = read_identity(config.tls, CertificateRole::kController, unix_now_s());
    if (!identity.ok()) out.push_back(fmt::format("tls: {}", message_of(identity.status())));
  }
  if (config.etcd.configured()) {
    const absl::StatusOr<std::unique_ptr<Etcd>> etcd = Etcd::open(config.etcd.access);
    absl::Status status = etcd.status();
    if (etcd.ok()) {
      status =
          (*etcd)->read({config.etcd.prefix + "/leader", ""}, std::chrono::seconds(3)).status();
    }
    if (!status.ok()) out.push_back(fmt::format("etcd: {}", message_of(status)));
  }
  if (config.http.port != 0 && config.http.port == config.agents.port &&
      config.http.host == config.agents.host) {
    out.push_back("listen: http and agents are the same address");
  }
  return out;
}

int run_controller(const std::string& file, bool check) {
  const std::optional<std::string> text = read_input(file);
  if (!text) return kExitBadInput;
  Diagnostics diagnostics;
  const std::optional<ServiceConfig> config = parse_config(*text, printable(file), diagnostics);
  print_findings(diagnostics);
  if (!config) return kExitBadInput;
  if (check) {
    for (const std::string& line : obstacles(*config)) print_error("as it is now: " + line);
    return print_result(write_config(*config), kExitDone);
  }
  return Process(*config).run();
}

}  // namespace

void add_controller(CLI::App& app, int& exit_code) {
  CLI::App& command =
      add_command(app, "controller", "watches a cluster and, where it may, mends it", kExamples);
  const auto file = std::make_shared<std::string>();
  const auto check = std::make_shared<bool>(false);
  command.add_option("--config", *file, "YAML; - is standard input")->required()->type_name("FILE");
  command.add_flag("--check", *check,
                   "read it, print what would hold and what stands in the way here, and end");
  command.callback([file, check, &exit_code] { exit_code = run_controller(*file, *check); });
}

}  // namespace monkeytree
