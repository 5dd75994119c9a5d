#include "service/api.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "base/file.h"
#include "inventory/emulated_scheduler.h"
#include "service/http_server.h"
#include "service/test_client.h"

namespace monkeytree {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

constexpr std::string_view kToken = "0123456789abcdef-secret";
constexpr std::string_view kApprover = "bob-may-approve", kReader = "eve-may-read";

/// Agents that have every worker and do at once what they are asked.
class WillingAgents final : public Executor {
 public:
  explicit WillingAgents(Scheduler& cluster) : cluster_(cluster) {}
  std::vector<AgentReport> agents() override {
    std::vector<AgentReport> reports;
    const Snapshot snapshot = cluster_.observe(Deadline::max())->snapshot;
    for (const Node& node : snapshot.nodes) {
      reports.emplace_back();
      reports.back().node = node.name;
      reports.back().connected = true;
    }
    for (const GroupId g : snapshot.groups.keys()) {
      const Group& group = snapshot.groups[g];
      for (size_t w = 0; w < group.workers.size(); ++w) {
        WorkerReport worker;
        worker.name = {snapshot.jobs[group.job].id, snapshot.group_index(g), static_cast<int>(w)};
        worker.node = snapshot.nodes[group.workers[w]].name;
        worker.command.arguments = {"train"};
        reports[static_cast<size_t>(group.workers[w].value)].workers.push_back(worker);
      }
    }
    return reports;
  }
  absl::Status prepare(const std::string&, const WorkerName&, const std::string&, int64_t,
                       Deadline) override {
    return absl::OkStatus();
  }
  absl::StatusOr<int64_t> pause(const std::string&, const std::string&,
                                const std::map<WorkerName, std::string>&, Deadline) override {
    return 17;
  }
  absl::Status transfer(const std::string&, const WorkerName&, const std::string&,
                        const std::string&, Deadline) override {
    return transfer_outcome;
  }
  absl::Status restore(const std::string&, const WorkerName&, const std::string&,
                       Deadline) override {
    return absl::OkStatus();
  }
  absl::Status resume(const std::string&, const std::string&,
                      const std::map<WorkerName, std::string>&, Deadline) override {
    return absl::OkStatus();
  }
  absl::Status release(const std::string&, const WorkerName&, const std::string&,
                       Deadline) override {
    return absl::OkStatus();
  }
  absl::Status roll_back(const std::string&, const std::string&,
                         const std::map<WorkerName, std::string>&, bool, Deadline) override {
    return absl::OkStatus();
  }
  void apply_routes(const std::vector<PreviousRoute>&) override {}

  absl::Status transfer_outcome;

