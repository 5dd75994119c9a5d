#include "service/api.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "base/json.h"
#include "base/status.h"
#include "cluster/snapshot_json.h"
#include "service/address.h"
#include "service/api_common.h"
#include "service/api_input.h"
#include "service/api_json.h"
#include "service/page.h"

namespace monkeytree {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kMostListed = 1000;
constexpr int kUsuallyListed = 100;
constexpr std::string_view kNotify = "/api/v1/notify";

HttpResponse text_answer(std::string body) {
  HttpResponse response;
  response.body = std::move(body);
  response.content_type = "text/plain; charset=utf-8";
  return response;
}

HttpResponse done() { return json_answer("{\"ok\": true}\n"); }

HttpResponse not_seen_yet(const ControllerView& view) {
  return http_error(503, "nothing is known of the cluster yet: " + view.trouble);
}

/// A query field that is a number in [0, most]; `usual` where it is not given.
absl::StatusOr<int64_t> number_in_query(const HttpRequest& request, std::string_view key,
                                        int64_t usual, int64_t most) {
  const auto found = request.query.find(key);
  if (found == request.query.end()) return usual;
  const absl::StatusOr<int64_t> number = parse_number(found->second);
  if (!number.ok()) return with_context(number.status(), key);
  if (*number > most) {
    return absl::InvalidArgumentError(fmt::format("{}: expected at most {}", key, most));
  }
  return *number;
}

/// InvalidArgument where the query has fields that nothing here looks at.
absl::Status only(const HttpRequest& request, std::initializer_list<std::string_view> known) {
  for (const auto& [key, value] : request.query) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    return absl::InvalidArgumentError(fmt::format("unknown field {} of the query", quote(key)));
  }
  return absl::OkStatus();
}

/// Who asked, for the journal: the token's name, and the client's own word for itself.
std::string asked_by(const Change& change, const HttpRequest& request) {
  if (change.by.empty() || change.by == request.caller) {
    return fmt::format("{} at {}", request.caller, request.peer);
  }
  return fmt::format("{} ({}) at {}", request.caller, change.by, request.peer);
}

}  // namespace

std::span<const Api::Route> Api::routes() {
  static constexpr std::array<Route, 28> kRoutes = {{
      {"GET", "/api/v1/status", &Api::status},
      {"GET", "/api/v1/snapshot", &Api::snapshot},
      {"GET", "/api/v1/fragmentation", &Api::fragmentation},
      {"GET", "/api/v1/plans", &Api::plans},
      {"GET", "/api/v1/plans/{id}", &Api::plan},
      {"GET", "/api/v1/plans/{id}/snapshot", &Api::plan_snapshot},
      {"GET", "/api/v1/routes", &Api::routes_now},
      {"GET", "/api/v1/agents", &Api::agents},
      {"GET", "/api/v1/events", &Api::events},
      {"GET", "/api/v1/history", &Api::history},
      {"GET", "/api/v1/audit", &Api::audit},
      {"GET", "/api/v1/openapi.json", &Api::openapi, Route::kOpen},
      {"POST", "/api/v1/session", &Api::open_session, Route::kOpen},
      {"DELETE", "/api/v1/session", &Api::close_session, Route::kOpen},
      {"POST", kNotify, &Api::notify, Route::kOpen},  // asks for a token itself
      {"POST", TryApi::kWhatIf, &Api::what_if},
      {"POST", TryApi::kImport, &Api::import},
      {"POST", "/api/v1/plans/{id}/approve", &Api::approve, Route::kApprove},
      {"POST", "/api/v1/plans/{id}/cancel", &Api::cancel, Route::kApprove},
      {"POST", "/api/v1/pause", &Api::pause, Route::kOperate},
      {"POST", "/api/v1/resume", &Api::resume, Route::kOperate},
      {"GET", "/metrics", &Api::metrics_page},
      {"GET", "/healthz", &Api::healthz, Route::kOpen},
      {"GET", "/readyz", &Api::readyz, Route::kOpen},
      {"GET", "/", &Api::page, Route::kOpen},
      {"GET", "/app.js", &Api::page, Route::kOpen},
      {"GET", "/app.css", &Api::page, Route::kOpen},
      {"GET", "/panel", &Api::page, Route::kOpen},
  }};
  return kRoutes;
}

