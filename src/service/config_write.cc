#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>

#include "service/config.h"

namespace monkeytree {
namespace {

constexpr int kDayMin = 24 * 60;

/// Text as YAML reads it back, whatever is in it.
std::string quoted(const std::string& text) {
  if (text.empty()) return "none";
  using Json = nlohmann::json;
  return Json(text).dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

std::string quoted(const std::vector<std::string>& texts) {
  std::string out = "[";
  for (const std::string& text : texts) out += (out.size() > 1 ? ", " : "") + quoted(text);
  return out + "]";
}

std::string days_text(const Window& window) {
  constexpr std::array<const char*, 7> kDays = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  for (size_t first = 0; first < 7; ++first) {
    if (!window.days[first] || window.days[(first + 6) % 7]) continue;
    size_t last = first;
    while (window.days[(last + 1) % 7]) last = (last + 1) % 7;
    return first == last ? kDays[first] : fmt::format("{}-{}", kDays[first], kDays[last]);
  }
  return "daily";
}

std::string window_text(const Window& window) {
  const auto time = [](int minutes) {
    return fmt::format("{:02}:{:02}", minutes / 60, minutes % 60);
  };
  return fmt::format("{} {}-{}", days_text(window), time(window.from_min),
                     time(window.to_min <= kDayMin ? window.to_min : window.to_min - kDayMin));
}

double seconds(StepLimits::Milliseconds time) { return static_cast<double>(time.count()) / 1000; }

std::string scheduler_text(const ServiceConfig& config) {
  std::string out = "scheduler:\n";
  switch (config.scheduler) {
    case SchedulerKind::kSlurm: {
      const SlurmSettings& slurm = config.slurm;
      out += fmt::format(
          "  kind: slurm\n  topology: {}\n  topology_name: {}\n  uplinks: {}\n  programs: {}\n"
          "  slurm_conf: {}\n  books: {}\n  slurmrestd: {}\n  slurmrestd_version: {}\n",
          quoted(slurm.topology), quoted(slurm.topology_name), quoted(slurm.uplinks),
          quoted(slurm.programs), quoted(slurm.slurm_conf), slurm.books, quoted(slurm.slurmrestd),
          quoted(slurm.slurmrestd_version));
      break;
    }
    case SchedulerKind::kKubernetes: {
      const KubernetesSettings& kubernetes = config.kubernetes;
      out += fmt::format(
          "  kind: kubernetes\n  kubeconfig: {}\n  context: {}\n  racks: {}\n  rack_label: {}\n"
          "  parent_labels: {}\n  gpu_resource: {}\n  uplinks: {}\n"
          "  webhook: {}\n  webhook_certificate: {}\n  webhook_key: {}\n  namespace: {}\n",
          quoted(kubernetes.kubeconfig), quoted(kubernetes.context),
          quoted(kubernetes.racks.source), quoted(kubernetes.racks.rack_label),
          quoted(kubernetes.racks.parent_labels), quoted(kubernetes.reading.gpu_resource),
          quoted(kubernetes.uplinks),
          quoted(kubernetes.webhook.configured()
                     ? to_string(ListenAddress{kubernetes.webhook.host, kubernetes.webhook.port})
                     : std::string()),
          quoted(kubernetes.webhook.certificate), quoted(kubernetes.webhook.key),
          quoted(kubernetes.space));
      break;
    }
    case SchedulerKind::kEmulated: {
      const EmulatedSettings& emulated = config.emulated;
      out += fmt::format(
          "  kind: emulated\n  socket: {}\n  racks: {}\n  nodes_per_rack: {}\n  slots_per_node: "
          "{}\n"
          "  uplinks: {}\n  seed: {}\n  load: {}\n  every_s: {}\n  first_jobs: {}\n",
          quoted(emulated.socket), emulated.racks, emulated.nodes_per_rack, emulated.slots_per_node,
          emulated.uplinks, emulated.seed, emulated.load, emulated.every_s, emulated.first_jobs);
      break;
    }
    case SchedulerKind::kRecorded:
      out += fmt::format("  kind: recorded\n  snapshots: {}\n  every_s: {}\n",
                         quoted(config.recorded.snapshots), config.recorded.every_s);
      break;
  }
  return out;
}

std::string etcd_text(const EtcdSettings& etcd) {
  if (!etcd.configured()) return "etcd: none\n";
  std::string out = fmt::format("etcd:\n  endpoints: {}\n  prefix: {}\n  name: {}\n  lease_s: {}\n",
                                quoted(etcd.access.endpoints), quoted(etcd.prefix),
                                quoted(etcd.name), etcd.lease_s);
  const TlsFiles& tls = etcd.access.tls;
  return out + (tls.configured()
                    ? fmt::format("  tls: {{ca: {}, certificate: {}, key: {}}}\n", quoted(tls.ca),
                                  quoted(tls.certificate), quoted(tls.key))
                    : "  tls: none\n");
}

std::string policy_text(const PolicyRules& policy) {
  std::vector<std::string> windows;
  for (const Window& window : policy.windows) windows.push_back(window_text(window));
  std::string out = fmt::format(
      "policy:\n  opt_out: {}\n  only_partitions: {}\n  never_partitions: {}\n"
      "  only_users: {}\n  never_users: {}\n",
      quoted(policy.opt_out), quoted(policy.only_partitions), quoted(policy.never_partitions),
      quoted(policy.only_users), quoted(policy.never_users));
  out += fmt::format(
      "  moves_per_job: {}\n  moves_per_hour: {}\n  cool_down_s: {}\n  min_age_s: {}\n"
      "  min_left_s: {}\n  loop_s: {}\n  pay_back: {}\n  windows: {}\n",
      policy.moves_per_job, policy.moves_per_hour, policy.cool_down_s, policy.min_age_s,
      policy.min_left_s, policy.loop_s, policy.pay_back, quoted(windows));
  return out +
         fmt::format("  gain:\n    communication: {}\n    pause_s: {}\n    assumed_left_s: {}\n",
                     policy.gain.communication, policy.gain.pause_s, policy.gain.assumed_left_s);
}

std::string steps_text(const StepLimits& steps) {
  std::string out = "steps:\n";
  const auto field = [&](const char* name, StepLimits::Milliseconds time) {
    out += fmt::format("  {}: {}\n", name, seconds(time));
  };
  field("hold_s", steps.hold);
  field("prepare_s", steps.prepare);
  field("pause_s", steps.pause);
  field("transfer_s", steps.transfer);
  field("restore_s", steps.restore);
  field("resume_s", steps.resume);
  field("release_s", steps.release);
  field("roll_back_s", steps.roll_back);
  field("first_retry_s", steps.first_retry);
  field("longest_retry_s", steps.longest_retry);
  return out;
}

}  // namespace

std::string write_config(const ServiceConfig& config) {
  const ControllerRules& rules = config.rules;
  std::string out = fmt::format("mode: {}\n", name_of(rules.mode)) + scheduler_text(config);
  out += config.tls.configured()
             ? fmt::format("tls:\n  ca: {}\n  certificate: {}\n  key: {}\n", quoted(config.tls.ca),
                           quoted(config.tls.certificate), quoted(config.tls.key))
             : "tls: none\n";
  out += fmt::format("listen:\n  http: \"{}\"\n  agents: \"{}\"\ninsecure: {}\n",
                     to_string(config.http), to_string(config.agents), config.insecure);
  out += fmt::format("journal: {}\ntokens: {}\nlog_level: {}\n", quoted(config.journal),
                     quoted(config.tokens), config.log_level);
  out += etcd_text(config.etcd);
  out += fmt::format("poll_s: {}\ncoalesce_ms: {}\n", rules.poll_s, rules.coalesce_ms);
  out += fmt::format("planning:\n  observe_limit_s: {}\n  plan_limit_s: {}\n  plans_at_once: {}\n",
                     rules.observe_limit_s, rules.plan_limit_s, rules.plans_at_once);
  out += fmt::format("history:\n  plans: {}\n  events: {}\n", rules.keep_plans, rules.keep_events);
  return out + policy_text(rules.policy) + steps_text(rules.steps);
}

}  // namespace monkeytree
