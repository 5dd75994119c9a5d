#include "service/config.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <limits>

#include "base/yaml.h"
#include "identity/tls_config.h"

namespace monkeytree {
namespace {

constexpr double kWeek_s = 7 * 86400;
constexpr double kMost = 1e9;
// A change in Slurm's books gets half a lease: a second to read them, and what hold() needs.
constexpr int kLeastSlurmLease_s =
    2 * static_cast<int>(1 + kLeastForSlurmHold / std::chrono::seconds(1));

constexpr std::array<std::string_view, 3> kModes = {"observe", "recommend", "enforce"};
constexpr std::array<std::string_view, 4> kKinds = {"slurm", "kubernetes", "emulated", "recorded"};
constexpr std::array<std::string_view, 3> kBooks = {"auto", "companions", "merge"};
constexpr std::array<std::string_view, 4> kLevels = {"debug", "info", "warn", "error"};

template <class To, class From>
void into(To& to, const std::optional<From>& value) {
  if (value) to = *value;
}

/// The fields of one map, each read where it stands.
class Section {
 public:
  Section(const YamlMap& map) : map_(map) {}  // NOLINT: a name for the map

  void number(const char* key, double& to, double low, double high) const {
    if (const YamlValue* at = map_.find(key)) into(to, at->number(low, high));
  }
  void integer(const char* key, int& to, int low, int high) const {
    if (const YamlValue* at = map_.find(key)) into(to, at->integer32(low, high));
  }
  void flag(const char* key, bool& to) const {
    if (const YamlValue* at = map_.find(key)) into(to, at->boolean());
  }
  /// Nothing written after the key means none.
  void text(const char* key, std::string& to) const {
    const YamlValue* at = map_.find(key);
    if (at == nullptr) return;
    if (at->is("none")) {
      to.clear();
    } else {
      into(to, at->nonempty_string());
    }
  }
  void name(const char* key, std::string& to, std::span<const std::string_view> names) const {
    const YamlValue* at = map_.find(key);
    if (at == nullptr) return;
    if (const std::optional<size_t> which = at->one_of(names)) to = names[*which];
  }
  void texts(const char* key, std::vector<std::string>& to) const {
    const YamlValue* at = map_.find(key);
    if (at == nullptr) return;
    to.clear();
    for (const YamlValue& item : at->list().value_or(std::vector<YamlValue>())) {
      if (std::optional<std::string> text = item.nonempty_string()) to.push_back(*text);
    }
  }
  void milliseconds(const char* key, StepLimits::Milliseconds& to) const {
    double seconds = static_cast<double>(to.count()) / 1000;
    number(key, seconds, 0.1, 86400);
    to = StepLimits::Milliseconds(std::llround(seconds * 1000));
  }

 private:
  const YamlMap& map_;
};

class ConfigReader {
 public:
  explicit ConfigReader(ServiceConfig& config) : config_(config) {}