Api::Api(Parts parts, Settings settings)
    : parts_(std::move(parts)),
      settings_(std::move(settings)),
      try_(settings_.tries),
      notifications_(settings_.notifications_per_s, settings_.notification_burst) {}

bool Api::slow(const HttpRequest& request) {
  // Not pause: the kill switch waits for nobody.
  return request.path.ends_with("/approve") || request.path.ends_with("/cancel") ||
         TryApi::slow(request);
}

const Api::Route* Api::find(const HttpRequest& request, std::string& id,
                            std::string& allowed) const {
  constexpr std::string_view kId = "{id}";
  const std::string method = request.method == "HEAD" ? "GET" : request.method;
  for (const Route& route : routes()) {
    std::string_view path = request.path;
    const size_t hole = route.path.find(kId);
    std::string_view found;
    if (hole == std::string_view::npos) {
      if (path != route.path) continue;
    } else {
      const std::string_view before = route.path.substr(0, hole);
      const std::string_view after = route.path.substr(hole + kId.size());
      if (path.size() <= before.size() + after.size() || !path.starts_with(before) ||
          !path.ends_with(after)) {
        continue;
      }
      found = path.substr(before.size(), path.size() - before.size() - after.size());
      if (found.find('/') != std::string_view::npos) continue;
    }
    allowed += fmt::format("{}{}", allowed.empty() ? "" : ", ", route.method);
    if (method != route.method) continue;
    id = found;
    return &route;
  }
  return nullptr;
}

HttpResponse Api::answer(const HttpRequest& request) {
  std::string id, allowed;
  const Route* route = find(request, id, allowed);
  HttpResponse response = [&] {
    if (std::optional<HttpResponse> no = refuse_foreign(request, settings_.loopback)) {
      return *std::move(no);
    }
    if (route == nullptr && allowed.empty()) {
      return http_error(404, fmt::format("there is no {}", quote(request.path)));
    }
    if (route == nullptr) {
      HttpResponse wrong = http_error(405, fmt::format("expected {}", allowed));
      wrong.headers["Allow"] = allowed;
      return wrong;
    }
    if (route->kind == Route::kApprove || route->kind == Route::kOperate) {
      return change(*route, request, id);
    }
    if (route->kind == Route::kRead && !settings_.loopback) {
      if (std::optional<HttpResponse> no = refuse_reader(request)) return *std::move(no);
    }
    return (this->*route->answer)(request, id);
  }();
  parts_.metrics.on_request(route ? route->path : "other", response.status);
  if (request.method != "GET" || response.status == 421) log_refusal(request, response);
  return response;
}

void Api::log_refusal(const HttpRequest& request, const HttpResponse& response) {
  if (response.status < 400) return;
  refused(fmt::format("{} {} from {}: {}", printable(request.method), quote(request.path),
                      request.peer, response.status));
}

void Api::refused(const std::string& line) {
  if (parts_.refused && refusals_.pass(Clock::now())) parts_.refused(line);
}

HttpResponse Api::audit(const HttpRequest& request, std::string_view /*id*/) {
  if (absl::Status status = only(request, {"limit"}); !status.ok()) return http_error(status);
  const absl::StatusOr<int64_t> limit =
      number_in_query(request, "limit", kUsuallyListed, kMostListed);
  if (!limit.ok()) return http_error(limit.status());
  const absl::StatusOr<std::vector<AuditEntry>> entries =
      parts_.controller.journal().newest_audit(static_cast<int>(*limit));
  return entries.ok() ? json_answer(audit_json(*entries)) : http_error(entries.status());
}

HttpResponse Api::status(const HttpRequest& /*request*/, std::string_view /*id*/) {
  return json_answer(status_json(parts_.controller.view(), parts_.wall_s(), settings_.insecure));
}

HttpResponse Api::snapshot(const HttpRequest& /*request*/, std::string_view /*id*/) {
  const ControllerView view = parts_.controller.view();
  return view.snapshot ? json_answer(write_snapshot(*view.snapshot)) : not_seen_yet(view);
}

HttpResponse Api::fragmentation(const HttpRequest& /*request*/, std::string_view /*id*/) {
  const ControllerView view = parts_.controller.view();
  return view.snapshot ? json_answer(fragmentation_json(view)) : not_seen_yet(view);
}