 private:
  Scheduler& cluster_;
};

/// What of `value` is not as `schema` says, one line each: the part of JSON Schema that
/// openapi.json uses.
void mismatches(const Json& value, const Json& schema, const Json& document,
                const std::string& path, std::vector<std::string>& out) {
  if (schema.contains("$ref")) {
    const std::string ref = schema["$ref"];
    return mismatches(value, document.at(Json::json_pointer(ref.substr(1))), document, path, out);
  }
  const Json types = schema.contains("type") ? schema["type"] : Json::array();
  bool right = types.is_array() && types.empty();
  const auto is = [&](const std::string& type) {
    return (type == "object" && value.is_object()) || (type == "array" && value.is_array()) ||
           (type == "string" && value.is_string()) || (type == "boolean" && value.is_boolean()) ||
           (type == "integer" && value.is_number_integer()) ||
           (type == "number" && value.is_number()) || (type == "null" && value.is_null());
  };
  for (const Json& type : types.is_array() ? types : Json::array({types})) {
    right = right || is(type.get<std::string>());
  }
  if (!right) return out.push_back(path + ": not of type " + types.dump());
  if (schema.contains("enum")) {
    const auto& allowed = schema["enum"];
    if (std::find(allowed.begin(), allowed.end(), value) == allowed.end()) {
      out.push_back(path + ": " + value.dump() + " is none of the values");
    }
  }
  if (value.is_array() && schema.contains("items")) {
    for (size_t i = 0; i < value.size(); ++i) {
      mismatches(value[i], schema["items"], document, path + "/" + std::to_string(i), out);
    }
  }
  if (!value.is_object()) return;
  for (const Json& name : schema.value("required", Json::array())) {
    if (!value.contains(name.get<std::string>())) out.push_back(path + ": no " + name.dump());
  }
  for (const auto& [name, field] : value.items()) {
    const Json properties = schema.value("properties", Json::object());
    const Json others = schema.value("additionalProperties", Json(true));
    std::string below = path;
    below.append("/").append(name);
    if (properties.contains(name)) {
      mismatches(field, properties[name], document, below, out);
    } else if (others.is_object()) {
      mismatches(field, others, document, below, out);
    } else if (!others.get<bool>()) {
      out.push_back(below + " is not documented");
    }
  }
}

/// A controller of an emulated cluster in which rack r0 is over its bound, behind a real server.
class ApiTest : public testing::Test {
 protected:
  ApiTest() {
    std::string pattern = std::filesystem::temp_directory_path() / "api_test_XXXXXX";
    folder_ = mkdtemp(pattern.data());
    for (const auto& nodes : std::vector<std::vector<std::string>>{
             {"r0n0", "r1n0"}, {"r0n1", "r2n0"}, {"r0n2", "r3n0"}}) {
      EmulatedJob job;
      job.groups = {2};
      job.nodes = nodes;
      EXPECT_TRUE(cluster_.submit(job).ok());
    }
    journal_.emplace(*Journal::open(folder_ + "/journal.db"));
    rules_.mode = Mode::kRecommend;
    rules_.policy.min_age_s = rules_.policy.min_left_s = rules_.policy.cool_down_s = 0;
    rules_.policy.pay_back = 0;
    settings_.tokens = folder_ + "/tokens";
    write_file_of_tokens(0640);
  }
  ~ApiTest() override {
    server_.reset();
    // A plan that still runs pokes the feed.
    if (controller_) controller_->stop();
    feed_.reset();
    controller_.reset();
    journal_.reset();
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  void write_file_of_tokens(mode_t mode) {
    std::ofstream(settings_.tokens)
        << write_tokens({{"ann", Role::kOperate, digest_of(kToken), "2026-01-01"},
                         {"bob", Role::kApprove, digest_of(kApprover), "2026-01-01"},
                         {"eve", Role::kRead, digest_of(kReader), "2026-01-01"}});
    chmod(settings_.tokens.c_str(), mode);
  }

  void start(bool look = true) {
    const auto wall = [] {
      return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch())
          .count();
    };
    controller_.emplace(
        Controller::Parts{cluster_, agents_, *journal_, wall,
                          [this](const Event& event) {
                            metrics_.on_event(event);
                            if (feed_now_) feed_now_.load()->poke();
                          },
                          [this](const StepNotice& notice) { metrics_.on_step(notice); }},
        rules_);
    feed_.emplace(*journal_, feed_settings_);
    feed_now_ = &*feed_;
    api_.emplace(Api::Parts{*controller_, *feed_, metrics_, wall, {}}, settings_);
    HttpServer::Handlers handlers;
    handlers.answer = [this](const HttpRequest& request) { return api_->answer(request); };
    handlers.slow = Api::slow;
    handlers.most_body = [this](const HttpRequest& request) { return api_->most_body(request); };
    handlers.drained = [this] { feed_->poke(); };
    server_ = *HttpServer::start({"127.0.0.1", 0}, handlers, limits_);
    port_ = server_->address().port;
    if (look) controller_->reconcile();
  }

  Json get_json(const std::string& target) { return Json::parse(body_of(get(port_, target))); }

