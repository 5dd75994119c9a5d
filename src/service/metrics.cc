#include "service/metrics.h"

#include <prometheus/text_serializer.h>

#include <algorithm>
#include <sstream>
#include <vector>

#include "cluster/fragmentation.h"

namespace monkeytree {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

const prometheus::Histogram::BucketBoundaries kSeconds = {0.1, 0.3, 1, 3, 10, 30, 100, 300};

/// A label's value for a step or state: no blanks.
std::string label(std::string_view name) {
  std::string out(name);
  std::replace(out.begin(), out.end(), ' ', '_');
  return out;
}

/// Families of gauges made from a view.
class Gauges {
 public:
  explicit Gauges(std::vector<MetricFamily>& out) : out_(out) {}

  void family(const char* name, const char* help) {
    MetricFamily family;
    family.name = name;
    family.help = help;
    family.type = MetricType::Gauge;
    out_.push_back(std::move(family));
  }
  void value(double value, std::vector<ClientMetric::Label> labels = {}) {
    ClientMetric metric;
    metric.gauge.value = value;
    metric.label = std::move(labels);
    out_.back().metric.push_back(std::move(metric));
  }
  void one(const char* name, const char* help, double number) {
    family(name, help);
    value(number);
  }

 private:
  std::vector<MetricFamily>& out_;
};

void add_racks(Gauges& gauges, const Snapshot& snapshot) {
  const IdVector<RackId, int> degrees = fragmentation(snapshot);
  const IdVector<RackId, int> most = bounds(snapshot);
  gauges.family("monkeytree_rack_degree", "Fragmentation degree of a rack");
  for (const RackId rack : snapshot.racks.keys()) {
    gauges.value(degrees[rack], {{"rack", snapshot.racks[rack].name}});
  }
  gauges.family("monkeytree_rack_bound", "Usable uplinks of a rack, the bound of its degree");
  for (const RackId rack : snapshot.racks.keys()) {
    gauges.value(most[rack], {{"rack", snapshot.racks[rack].name}});
  }
  int over = 0;
  for (const RackId rack : snapshot.racks.keys()) over += degrees[rack] > most[rack];
  gauges.one("monkeytree_racks_over", "Racks above their bound", over);
  gauges.one("monkeytree_excess", "Sum over racks of what their degree is above their bound",
             excess(degrees, most));
}

void add_controller(Gauges& gauges, const ControllerView& view, double now_s) {
  gauges.family("monkeytree_build_info", "Always 1; the version is in the label");
  gauges.value(1, {{"version", MONKEYTREE_VERSION}});
  gauges.family("monkeytree_mode", "1 for the mode the controller is in");
  for (const Mode mode : {Mode::kObserve, Mode::kRecommend, Mode::kEnforce}) {
    gauges.value(view.mode == mode ? 1 : 0, {{"mode", std::string(name_of(mode))}});
  }
  gauges.one("monkeytree_paused", "1 while the kill switch is on", view.paused ? 1 : 0);
  gauges.one("monkeytree_ready", "1 when the last observation succeeded and the journal works",
             view.ready ? 1 : 0);
  if (view.leadership) {
    const LeadershipView& lead = *view.leadership;
    gauges.one("monkeytree_leads", "1 while this controller leads, of several", lead.leads ? 1 : 0);
    gauges.one("monkeytree_lease_left_seconds", "For which it may go on leading, as things are",
               static_cast<double>(lead.left.count()) / 1000);
    gauges.one("monkeytree_terms", "How often it has begun to lead since its start",
               static_cast<double>(lead.term));
    gauges.one("monkeytree_etcd_answers", "1 when etcd answered last", lead.trouble.empty());
  }
  if (view.observed_s > 0) {
    gauges.one("monkeytree_observation_age_seconds",
               "Time since the cluster was last looked at with success",
               std::max(0.0, now_s - view.observed_s));
  }
  gauges.one("monkeytree_last_reconcile_seconds", "Time the last turn of the loop took",
             view.reconcile_ms / 1000);
  gauges.one("monkeytree_last_plan_seconds", "Time the planner last took", view.plan_ms / 1000);
  gauges.one("monkeytree_agents", "Agents that have ever come",
             static_cast<double>(view.agents.size()));
  gauges.one("monkeytree_agents_connected", "Agents connected now",
             static_cast<double>(std::count_if(view.agents.begin(), view.agents.end(),
                                               [](const AgentReport& a) { return a.connected; })));
  gauges.one("monkeytree_jobs_held_back", "Jobs that may not move now",
             static_cast<double>(view.held_back.size()));
  gauges.one("monkeytree_holds_orphaned", "Holds of the scheduler that nobody will use",
             static_cast<double>(view.orphans.size()));
}

}  // namespace