HttpResponse Api::plans(const HttpRequest& request, std::string_view /*id*/) {
  if (absl::Status fault = only(request, {"state", "limit"}); !fault.ok()) return http_error(fault);
  const absl::StatusOr<int64_t> limit =
      number_in_query(request, "limit", kUsuallyListed, kMostListed);
  if (!limit.ok()) return http_error(limit.status());
  std::optional<PlanState> state;
  if (const auto named = request.query.find("state"); named != request.query.end()) {
    state = plan_state(named->second);
    if (!state) {
      return http_error(400, fmt::format("state: expected proposed, waiting, running, done, "
                                         "failed, cancelled or superseded, found {}",
                                         quote(named->second)));
    }
  }
  const absl::StatusOr<std::vector<PlanEntry>> plans =
      parts_.controller.journal().plans(state, static_cast<int>(*limit));
  return plans.ok() ? json_answer(plans_json(*plans)) : http_error(plans.status());
}

HttpResponse Api::plan(const HttpRequest& /*request*/, std::string_view id) {
  const absl::StatusOr<int64_t> number = parse_number(id);
  if (!number.ok()) return http_error(number.status());
  const Journal& journal = parts_.controller.journal();
  const absl::StatusOr<std::optional<PlanEntry>> plan = journal.plan(*number);
  if (!plan.ok()) return http_error(plan.status());
  if (!*plan) return http_error(404, fmt::format("there is no plan {}", *number));
  const absl::StatusOr<std::vector<Migration>> migrations = journal.migrations(*number);
  if (!migrations.ok()) return http_error(migrations.status());
  const absl::StatusOr<std::vector<StepEntry>> steps = journal.steps(*number);
  if (!steps.ok()) return http_error(steps.status());
  return json_answer(plan_json(**plan, *migrations, *steps));
}

HttpResponse Api::plan_snapshot(const HttpRequest& /*request*/, std::string_view id) {
  const absl::StatusOr<int64_t> number = parse_number(id);
  if (!number.ok()) return http_error(number.status());
  const absl::StatusOr<std::optional<PlanEntry>> plan = parts_.controller.journal().plan(*number);
  if (!plan.ok()) return http_error(plan.status());
  if (!*plan) return http_error(404, fmt::format("there is no plan {}", *number));
  if ((*plan)->snapshot.empty()) {
    return http_error(404, fmt::format("the snapshot of plan {} is not kept any more", *number));
  }
  return json_answer((*plan)->snapshot);
}

HttpResponse Api::routes_now(const HttpRequest& /*request*/, std::string_view /*id*/) {
  const ControllerView view = parts_.controller.view();
  return view.routes ? json_answer(routes_json(view)) : not_seen_yet(view);
}

HttpResponse Api::agents(const HttpRequest& /*request*/, std::string_view /*id*/) {
  return json_answer(agents_json(parts_.controller.view()));
}

HttpResponse Api::events(const HttpRequest& request, std::string_view /*id*/) {
  // Browsers come back with the header; the query is for the first time.
  if (absl::Status fault = only(request, {"after"}); !fault.ok()) return http_error(fault);
  absl::StatusOr<int64_t> after = number_in_query(request, "after", -1, INT64_MAX);
  if (const std::string_view last = request.header("last-event-id"); !last.empty()) {
    after = parse_number(last);
  }
  if (!after.ok()) return http_error(after.status());
  HttpResponse response;
  response.content_type = "text/event-stream";
  response.body = "retry: 3000\n\n";
  if (request.method == "HEAD") return response;
  response.stream = parts_.feed.listen(*after);
  return response.stream ? response : http_error(503, "too many listen already");
}

HttpResponse Api::history(const HttpRequest& request, std::string_view /*id*/) {
  if (absl::Status fault = only(request, {"after", "limit"}); !fault.ok()) {
    return http_error(fault);
  }
  const absl::StatusOr<int64_t> limit =
      number_in_query(request, "limit", kUsuallyListed, kMostListed);
  if (!limit.ok()) return http_error(limit.status());
  const absl::StatusOr<int64_t> after = number_in_query(request, "after", -1, INT64_MAX);
  if (!after.ok()) return http_error(after.status());
  const Journal& journal = parts_.controller.journal();
  const absl::StatusOr<std::vector<Event>> events =
      *after < 0 ? journal.newest_events(static_cast<int>(*limit))
                 : journal.events_after(*after, static_cast<int>(*limit));
  return events.ok() ? json_answer(history_json(*events)) : http_error(events.status());
}