  std::string post(const std::string& target, const std::string& headers = "",
                   const std::string& body = "", const std::string& host = "localhost") {
    return ask(port_, "POST " + target + " HTTP/1.1\r\nHost: " + host + "\r\n" + headers +
                          "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
  }
  static std::string with_token(std::string_view token = kToken) {
    return "Authorization: Bearer " + std::string(token) + "\r\n";
  }
  static std::string error_message(const std::string& answer) {
    const Json json = Json::parse(body_of(answer));
    EXPECT_TRUE(json["error"]["code"].is_string());
    return json["error"]["message"];
  }
  static std::string code(const std::string& answer) {
    return Json::parse(body_of(answer))["error"]["code"];
  }

  std::string folder_;
  EmulatedScheduler cluster_{uniform_cluster(4, 8, 8, 2)};
  WillingAgents agents_{cluster_};
  std::optional<Journal> journal_;
  ControllerRules rules_;
  Metrics metrics_;
  EventFeed::Settings feed_settings_;
  Api::Settings settings_;
  HttpLimits limits_;
  std::optional<Controller> controller_;
  std::optional<EventFeed> feed_;
  std::atomic<EventFeed*> feed_now_ = nullptr;
  std::optional<Api> api_;
  std::unique_ptr<HttpServer> server_;
  int port_ = 0;
};

TEST_F(ApiTest, StatusAndWhatLiesBehindIt) {
  start();
  const Json status = get_json("/api/v1/status");
  EXPECT_EQ(status["mode"], "recommend");
  EXPECT_EQ(status["ready"], true);
  EXPECT_EQ(status["cluster"]["jobs"], 3);
  EXPECT_EQ(status["racks_over"], Json::parse(R"([{"rack": "r0", "degree": 3, "bound": 2}])"));
  EXPECT_EQ(status["waiting"], Json({1}));
  EXPECT_EQ(status["agents"]["connected"], 32);
  EXPECT_EQ(get_json("/api/v1/snapshot")["schema"], "monkeytree/snapshot/v1");
  EXPECT_EQ(get_json("/api/v1/fragmentation")["racks"][0]["degree"], 3);
  EXPECT_EQ(get_json("/api/v1/routes")["flows"].size(), 6U);
  EXPECT_EQ(get_json("/api/v1/agents")["agents"].size(), 32U);
  EXPECT_EQ(body_of(get(port_, "/healthz")), "ok\n");
  EXPECT_EQ(body_of(get(port_, "/readyz")), "ready\n");
}

TEST_F(ApiTest, BeforeTheFirstLook) {
  start(/*look=*/false);
  EXPECT_EQ(get_json("/api/v1/status")["observed_s"], Json());
  EXPECT_EQ(get_json("/api/v1/status")["cluster"], Json());
  for (const char* path :
       {"/api/v1/snapshot", "/api/v1/fragmentation", "/api/v1/routes", "/readyz"}) {
    const std::string answer = get(port_, path);
    EXPECT_EQ(status_of(answer), 503) << path;
    EXPECT_THAT(error_message(answer), HasSubstr("has not been looked at yet"));
  }
  EXPECT_EQ(status_of(get(port_, "/healthz")), 200);
  EXPECT_EQ(status_of(get(port_, "/metrics")), 200);
}

TEST_F(ApiTest, APlanIsApprovedAndExplained) {
  start();
  const Json plan = get_json("/api/v1/plans/1");
  EXPECT_EQ(plan["state"], "waiting");
  EXPECT_THAT(plan["explanation"].get<std::string>(), HasSubstr("r0: degree 3 over a bound of 2"));
  EXPECT_EQ(get_json("/api/v1/plans/1/snapshot")["schema"], "monkeytree/snapshot/v1");
  const std::string answer = post("/api/v1/plans/1/approve", with_token(), R"({"by": "alice"})");
  ASSERT_EQ(status_of(answer), 200) << answer;
  controller_->wait_for_plans();
  controller_->reconcile();
  const Json done = get_json("/api/v1/plans/1");
  EXPECT_EQ(done["state"], "done");
  EXPECT_EQ(done["approved_by"], "ann (alice) at 127.0.0.1");
  EXPECT_EQ(done["migrations"][0]["state"], "released");
  EXPECT_EQ(done["migrations"][0]["iteration"], 17);
  EXPECT_EQ(done["steps"].size(), 7U);
  EXPECT_EQ(get_json("/api/v1/status")["racks_over"], Json::array());
  EXPECT_EQ(status_of(post("/api/v1/plans/1/approve", with_token())), 409);
  EXPECT_THAT(get_json("/api/v1/plans?state=done&limit=5")["plans"], testing::SizeIs(1));
  EXPECT_THAT(get_json("/api/v1/plans?state=waiting")["plans"], IsEmpty());
}

TEST_F(ApiTest, CancelPauseAndResume) {
  start();
  EXPECT_EQ(status_of(post("/api/v1/pause", with_token(), R"({"by": "bob", "why": "night"})")),
            200);
  EXPECT_EQ(get_json("/api/v1/status")["paused_why"], "by ann (bob) at 127.0.0.1: night");
  EXPECT_THAT(error_message(post("/api/v1/plans/1/approve", with_token())), HasSubstr("paused"));
  const std::string lower = "authorization: bearer " + std::string(kToken) + "\r\n";
  EXPECT_EQ(status_of(post("/api/v1/resume", lower)), 200);
  EXPECT_EQ(get_json("/api/v1/status")["paused"], false);
  controller_->reconcile();
  const int64_t waiting = get_json("/api/v1/status")["waiting"][0];
  const std::string plan = "/api/v1/plans/" + std::to_string(waiting);
  EXPECT_EQ(status_of(post(plan + "/cancel", with_token())), 200);
  EXPECT_EQ(get_json(plan)["state"], "cancelled");
  EXPECT_EQ(status_of(post(plan + "/cancel", with_token())), 409);
  EXPECT_EQ(status_of(post("/api/v1/plans/4711/cancel", with_token())), 404);
}

TEST_F(ApiTest, ChangingCallsNeedTheToken) {
  start();
  for (const char* path :
       {"/api/v1/plans/1/approve", "/api/v1/plans/1/cancel", "/api/v1/pause", "/api/v1/resume"}) {
    EXPECT_EQ(status_of(post(path)), 401) << path;
    EXPECT_THAT(post(path), HasSubstr("\r\nWWW-Authenticate: Bearer\r\n"));
    for (const std::string& wrong :
         {with_token(""), with_token("0123456789abcdef-secreT"), with_token("0123456789abcdef"),
          std::string("Authorization: Basic ") + std::string(kToken) + "\r\n",
          std::string("Authorization: ") + std::string(kToken) + "\r\n"}) {
      EXPECT_EQ(status_of(post(path, wrong)), 401) << path << " " << wrong;
    }
  }
  EXPECT_EQ(get_json("/api/v1/status")["paused"], false);
  EXPECT_EQ(get_json("/api/v1/plans/1")["state"], "waiting");
  // A file that others can write is nobody's word.
  write_file_of_tokens(0666);
  EXPECT_EQ(status_of(post("/api/v1/pause", with_token())), 403);
  EXPECT_THAT(error_message(post("/api/v1/pause", with_token())), HasSubstr("chmod 640"));
  write_file_of_tokens(0640);
  EXPECT_EQ(status_of(post("/api/v1/pause", with_token())), 200);
  std::ofstream(settings_.tokens) << "nonsense\n";
  EXPECT_EQ(status_of(post("/api/v1/pause", with_token())), 403);
  std::filesystem::remove(settings_.tokens);
  EXPECT_THAT(error_message(post("/api/v1/pause", with_token())), HasSubstr("token add"));
}

TEST_F(ApiTest, RolesMayWhatTheirNamesSay) {
  start();
  const std::string approve = "/api/v1/plans/1/approve", pause = "/api/v1/pause";
  for (const std::string& path : {approve, pause}) {
    const std::string answer = post(path, with_token(kReader));
    EXPECT_EQ(status_of(answer), 403) << path;
    EXPECT_THAT(error_message(answer), HasSubstr("the token of eve may read"));
  }
  EXPECT_EQ(status_of(post(pause, with_token(kApprover))), 403);
  EXPECT_EQ(status_of(post(approve, with_token(kApprover))), 200);
  EXPECT_EQ(status_of(post(pause, with_token(kToken))), 200);
}

TEST_F(ApiTest, ChangingCallsAreWrittenDownWithWhoAndWhatCameOfIt) {
  start();
  post("/api/v1/pause");
  post("/api/v1/pause", with_token(kApprover));
  post("/api/v1/pause", with_token(), R"({"why": "night"})");
  post("/api/v1/plans/99/approve", with_token(kApprover));
  const Json calls = get_json("/api/v1/audit")["calls"];
  ASSERT_EQ(calls.size(), 4U);
  EXPECT_EQ(calls[0]["who"], "");
  EXPECT_EQ(calls[0]["outcome"], "401 expected a token: Authorization: Bearer TOKEN");
  EXPECT_EQ(calls[1]["who"], "bob");
  EXPECT_THAT(calls[1]["outcome"].get<std::string>(), StartsWith("403 the token of bob may"));
  EXPECT_EQ(calls[2]["who"], "ann");
  EXPECT_EQ(calls[2]["role"], "operate");
  EXPECT_EQ(calls[2]["from"], "127.0.0.1");
  EXPECT_EQ(calls[2]["call"], "POST /api/v1/pause");
  EXPECT_EQ(calls[2]["said"], R"({"why": "night"})");
  EXPECT_EQ(calls[2]["outcome"], "OK");
  EXPECT_EQ(calls[3]["outcome"], "404 there is no plan 99");
  EXPECT_EQ(get_json("/api/v1/audit?limit=1")["calls"].size(), 1U);
  EXPECT_EQ(status_of(get(port_, "/api/v1/audit?limit=x")), 400);
  // What cannot be written down is not done.
  journal_->set_gate([] { return false; });
  EXPECT_EQ(status_of(post("/api/v1/resume", with_token())), 503);
  journal_->set_gate({});
  EXPECT_EQ(get_json("/api/v1/status")["paused"], true);
  // Somebody who tries many secrets does not fill the disk.
  for (int i = 0; i < 200; ++i) post("/api/v1/pause", with_token("guess"));
  EXPECT_LT(get_json("/api/v1/audit?limit=1000")["calls"].size(), 150U);
}

TEST_F(ApiTest, OffLoopbackReadingNeedsATokenToo) {
  settings_.loopback = false;
  settings_.own = {"192.0.2.2"};
  start();
  // Slurm's hook on this machine needs no token, by whichever of its addresses it comes.
  HttpRequest notification;
  notification.method = "POST";
  notification.path = "/api/v1/notify";
  for (const auto& [peer, status] : {std::pair("192.0.2.2", 202), std::pair("192.0.2.3", 401)}) {
    notification.peer = peer;
    EXPECT_EQ(api_->answer(notification).status, status) << peer;
  }
  const auto read = [&](const std::string& path, const std::string& headers) {
    return ask(port_, "GET " + path + " HTTP/1.1\r\nHost: c\r\n" + headers + "\r\n");
  };
  for (const char* path : {"/api/v1/status", "/api/v1/snapshot", "/api/v1/plans", "/api/v1/audit",
                           "/api/v1/events", "/metrics"}) {
    EXPECT_EQ(status_of(read(path, "")), 401) << path;
    EXPECT_EQ(status_of(read(path, with_token("guess"))), 401) << path;
  }
  EXPECT_EQ(status_of(read("/metrics", with_token(kReader))), 200);
  EXPECT_EQ(status_of(post("/api/v1/what-if", "", "{}")), 401);
  // What shows nothing of the cluster is for everybody.
  for (const char* path : {"/", "/app.js", "/healthz", "/readyz", "/api/v1/openapi.json"}) {
    EXPECT_EQ(status_of(read(path, "")), 200) << path;
  }
  // A page reads by a cookie, which changes nothing.
  EXPECT_EQ(status_of(post("/api/v1/session", with_token("guess"))), 401);
  const std::string opened = post("/api/v1/session", with_token());
  EXPECT_EQ(Json::parse(body_of(opened))["name"], "ann");
  EXPECT_THAT(opened, HasSubstr("; Path=/; HttpOnly; SameSite=Strict; Secure\r\n"));
  const std::string cookie = "Cookie: a=b; monkeytree=" + std::string(kToken) + "; c=d\r\n";
  EXPECT_EQ(status_of(read("/api/v1/status", cookie)), 200);
  EXPECT_EQ(
      status_of(read("/api/v1/status", "Cookie: xmonkeytree=" + std::string(kToken) + "\r\n")),
      401);
  EXPECT_EQ(status_of(post("/api/v1/pause", cookie)), 401);
  const std::string closed = ask(port_, "DELETE /api/v1/session HTTP/1.1\r\nHost: c\r\n\r\n");
  EXPECT_THAT(closed, HasSubstr("Max-Age=0"));
}

TEST_F(ApiTest, WithoutTokensNothingChanges) {
  settings_.tokens = "";
  start();
  const std::string answer = post("/api/v1/pause", with_token());
  EXPECT_EQ(status_of(answer), 403);
  EXPECT_EQ(code(answer), "forbidden");
  EXPECT_THAT(error_message(answer), HasSubstr("monkeytree token add NAME"));
  EXPECT_EQ(status_of(post("/api/v1/pause", "Authorization: Bearer \r\n")), 403);
}

TEST_F(ApiTest, PagesOfOtherSitesAreRefused) {
  start();
  const std::string own = "localhost:" + std::to_string(port_);
  // A name that was made to point at us.
  for (const char* host : {"evil.example", "evil.example:80", "127.0.0.1.evil.example", "x"}) {
    EXPECT_EQ(status_of(post("/api/v1/pause", with_token(), "", host)), 421) << host;
    EXPECT_EQ(status_of(ask(
                  port_, "GET /api/v1/status HTTP/1.1\r\nHost: " + std::string(host) + "\r\n\r\n")),
              421);
  }
  // A page of another site, or of another program on this machine.
  for (const std::string& header :
       {std::string("Origin: http://evil.example\r\n"), std::string("Origin: null\r\n"),
        std::string("Origin: http://localhost:1\r\n"), std::string("Origin: http://localhost\r\n"),
        std::string("Sec-Fetch-Site: cross-site\r\n")}) {
    EXPECT_EQ(status_of(post("/api/v1/pause", with_token() + header, "", own)), 403) << header;
    EXPECT_EQ(status_of(post("/api/v1/notify", header, "", own)), 403) << header;
  }
  EXPECT_EQ(get_json("/api/v1/status")["paused"], false);
  EXPECT_EQ(
      status_of(post("/api/v1/pause", with_token() + "Origin: http://" + own + "\r\n", "", own)),
      200);
  for (const char* host : {"127.0.0.1", "[::1]:80", "LOCALHOST"}) {
    EXPECT_EQ(status_of(post("/api/v1/notify", "", "", host)), 202) << host;
  }
}

TEST_F(ApiTest, WhatIsNotThereOrNotWellWritten) {
  start();
  for (const char* path :
       {"/index.html", "/panel.html", "/app.js/", "/api", "/api/v1", "/api/v1/", "/api/v1/status/",
        "/api/v1/plans/", "/api/v1/plans/1/", "/api/v1/plans/1/2", "/api/v1/plans/1/approve/x",
        "/metrics/..%2f", "/api/v1/plans/1%2fsnapshot%2fx"}) {
    const std::string answer = get(port_, path);
    EXPECT_THAT(status_of(answer), testing::AnyOf(404, 400)) << path;
    EXPECT_FALSE(error_message(answer).empty());
  }
  EXPECT_EQ(status_of(get(port_, "/api/v1/plans/99")), 404);
  for (const char* target :
       {"/api/v1/plans/x", "/api/v1/plans/-1", "/api/v1/plans/01", "/api/v1/plans/1;drop",
        "/api/v1/plans/99999999999999999999", "/api/v1/plans/%27", "/api/v1/plans?state=odd",
        "/api/v1/plans?limit=1001", "/api/v1/plans?limit=x", "/api/v1/plans?other=1",
        "/api/v1/history?after=x", "/api/v1/history?x=1", "/api/v1/events?after=-1", "/api/v1/..",
        "/api/v1/%2e%2e/status"}) {
    EXPECT_EQ(status_of(get(port_, target)), 400) << target;
  }
  const std::string wrong = post("/api/v1/status");
  EXPECT_EQ(status_of(wrong), 405);
  EXPECT_THAT(wrong, HasSubstr("\r\nAllow: GET\r\n"));
  EXPECT_THAT(get(port_, "/api/v1/pause"), HasSubstr("\r\nAllow: POST\r\n"));
  EXPECT_EQ(status_of(ask(port_, "DELETE /api/v1/plans/1 HTTP/1.1\r\nHost: localhost\r\n\r\n")),
            405);
  EXPECT_EQ(status_of(ask(port_, "OPTIONS /api/v1/pause HTTP/1.1\r\nHost: localhost\r\n\r\n")),
            405);
  for (const char* body : {"[]", "{", "{\"by\": 1}", "{\"how\": \"\"}"}) {
    EXPECT_EQ(status_of(post("/api/v1/pause", with_token(), body)), 400) << body;
  }
  EXPECT_EQ(status_of(post("/api/v1/plans/x/approve", with_token())), 400);
  EXPECT_EQ(status_of(post("/api/v1/plans/99/approve", with_token())), 404);
}

TEST_F(ApiTest, NotificationsAreTakenAndPutOffWhenTheyAreMany) {
  settings_.notification_burst = 3;
  settings_.notifications_per_s = 0.001;
  start();
  EXPECT_EQ(status_of(post("/api/v1/notify", "", "not json")), 400);
  int taken = 0;
  for (int i = 0; i < 6; ++i) {
    const std::string answer = post("/api/v1/notify", "", R"({"why": "job 7 ended"})");
    taken += status_of(answer) == 202;
    if (status_of(answer) != 202) {
      EXPECT_EQ(status_of(answer), 429);
      EXPECT_THAT(answer, HasSubstr("\r\nRetry-After: 1\r\n"));
    }
  }
  EXPECT_EQ(taken, 3);
  api_->pass_on_late();  // no room yet; nothing happens
}

TEST_F(ApiTest, ANotificationFromElsewhereNeedsTheToken) {
  start();
  HttpRequest request;
  request.method = "POST";
  request.path = "/api/v1/notify";
  request.peer = "10.0.0.7";
  EXPECT_EQ(api_->answer(request).status, 401);
  request.headers["authorization"] = "Bearer " + std::string(kToken);
  EXPECT_EQ(api_->answer(request).status, 202);
}

/// Events of a stream: id → text.
std::map<int64_t, std::string> events_in(const std::string& text) {
  std::map<int64_t, std::string> events;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("data: ")) continue;
    const Json json = Json::parse(line.substr(6));
    events[json["id"]] = json["text"];
  }
  return events;
}

