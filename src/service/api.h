#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "control/controller.h"
#include "service/api_try.h"
#include "service/event_feed.h"
#include "service/gate.h"
#include "service/http_message.h"
#include "service/metrics.h"
#include "service/tokens.h"

namespace monkeytree {

/// The HTTP interface of a controller: docs/api.md and openapi.json. Changing needs a token, and so
/// does reading where others than this machine are answered. Thread-safe.
class Api {
 public:
  struct Parts {
    Controller& controller;
    EventFeed& feed;
    Metrics& metrics;
    std::function<double()> wall_s;
    std::function<void(const std::string&)> refused;  ///< a line for the log; may be empty
  };
  struct Settings {
    bool loopback = true;       ///< listens on loopback: other names of us are not answered to
    bool insecure = false;      ///< as configured; shown
    std::set<std::string> own;  ///< numeric addresses of this machine besides loopback
    std::string tokens;         ///< file of tokens.h; "": what needs a token is refused
    double notifications_per_s = 10, notification_burst = 50;
    TryApi::Limits tries;
  };

  Api(Parts parts, Settings settings);

  HttpResponse answer(const HttpRequest& request);
  /// Calls that wait for the controller's turn.
  static bool slow(const HttpRequest& request);
  /// Bytes that the body of a request may have.
  size_t most_body(const HttpRequest& request) const { return try_.most_body(request); }
  /// Something was refused: a line for the log, unless there are too many.
  void refused(const std::string& line);
  /// Notifications that were put off are passed on when there is room; call it now and then.
  void pass_on_late();

  struct Route {
    std::string_view method, path;  ///< "{id}" stands for one segment
    HttpResponse (Api::*answer)(const HttpRequest& request, std::string_view id);
    enum Kind : uint8_t {
      kOpen,     ///< needs no token
      kRead,     ///< needs one off loopback
      kApprove,  ///< changes: needs a token of that role, and is written down
      kOperate,
    } kind = kRead;
  };
  static std::span<const Route> routes();

 private:
  const Route* find(const HttpRequest& request, std::string& id, std::string& allowed) const;
  /// The token of who asks. Where there is none, or its role is not `needed`, `no` is what to
  /// answer.
  std::optional<TokenEntry> caller(const HttpRequest& request, Role needed, HttpResponse& no) const;
  std::optional<HttpResponse> refuse_reader(const HttpRequest& request) const;
  HttpResponse change(const Route& route, const HttpRequest& request, std::string_view id);
  void log_refusal(const HttpRequest& request, const HttpResponse& response);

  HttpResponse status(const HttpRequest& request, std::string_view id);
  HttpResponse snapshot(const HttpRequest& request, std::string_view id);
  HttpResponse fragmentation(const HttpRequest& request, std::string_view id);
  HttpResponse plans(const HttpRequest& request, std::string_view id);
  HttpResponse plan(const HttpRequest& request, std::string_view id);
  HttpResponse plan_snapshot(const HttpRequest& request, std::string_view id);
  HttpResponse routes_now(const HttpRequest& request, std::string_view id);
  HttpResponse agents(const HttpRequest& request, std::string_view id);
  HttpResponse events(const HttpRequest& request, std::string_view id);
  HttpResponse history(const HttpRequest& request, std::string_view id);
  HttpResponse audit(const HttpRequest& request, std::string_view id);
  HttpResponse open_session(const HttpRequest& request, std::string_view id);
  HttpResponse close_session(const HttpRequest& request, std::string_view id);
  HttpResponse openapi(const HttpRequest& request, std::string_view id);
  HttpResponse what_if(const HttpRequest& request, std::string_view id);
  HttpResponse import(const HttpRequest& request, std::string_view id);
  HttpResponse page(const HttpRequest& request, std::string_view id);
  HttpResponse notify(const HttpRequest& request, std::string_view id);
  HttpResponse approve(const HttpRequest& request, std::string_view id);
  HttpResponse cancel(const HttpRequest& request, std::string_view id);
  HttpResponse pause(const HttpRequest& request, std::string_view id);
  HttpResponse resume(const HttpRequest& request, std::string_view id);
  HttpResponse metrics_page(const HttpRequest& request, std::string_view id);
  HttpResponse healthz(const HttpRequest& request, std::string_view id);
  HttpResponse readyz(const HttpRequest& request, std::string_view id);

  Parts parts_;
  const Settings settings_;
  TryApi try_;
  Gate notifications_;
  Gate refusals_{5, 20}, audited_refusals_{1, 20};
  std::mutex late_mutex_;
  bool late_ = false;
};

/// The OpenAPI document, from openapi.json.
extern const std::string_view kOpenApi;

}  // namespace monkeytree
