#include "kubernetes/scheduler.h"

#include <fmt/format.h>
#include <unistd.h>

#include <map>
#include <utility>

#include "base/diagnostics.h"
#include "base/json.h"
#include "inventory/import.h"
#include "kubernetes/snapshot.h"

namespace monkeytree {
namespace {

/// With trouble and nothing heard for so long, what is known is not shown any more.
constexpr auto kStale = std::chrono::seconds(60);

std::map<std::string, std::string> our_environment() {
  std::map<std::string, std::string> out;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const size_t equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    out.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return out;
}

absl::StatusOr<KubeAccess> access_of(const KubernetesSettings& settings) {
  return settings.kubeconfig.empty() ? in_cluster_access(our_environment())
                                     : read_kubeconfig(settings.kubeconfig, settings.context);
}

}  // namespace

KubernetesScheduler::KubernetesScheduler(KubernetesSettings settings, KubeTimes times)
    : settings_(std::move(settings)), times_(times) {}

KubernetesScheduler::~KubernetesScheduler() {
  if (moving_) moving_->stop();
}

absl::Status KubernetesScheduler::listen() {
  if (!settings_.webhook.configured()) return absl::OkStatus();
  const absl::StatusOr<KubeClusterWatch*> watch = this->watch();
  if (!watch.ok()) return watch.status();
  auto webhook = KubeWebhook::listen(
      settings_.webhook,
      [moving = moving_.get()](const std::string& review) { return moving->answer(review); });
  if (!webhook.ok()) return webhook.status();
  webhook_ = *std::move(webhook);
  return absl::OkStatus();
}

void KubernetesScheduler::on_change(std::function<void()> changed) {
  const std::lock_guard lock(telling_);
  on_change_ = std::move(changed);
}

void KubernetesScheduler::changed() {
  const std::lock_guard lock(telling_);
  if (on_change_) on_change_();
}

std::string KubernetesScheduler::describe() const {
  const std::lock_guard lock(mutex_);
  const std::string version = watch_ ? watch_->server_version() : "";
  std::string out = "Kubernetes";
  if (!version.empty()) out += " " + printable(version);
  if (!server_.empty()) out += " at " + printable(server_);
  return out + (settings_.webhook.configured() ? ", pods are replaced" : ", observed only");
}

std::string KubernetesScheduler::why_read_only() const {
  if (settings_.webhook.configured()) return "";
  return "without a webhook a Kubernetes cluster is only observed";
}

absl::StatusOr<KubeClusterWatch*> KubernetesScheduler::watch() {
  const std::lock_guard lock(mutex_);
  if (watch_) return watch_.get();
  absl::StatusOr<KubeAccess> access = access_of(settings_);
  if (!access.ok()) return access.status();
  server_ = access->name;
  access_ = *std::move(access);
  watch_ = std::make_unique<KubeClusterWatch>(*access_, settings_.reading, times_,
                                              [this] { changed(); });
  if (settings_.webhook.configured()) {
    moving_ = std::make_unique<KubeMoving>(*access_, *watch_, settings_.space, settings_.reading);
  }
  return watch_.get();
}

absl::Status KubernetesScheduler::stale() const {
  for (const auto& [kind, state] : watch_->states()) {
    if (state.trouble.empty() || !row_of(kind).needed) continue;
    const auto silent = std::chrono::steady_clock::now() - state.heard;
    if (silent < kStale) continue;
    return absl::UnavailableError(fmt::format(
        "nothing has been heard of {} for {} s: {}", row_of(kind).plural,
        std::chrono::duration_cast<std::chrono::seconds>(silent).count(), state.trouble));
  }
  return absl::OkStatus();
}

absl::StatusOr<Observation> KubernetesScheduler::observe(Deadline deadline) {
  const std::lock_guard looking(looking_);
  const absl::StatusOr<KubeClusterWatch*> watch = this->watch();
  if (!watch.ok()) return watch.status();
  if (absl::Status status = (*watch)->wait_listed(deadline); !status.ok()) return status;
  if (absl::Status status = stale(); !status.ok()) return status;
  if (moving_) {
    if (absl::Status status = moving_->load(deadline); !status.ok()) return status;
  }
  return build();
}

absl::StatusOr<KubeMoving*> KubernetesScheduler::moving(Deadline deadline) {
  if (!settings_.webhook.configured()) return absl::FailedPreconditionError(why_read_only());
  const absl::StatusOr<KubeClusterWatch*> watch = this->watch();
  if (!watch.ok()) return watch.status();
  if (absl::Status status = (*watch)->wait_listed(deadline); !status.ok()) return status;
  if (absl::Status status = stale(); !status.ok()) return status;
  if (absl::Status status = moving_->load(deadline); !status.ok()) return status;
  return moving_.get();
}

absl::StatusOr<Hold> KubernetesScheduler::hold(const WorkerName& worker, const std::string& node,
                                               const std::string& reservation, Deadline deadline) {
  const absl::StatusOr<KubeMoving*> moving = this->moving(deadline);
  return moving.ok() ? (*moving)->hold(worker, node, reservation, deadline) : moving.status();
}

absl::Status KubernetesScheduler::start(const Hold& hold, const WorkerCommand& command,
                                        Deadline deadline) {
  const absl::StatusOr<KubeMoving*> moving = this->moving(deadline);
  return moving.ok() ? (*moving)->start(hold, command, deadline) : moving.status();
}

absl::Status KubernetesScheduler::give_back(const WorkerName& worker, const std::string& node,
                                            const std::vector<std::string>& order,
                                            Deadline deadline) {
  const absl::StatusOr<KubeMoving*> moving = this->moving(deadline);
  return moving.ok() ? (*moving)->give_back(worker, node, order, deadline) : moving.status();
}

absl::Status KubernetesScheduler::cancel(const Hold& hold, Deadline deadline) {
  const absl::StatusOr<KubeMoving*> moving = this->moving(deadline);
  return moving.ok() ? (*moving)->cancel(hold, deadline) : moving.status();
}

absl::Status KubernetesScheduler::reserve(const std::string& name,
                                          const std::vector<std::string>& nodes,
                                          Deadline deadline) {
  const absl::StatusOr<KubeMoving*> moving = this->moving(deadline);
  return moving.ok() ? (*moving)->reserve(name, nodes, deadline) : moving.status();
}

absl::Status KubernetesScheduler::unreserve(const std::string& name, Deadline deadline) {
  const absl::StatusOr<KubeMoving*> moving = this->moving(deadline);
  return moving.ok() ? (*moving)->unreserve(name, deadline) : moving.status();
}

absl::StatusOr<std::vector<std::string>> KubernetesScheduler::booked(const std::string& job,
                                                                     Deadline deadline) {
  const absl::StatusOr<KubeMoving*> moving = this->moving(deadline);
  if (!moving.ok()) return moving.status();
  return (*moving)->booked(job, deadline);
}

absl::StatusOr<Observation> KubernetesScheduler::build() {
  Diagnostics diagnostics;
  const std::optional<Uplinks> uplinks = read_uplinks(settings_.uplinks, diagnostics);
  if (!uplinks) return absl::FailedPreconditionError(diagnostics.text());
  std::optional<KubeSnapshot> built;
  KubeReadRules rules = settings_.reading;
  rules.only_allowed = settings_.webhook.configured();
  watch_->with_facts([&](const KubeFacts& facts) {
    built = build_kube_snapshot(facts, settings_.racks, rules, *uplinks, "kubernetes", diagnostics);
  });
  if (!built) return absl::FailedPreconditionError(diagnostics.text());
  Observation out;
  out.snapshot = std::move(built->snapshot);
  out.unmovable = std::move(built->unmovable);
  if (moving_) moving_->add_to(out);
  for (const Finding& finding : diagnostics.findings()) {
    if (finding.severity == Severity::kWarning) out.findings.push_back(finding.text());
  }
  for (std::string& fault : watch_->faults()) out.findings.push_back(std::move(fault));
  for (const auto& [kind, state] : watch_->states()) {
    if (state.trouble.empty()) continue;
    out.findings.push_back(fmt::format("{}: {}", row_of(kind).plural, state.trouble));
  }
  return out;
}

}  // namespace monkeytree