TEST_F(ApiTest, EventsStreamAndGoOnFromTheLastSeen) {
  start();
  const std::string head = "GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n";
  RawClient first(port_);
  first.send(head + "Last-Event-ID: 0\r\n\r\n");
  std::string got = first.read_until("event: plan\n");
  EXPECT_THAT(got, HasSubstr("\r\nContent-Type: text/event-stream\r\n"));
  EXPECT_THAT(got, Not(HasSubstr("Content-Length")));
  controller_->pause("one", "me").IgnoreError();
  got += first.read_until("paused by me: one");
  const std::map<int64_t, std::string> seen = events_in(got);
  ASSERT_FALSE(seen.empty());
  const int64_t last = seen.rbegin()->first;
  EXPECT_EQ(seen.size(), static_cast<size_t>(last));  // from the first, none left out
  first.hang_up();
  controller_->resume("me").IgnoreError();
  controller_->pause("two", "me").IgnoreError();
  RawClient again(port_);
  again.send(head + "Last-Event-ID: " + std::to_string(last) + "\r\n\r\n");
  const std::map<int64_t, std::string> rest = events_in(again.read_until("paused by me: two\","));
  ASSERT_EQ(rest.size(), 2U);
  EXPECT_EQ(rest.begin()->first, last + 1);
  EXPECT_EQ(rest.begin()->second, "resumed by me");
  // The same by query, and without either only what comes.
  RawClient by_query(port_);
  by_query.send("GET /api/v1/events?after=" + std::to_string(last) +
                " HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_EQ(events_in(by_query.read_until("paused by me: two\",")), rest);
  EXPECT_EQ(get_json("/api/v1/history?after=" + std::to_string(last))["events"].size(), 2U);
  EXPECT_EQ(get_json("/api/v1/history?limit=1")["events"][0]["text"], "paused by me: two");
}