  void read(const YamlValue& root) {
    const YamlMap map =
        root.map({"mode", "scheduler", "listen", "tls", "insecure", "journal", "tokens", "etcd",
                  "poll_s", "coalesce_ms", "planning", "history", "policy", "steps", "log_level"});
    const Section section(map);
    ControllerRules& rules = config_.rules;
    if (const YamlValue* mode = map.find("mode")) {
      if (const std::optional<size_t> which = mode->one_of(kModes)) {
        rules.mode = static_cast<Mode>(*which);
      }
    }
    section.flag("insecure", config_.insecure);
    if (const YamlValue* at = map.find("tls")) {
      config_.tls = read_tls(*at);
      if (config_.tls.configured() && config_.insecure) {
        at->error("expected either tls or insecure: true, found both");
      }
    }
    section.text("journal", config_.journal);
    section.text("tokens", config_.tokens);
    section.name("log_level", config_.log_level, kLevels);
    section.number("poll_s", rules.poll_s, 0.1, 86400);
    section.integer("coalesce_ms", rules.coalesce_ms, 0, 60'000);
    if (const YamlValue* at = map.find("etcd")) read_etcd(*at);
    if (const YamlValue* at = map.find("planning")) read_planning(*at);
    if (const YamlValue* at = map.find("history")) read_history(*at);
    if (const YamlValue* at = map.find("policy")) read_policy(*at);
    if (const YamlValue* at = map.find("steps")) read_steps(*at);
    if (const YamlValue* at = map.find("listen")) read_listen(*at);
    if (config_.journal.empty()) map.find("journal")->error_expected("a file");
    if (const YamlValue* at = map.find("scheduler")) {
      read_scheduler(*at);
    } else if (root.is_map()) {
      root.error("no scheduler, expected scheduler: {kind: slurm, topology: FILE}");
    }
    if (config_.etcd.configured() && config_.scheduler == SchedulerKind::kSlurm &&
        config_.etcd.lease_s < kLeastSlurmLease_s) {
      map.find("etcd")->error(fmt::format("lease_s: {}, expected at least {} beside Slurm",
                                          config_.etcd.lease_s, kLeastSlurmLease_s));
    }
  }

 private:
  void read_etcd(const YamlValue& at) {
    if (at.is("none")) return;
    const YamlMap map = at.map({"endpoints", "prefix", "name", "lease_s", "tls"});
    const Section section(map);
    EtcdSettings& etcd = config_.etcd;
    section.texts("endpoints", etcd.access.endpoints);
    section.text("prefix", etcd.prefix);
    section.text("name", etcd.name);
    section.integer("lease_s", etcd.lease_s, 2, 300);
    const YamlValue* endpoints = map.find("endpoints");
    if (endpoints == nullptr) {
      at.error("no endpoints, expected endpoints: [http://10.0.0.1:2379, ...]");
    } else if (etcd.access.endpoints.empty()) {
      endpoints->error_expected("a list such as [http://10.0.0.1:2379]");
    }
    for (const std::string& endpoint : etcd.access.endpoints) {
      const absl::StatusOr<EtcdEndpoint> parsed = parse_endpoint(endpoint);
      if (!parsed.ok()) endpoints->error(std::string(parsed.status().message()));
    }
    if (!etcd.prefix.starts_with('/') || etcd.prefix.ends_with('/')) {
      at.error("prefix: expected a path such as /monkeytree");
    }
    if (const YamlValue* tls = map.find("tls")) etcd.access.tls = read_tls(*tls);
  }

  void read_planning(const YamlValue& at) {
    const YamlMap map = at.map({"observe_limit_s", "plan_limit_s", "plans_at_once"});
    const Section section(map);
    section.number("observe_limit_s", config_.rules.observe_limit_s, 0.1, 3600);
    section.number("plan_limit_s", config_.rules.plan_limit_s, 0.01, 3600);
    section.integer("plans_at_once", config_.rules.plans_at_once, 1, 1000);
  }

  void read_history(const YamlValue& at) {
    const YamlMap map = at.map({"plans", "events"});
    const Section section(map);
    section.integer("plans", config_.rules.keep_plans, 1, 1'000'000);
    section.integer("events", config_.rules.keep_events, 1, 100'000'000);
  }

  void read_policy(const YamlValue& at) {
    const YamlMap map =
        at.map({"opt_out", "only_partitions", "never_partitions", "only_users", "never_users",
                "moves_per_job", "moves_per_hour", "cool_down_s", "min_age_s", "min_left_s",
                "loop_s", "pay_back", "windows", "gain"});
    const Section section(map);
    PolicyRules& policy = config_.rules.policy;
    section.text("opt_out", policy.opt_out);
    section.texts("only_partitions", policy.only_partitions);
    section.texts("never_partitions", policy.never_partitions);
    section.texts("only_users", policy.only_users);
    section.texts("never_users", policy.never_users);
    section.integer("moves_per_job", policy.moves_per_job, 0, 1'000'000);
    section.integer("moves_per_hour", policy.moves_per_hour, 0, 1'000'000);
    section.number("cool_down_s", policy.cool_down_s, 0, kWeek_s);
    section.number("min_age_s", policy.min_age_s, 0, kWeek_s);
    section.number("min_left_s", policy.min_left_s, 0, kWeek_s);
    section.number("loop_s", policy.loop_s, 0, kWeek_s);
    section.number("pay_back", policy.pay_back, 0, kMost);
    if (const YamlValue* windows = map.find("windows")) read_windows(*windows);
    if (const YamlValue* gain = map.find("gain")) read_gain(*gain);
  }

  void read_windows(const YamlValue& at) {
    for (const YamlValue& item : at.list().value_or(std::vector<YamlValue>())) {
      const std::optional<std::string> text = item.nonempty_string();
      if (!text) continue;
      if (const std::optional<Window> window = parse_window(*text)) {
        config_.rules.policy.windows.push_back(*window);
      } else {
        item.error_expected("a time of the week such as Mon-Fri 20:00-06:00");
      }
    }
  }

  void read_gain(const YamlValue& at) {
    const YamlMap map = at.map({"communication", "pause_s", "assumed_left_s"});
    const Section section(map);
    GainRules& gain = config_.rules.policy.gain;
    section.number("communication", gain.communication, 0, 1);
    section.number("pause_s", gain.pause_s, 0, 86400);
    section.number("assumed_left_s", gain.assumed_left_s, 0, kMost);
  }

  void read_steps(const YamlValue& at) {
    const YamlMap map =
        at.map({"hold_s", "prepare_s", "pause_s", "transfer_s", "restore_s", "resume_s",
                "release_s", "roll_back_s", "first_retry_s", "longest_retry_s"});
    const Section section(map);
    StepLimits& steps = config_.rules.steps;
    section.milliseconds("hold_s", steps.hold);
    section.milliseconds("prepare_s", steps.prepare);
    section.milliseconds("pause_s", steps.pause);
    section.milliseconds("transfer_s", steps.transfer);
    section.milliseconds("restore_s", steps.restore);
    section.milliseconds("resume_s", steps.resume);
    section.milliseconds("release_s", steps.release);
    section.milliseconds("roll_back_s", steps.roll_back);
    section.milliseconds("first_retry_s", steps.first_retry);
    section.milliseconds("longest_retry_s", steps.longest_retry);
    if (steps.longest_retry < steps.first_retry) {
      at.error("longest_retry_s is shorter than first_retry_s");
    }
  }

  void read_listen(const YamlValue& at) {
    const YamlMap map = at.map({"http", "agents"});
    if (const YamlValue* http = map.find("http")) read_address(*http, config_.http);
    if (const YamlValue* agents = map.find("agents")) read_address(*agents, config_.agents);
  }

  void read_address(const YamlValue& at, ListenAddress& to) {
    const std::optional<std::string> text = at.nonempty_string();
    if (!text) return;
    const std::optional<ListenAddress> address = parse_address(*text);
    if (!address) return at.error_expected("HOST:PORT such as 127.0.0.1:7460");
    to = *address;
    if (!config_.insecure && !config_.tls.configured() && !is_loopback(address->host)) {
      at.error(
          fmt::format("{} is reached from other machines, and nobody who comes is asked who "
                      "they are: expected 127.0.0.1 or ::1, or tls, or insecure: true",
                      to_string(*address)));
    }
  }

  void read_scheduler(const YamlValue& at) {
    const YamlMap all = at.map();
    const YamlValue* kind = all.find("kind");
    if (kind == nullptr) {
      if (at.is_map()) at.error("no kind, expected slurm, kubernetes, emulated or recorded");
      return;
    }
    const std::optional<size_t> which = kind->one_of(kKinds);
    if (!which) return;
    config_.scheduler = static_cast<SchedulerKind>(*which);
    switch (config_.scheduler) {
      case SchedulerKind::kSlurm:
        return read_slurm(at);
      case SchedulerKind::kKubernetes:
        return read_kubernetes(at);
      case SchedulerKind::kEmulated:
        return read_emulated(at);
      case SchedulerKind::kRecorded:
        return read_recorded(at);
    }
  }

  void read_slurm(const YamlValue& at) {
    const YamlMap map = at.map({"kind", "topology", "topology_name", "uplinks", "programs",
                                "slurm_conf", "books", "slurmrestd", "slurmrestd_version"});
    const Section section(map);
    SlurmSettings& slurm = config_.slurm;
    section.text("topology", slurm.topology);
    section.text("topology_name", slurm.topology_name);
    section.text("uplinks", slurm.uplinks);
    section.text("programs", slurm.programs);
    section.text("slurm_conf", slurm.slurm_conf);
    section.name("books", slurm.books, kBooks);
    section.text("slurmrestd", slurm.slurmrestd);
    section.text("slurmrestd_version", slurm.slurmrestd_version);
    if (map.find("topology") == nullptr) {
      at.error("no topology, expected topology: /etc/slurm/topology.conf");
    }
  }

  void read_kubernetes(const YamlValue& at) {
    const YamlMap map = at.map({"kind", "kubeconfig", "context", "racks", "rack_label",
                                "parent_labels", "gpu_resource", "uplinks", "webhook",
                                "webhook_certificate", "webhook_key", "namespace"});
    const Section section(map);
    KubernetesSettings& kubernetes = config_.kubernetes;
    section.text("kubeconfig", kubernetes.kubeconfig);
    section.text("context", kubernetes.context);
    section.text("racks", kubernetes.racks.source);
    section.text("rack_label", kubernetes.racks.rack_label);
    section.texts("parent_labels", kubernetes.racks.parent_labels);
    section.text("gpu_resource", kubernetes.reading.gpu_resource);
    section.text("uplinks", kubernetes.uplinks);
    section.text("webhook_certificate", kubernetes.webhook.certificate);
    section.text("webhook_key", kubernetes.webhook.key);
    section.text("namespace", kubernetes.space);
    read_webhook(at, map, kubernetes);
    if (std::string fault = rack_rules_fault(kubernetes.racks); !fault.empty()) {
      at.error(std::move(fault));
    }
    if (kubernetes.reading.gpu_resource.empty()) {
      map.find("gpu_resource")->error_expected("a resource such as nvidia.com/gpu");
    }
  }

  void read_webhook(const YamlValue& at, const YamlMap& map, KubernetesSettings& kubernetes) {
    KubeWebhookSettings& webhook = kubernetes.webhook;
    std::string address;
    Section(map).text("webhook", address);
    if (!address.empty()) {
      // From any machine: it speaks TLS whatever else does.
      const std::optional<ListenAddress> parsed = parse_address(address);
      if (!parsed) map.find("webhook")->error_expected("HOST:PORT such as 0.0.0.0:7463");
      if (parsed) {
        webhook.host = parsed->host;
        webhook.port = parsed->port;
      }
    }
    if (webhook.configured() && (webhook.certificate.empty() || webhook.key.empty())) {
      at.error(
          "webhook without webhook_certificate and webhook_key: the server asks by HTTPS only");
    }
    if (kubernetes.space.empty()) map.find("namespace")->error_expected("a namespace");
  }

  void read_emulated(const YamlValue& at) {
    const YamlMap map = at.map({"kind", "socket", "racks", "nodes_per_rack", "slots_per_node",
                                "uplinks", "seed", "load", "every_s", "first_jobs"});
    const Section section(map);
    EmulatedSettings& emulated = config_.emulated;
    section.text("socket", emulated.socket);
    section.integer("racks", emulated.racks, 1, 4096);
    section.integer("nodes_per_rack", emulated.nodes_per_rack, 1, 1024);
    section.integer("slots_per_node", emulated.slots_per_node, 1, 64);
    section.integer("uplinks", emulated.uplinks, 1, kMaxUplinks);
    section.number("load", emulated.load, 0, 1);
    section.number("every_s", emulated.every_s, 0, kWeek_s);
    section.integer("first_jobs", emulated.first_jobs, 0, 1'000'000);
    if (const YamlValue* seed = map.find("seed")) {
      into(emulated.seed, seed->integer(0, std::numeric_limits<int64_t>::max()));
    }
  }

  void read_recorded(const YamlValue& at) {
    const YamlMap map = at.map({"kind", "snapshots", "every_s"});
    const Section section(map);
    section.texts("snapshots", config_.recorded.snapshots);
    section.number("every_s", config_.recorded.every_s, 0, kWeek_s);
    const YamlValue* snapshots = map.find("snapshots");
    if (snapshots == nullptr) {
      at.error("no snapshots, expected snapshots: [FILE, ...]");
    } else if (config_.recorded.snapshots.empty()) {
      snapshots->error_expected("a list of files");
    }
  }

  ServiceConfig& config_;
};

}  // namespace

std::optional<ServiceConfig> parse_config(std::string_view text, std::string_view file,
                                          Diagnostics& diagnostics) {
  const size_t before = diagnostics.error_count();
  const std::optional<YamlValue> root = parse_yaml(text, file, diagnostics);
  if (!root) return std::nullopt;
  ServiceConfig config;
  ConfigReader(config).read(*root);
  if (diagnostics.error_count() > before) return std::nullopt;
  return config;
}

}  // namespace monkeytree