HttpResponse Api::openapi(const HttpRequest& /*request*/, std::string_view /*id*/) {
  return json_answer(std::string(kOpenApi));
}

HttpResponse Api::what_if(const HttpRequest& request, std::string_view /*id*/) {
  const std::shared_ptr<const Snapshot> live = parts_.controller.view().snapshot;
  return try_.what_if(request, live.get());
}

HttpResponse Api::import(const HttpRequest& request, std::string_view /*id*/) {
  return try_.import(request);
}

HttpResponse Api::page(const HttpRequest& request, std::string_view /*id*/) {
  return page_answer(request);
}

HttpResponse Api::notify(const HttpRequest& request, std::string_view /*id*/) {
  if (!is_loopback(request.peer) && !settings_.own.contains(request.peer)) {
    if (std::optional<HttpResponse> no = refuse_reader(request)) return *std::move(no);
  }
  const absl::StatusOr<std::string> why = parse_notification(request.body);
  if (!why.ok()) return http_error(why.status());
  const bool taken = notifications_.pass(Clock::now());
  parts_.metrics.on_notification(taken);
  if (!taken) {
    // Not lost: it is passed on when there is room again.
    const std::lock_guard lock(late_mutex_);
    late_ = true;
    HttpResponse response =
        http_error(429, "too many notifications; the cluster is looked at soon");
    response.headers["Retry-After"] = "1";
    return response;
  }
  parts_.controller.notify(why->empty() ? "notified" : *why);
  HttpResponse response = done();
  response.status = 202;
  return response;
}

void Api::pass_on_late() {
  const std::lock_guard lock(late_mutex_);
  if (!late_ || !notifications_.pass(Clock::now())) return;
  late_ = false;
  parts_.controller.notify("notified, too often");
}

HttpResponse Api::approve(const HttpRequest& request, std::string_view id) {
  const absl::StatusOr<int64_t> number = parse_number(id);
  if (!number.ok()) return http_error(number.status());
  const absl::StatusOr<Change> change = parse_change(request.body);
  if (!change.ok()) return http_error(change.status());
  const absl::Status status = parts_.controller.approve(*number, asked_by(*change, request));
  return status.ok() ? done() : http_error(status);
}

HttpResponse Api::cancel(const HttpRequest& request, std::string_view id) {
  const absl::StatusOr<int64_t> number = parse_number(id);
  if (!number.ok()) return http_error(number.status());
  const absl::StatusOr<Change> change = parse_change(request.body);
  if (!change.ok()) return http_error(change.status());
  const absl::Status status = parts_.controller.cancel(*number, asked_by(*change, request));
  return status.ok() ? done() : http_error(status);
}

HttpResponse Api::pause(const HttpRequest& request, std::string_view /*id*/) {
  const absl::StatusOr<Change> change = parse_change(request.body);
  if (!change.ok()) return http_error(change.status());
  const absl::Status status = parts_.controller.pause(change->why, asked_by(*change, request));
  return status.ok() ? done() : http_error(status);
}

HttpResponse Api::resume(const HttpRequest& request, std::string_view /*id*/) {
  const absl::StatusOr<Change> change = parse_change(request.body);
  if (!change.ok()) return http_error(change.status());
  const absl::Status status = parts_.controller.resume(asked_by(*change, request));
  return status.ok() ? done() : http_error(status);
}

HttpResponse Api::metrics_page(const HttpRequest& /*request*/, std::string_view /*id*/) {
  const std::map<PlanState, int64_t> plans =
      parts_.controller.journal().count_plans().value_or(std::map<PlanState, int64_t>());
  HttpResponse response = text_answer(
      parts_.metrics.text(parts_.controller.view(), plans, parts_.feed.clients(), parts_.wall_s()));
  response.content_type = "text/plain; version=0.0.4; charset=utf-8";
  return response;
}

HttpResponse Api::healthz(const HttpRequest& /*request*/, std::string_view /*id*/) {
  return text_answer("ok\n");
}

HttpResponse Api::readyz(const HttpRequest& /*request*/, std::string_view /*id*/) {
  const ControllerView view = parts_.controller.view();
  return view.ready ? text_answer("ready\n") : http_error(503, view.trouble);
}

}  // namespace monkeytree