TEST_F(ApiTest, TheStreamBeatsWhenNothingHappens) {
  feed_settings_.heartbeat = std::chrono::milliseconds(20);
  start();
  RawClient client(port_);
  client.send("GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_THAT(client.read_until(": still here\n\n"), HasSubstr("retry: 3000\n\n"));
}

TEST_F(ApiTest, ListenersThatDoNotReadAreDroppedAndBlockNobody) {
  limits_.stream = std::chrono::milliseconds(300);
  feed_settings_.clients = 64;
  feed_settings_.buffer = 16 << 10;
  start();
  std::vector<RawClient> lazy;
  for (int i = 0; i < 64; ++i) {
    lazy.emplace_back(port_, 2048);
    lazy.back().send("GET /api/v1/events?after=0 HTTP/1.1\r\nHost: localhost\r\n\r\n");
  }
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(120);
  const auto clients = [&](size_t count) {
    while (feed_->clients() != count && std::chrono::steady_clock::now() < limit) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return feed_->clients() == count;
  };
  ASSERT_TRUE(clients(64));
  EXPECT_EQ(status_of(get(port_, "/api/v1/events")), 503);
  // More than buffers of both ends hold.
  const std::string big(4000, 'e');
  for (int i = 0; i < 400 && feed_->clients() > 0; ++i) {
    ASSERT_TRUE(journal_->add_event(1, "noise", big, "{}").ok());
    feed_->poke();
    ASSERT_EQ(status_of(get(port_, "/healthz")), 200);
  }
  EXPECT_TRUE(clients(0));
  RawClient reader(port_);
  reader.send("GET /api/v1/events?after=0 HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_THAT(reader.read_until("noise"), HasSubstr("event: noise"));
}

TEST_F(ApiTest, TheDocumentNamesEachRouteAndAnswersAreAsItSays) {
  start();
  // Something in every list: a plan carried out, one that fails, a job held back.
  ASSERT_EQ(status_of(post("/api/v1/plans/1/approve", with_token())), 200);
  controller_->wait_for_plans();
  controller_->reconcile();
  const Json document = get_json("/api/v1/openapi.json");
  std::set<std::pair<std::string, std::string>> documented, real;
  for (const auto& [path, methods] : document["paths"].items()) {
    for (const auto& [method, operation] : methods.items()) documented.emplace(path, method);
  }
  for (const Api::Route& route : Api::routes()) {
    std::string method(route.method);
    std::transform(method.begin(), method.end(), method.begin(),
                   [](unsigned char c) { return std::tolower(c); });
    real.emplace(route.path, method);
    if (method == "delete") continue;  // no answer of its own
    const Json& operation = document["paths"][std::string(route.path)][method];
    const bool changing = route.kind == Api::Route::kApprove || route.kind == Api::Route::kOperate;
    EXPECT_EQ(operation.contains("security"), changing || route.path.ends_with("/session"))
        << route.path;
    // The answer itself, for plan 1 where it needs one.
    std::string target(route.path);
    if (const size_t hole = target.find("{id}"); hole != std::string::npos) {
      target.replace(hole, 4, "1");
    }
    if (target == "/api/v1/events") continue;
    for (const std::string& headers : {with_token(), std::string()}) {
      const std::string answer = method == "get" ? get(port_, target) : post(target, headers);
      const std::string status = std::to_string(status_of(answer));
      ASSERT_TRUE(operation["responses"].contains(status)) << target << " " << answer;
      const Json& content = operation["responses"][status]["content"];
      const std::string type = content.begin().key();
      EXPECT_THAT(answer, HasSubstr("\r\nContent-Type: " + type)) << target;
      if (type != "application/json") continue;
      std::vector<std::string> wrong;
      mismatches(Json::parse(body_of(answer)), content[type]["schema"], document, target, wrong);
      EXPECT_THAT(wrong, IsEmpty()) << answer;
    }
  }
  EXPECT_EQ(documented, real);
  const std::string page = *read_file(std::string(MONKEYTREE_SOURCE_DIR) + "/docs/api.md");
  for (const auto& [path, method] : real) EXPECT_THAT(page, HasSubstr("`" + path));
}

TEST_F(ApiTest, ErrorsAreAsTheDocumentSays) {
  start();
  const Json document = get_json("/api/v1/openapi.json");
  for (const std::string& answer :
       {get(port_, "/x"), get(port_, "/api/v1/plans/x"), post("/api/v1/pause"),
        post("/api/v1/status"), get(port_, "/.."), post("/api/v1/notify", "", "", "evil")}) {
    std::vector<std::string> wrong;
    mismatches(Json::parse(body_of(answer)), document["components"]["schemas"]["Error"], document,
               "", wrong);
    EXPECT_THAT(wrong, IsEmpty()) << answer;
  }
}

}  // namespace
}  // namespace monkeytree