Metrics::Metrics()
    : moves_(prometheus::BuildCounter()
                 .Name("monkeytree_moves_total")
                 .Help("Workers that have moved to another node")
                 .Register(registry_)
                 .Add({})),
      migrations_(prometheus::BuildCounter()
                      .Name("monkeytree_migrations_total")
                      .Help("Migrations that have ended, by how")
                      .Register(registry_)),
      step_failures_(prometheus::BuildCounter()
                         .Name("monkeytree_step_failures_total")
                         .Help("Steps of migrations that failed; a step may be tried again")
                         .Register(registry_)),
      step_seconds_(prometheus::BuildHistogram()
                        .Name("monkeytree_step_duration_seconds")
                        .Help("Time that steps of migrations took")
                        .Register(registry_)),
      events_(prometheus::BuildCounter()
                  .Name("monkeytree_events_total")
                  .Help("Events by kind")
                  .Register(registry_)),
      requests_(prometheus::BuildCounter()
                    .Name("monkeytree_http_requests_total")
                    .Help("Requests by route and status")
                    .Register(registry_)),
      notifications_(prometheus::BuildCounter()
                         .Name("monkeytree_notifications_total")
                         .Help("Notifications, taken at once or put off because too many came")
                         .Register(registry_)) {
  // What has not happened yet is 0, not missing: a rate of it then has a beginning.
  for (const MigrationState state :
       {MigrationState::kReleased, MigrationState::kRolledBack, MigrationState::kAbandoned}) {
    migrations_.Add({{"outcome", label(name_of(state))}});
  }
  for (int s = 0; s <= static_cast<int>(Step::kAbandon); ++s) {
    const std::string name = label(name_of(static_cast<Step>(s)));
    step_failures_.Add({{"step", name}});
    step_seconds_.Add({{"step", name}}, kSeconds);
  }
  notifications_.Add({{"taken", "at_once"}});
  notifications_.Add({{"taken", "later"}});
}

void Metrics::on_step(const StepNotice& notice) {
  const std::pair<std::string, Step> key{notice.migration.id, notice.step};
  const auto now = std::chrono::steady_clock::now();
  const std::string step = label(name_of(notice.step));
  if (notice.began) {
    const std::lock_guard lock(mutex_);
    began_[key] = now;
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    const auto found = began_.find(key);
    if (found != began_.end()) {
      const double seconds = std::chrono::duration<double>(now - found->second).count();
      step_seconds_.Add({{"step", step}}, kSeconds).Observe(seconds);
      began_.erase(found);
    }
  }
  if (!notice.outcome.ok()) {
    step_failures_.Add({{"step", step}}).Increment();
    return;
  }
  if (!ended(notice.migration)) return;
  migrations_.Add({{"outcome", label(name_of(notice.migration.state))}}).Increment();
  if (notice.migration.state != MigrationState::kReleased) return;
  for (const WorkerMove& move : notice.migration.moves) {
    if (move.to != kStagingNode) moves_.Increment();
  }
}

void Metrics::on_event(const Event& event) {
  events_.Add({{"kind", label(event.kind)}}).Increment();
}

void Metrics::on_request(std::string_view route, int status) {
  requests_.Add({{"route", std::string(route)}, {"status", std::to_string(status)}}).Increment();
}

void Metrics::on_notification(bool taken) {
  notifications_.Add({{"taken", taken ? "at_once" : "later"}}).Increment();
}

std::string Metrics::text(const ControllerView& view, const std::map<PlanState, int64_t>& plans,
                          size_t listeners, double now_s) const {
  std::vector<MetricFamily> families = registry_.Collect();
  Gauges gauges(families);
  add_controller(gauges, view, now_s);
  if (view.snapshot) add_racks(gauges, *view.snapshot);
  gauges.family("monkeytree_plans", "Plans in the journal by state");
  for (int s = 0; s <= static_cast<int>(PlanState::kSuperseded); ++s) {
    const auto state = static_cast<PlanState>(s);
    const auto found = plans.find(state);
    gauges.value(found == plans.end() ? 0 : static_cast<double>(found->second),
                 {{"state", std::string(name_of(state))}});
  }
  gauges.one("monkeytree_event_listeners", "Clients of the event stream",
             static_cast<double>(listeners));
  std::erase_if(families, [](const MetricFamily& family) { return family.metric.empty(); });
  std::sort(families.begin(), families.end(),
            [](const MetricFamily& a, const MetricFamily& b) { return a.name < b.name; });
  for (MetricFamily& family : families) {
    // Within a family the registry has the order of a hash table.
    std::sort(family.metric.begin(), family.metric.end(),
              [](const ClientMetric& a, const ClientMetric& b) { return a.label < b.label; });
  }
  std::ostringstream out;
  prometheus::TextSerializer().Serialize(out, families);
  return out.str();
}

}  // namespace monkeytree
