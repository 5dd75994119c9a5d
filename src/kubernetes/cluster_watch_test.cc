// The client against a server that misbehaves: split chunks, truncated JSON, 401, 410, 429, answers
// that break off, and connections on which nothing comes any more.

#include "kubernetes/cluster_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <set>
#include <string>

#include "base/file.h"
#include "kubernetes/scheduler.h"
#include "kubernetes/test_objects.h"
#include "kubernetes/test_server.h"

namespace monkeytree {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using ::testing::HasSubstr;

std::string with_version(std::string object, int version) {
  const std::string_view meta = "\"metadata\": {";
  object.insert(object.find(meta) + meta.size(),
                fmt::format(R"("resourceVersion": "{}", )", version));
  return object;
}

std::string list_of(const std::vector<std::string>& items, int version,
                    const std::string& next = "") {
  std::string text = fmt::format(
      R"({{"metadata": {{"resourceVersion": "{}", "continue": "{}"}}, "items": [)", version, next);
  for (size_t i = 0; i < items.size(); ++i) text += (i == 0 ? "" : ",") + items[i];
  return text + "]}";
}

std::string event(const std::string& type, const std::string& object, int version) {
  return fmt::format(R"({{"type": "{}", "object": {}}})", type, with_version(object, version)) +
         "\n";
}

/// A server of the core kinds whose answers for pods a test writes; all other lists are empty.
class FakeKube {
 public:
  using Handler = TestServer::Handler;

  FakeKube() : server_([this](TestExchange& exchange) { serve(exchange); }) {}

  /// The next requests for pods are answered by these, one each; then by `others`.
  void next(Handler handler) {
    const std::lock_guard lock(mutex_);
    scripted_.push_back(std::move(handler));
  }
  void others(Handler handler) {
    const std::lock_guard lock(mutex_);
    others_ = std::move(handler);
  }
  /// Requests for pods so far: their targets.
  std::vector<std::string> asked() const {
    const std::lock_guard lock(mutex_);
    return asked_;
  }
  KubeAccess access() const {
    KubeAccess access;
    EXPECT_TRUE(parse_server(server_.url(), access));
    return access;
  }
  std::string url() const { return server_.url(); }

 private:
  void serve(TestExchange& exchange) {
    const std::string path = exchange.path();
    if (path == "/version") return exchange.answer(200, R"({"gitVersion": "v1.99.0"})");
    if (path == "/api/v1") {
      return exchange.answer(200, R"({"resources": [{"name": "nodes"}, {"name": "pods"},)"
                                  R"({"name": "persistentvolumes"},)"
                                  R"({"name": "persistentvolumeclaims"}]})");
    }
    if (path == "/apis/policy/v1beta1") {
      return exchange.answer(200, R"({"resources": [{"name": "poddisruptionbudgets"}]})");
    }
    if (path == "/apis/batch/v1") return exchange.answer(200, R"({"resources":[{"name":"jobs"}]})");
    if (path == "/apis/apps/v1") {
      return exchange.answer(200, R"({"resources": [{"name": "statefulsets"}]})");
    }
    if (path == "/api/v1/pods") return serve_pods(exchange);
    if (path.starts_with("/apis/") && std::count(path.begin(), path.end(), '/') == 3) {
      return exchange.answer(404, R"({"kind": "Status", "message": "none"})");
    }
    if (exchange.asks("watch=1")) {
      exchange.begin_chunks();
      return exchange.hang();
    }
    std::vector<std::string> items;
    if (path == "/api/v1/nodes") {
      for (int i = 1; i <= 4; ++i) {
        items.push_back(node_object({fmt::format("n{}", i), i <= 2 ? "a" : "b"}));
      }
    }
    exchange.answer(200, list_of(items, 1));
  }

  void serve_pods(TestExchange& exchange) {
    Handler handler;
    {
      const std::lock_guard lock(mutex_);
      asked_.push_back(exchange.target());
      if (scripted_.empty()) {
        handler = others_;
      } else {
        handler = std::move(scripted_.front());
        scripted_.pop_front();
      }
    }
    if (handler) return handler(exchange);
    if (exchange.asks("watch=1")) {
      exchange.begin_chunks();
      return exchange.hang();
    }
    exchange.answer(200, list_of({}, 1));
  }

  mutable std::mutex mutex_;
  std::deque<Handler> scripted_;
  Handler others_;
  std::vector<std::string> asked_;
  TestServer server_;
};

class ClusterWatchTest : public ::testing::Test {
 protected:
  static KubeTimes quick() {
    KubeTimes times;
    times.watch = 2000ms;
    times.grace = 500ms;
    times.list = 5000ms;
    times.first_retry = 10ms;
    times.longest_retry = 100ms;
    return times;
  }

  void start(KubeTimes times = quick()) {
    watch_ = std::make_unique<KubeClusterWatch>(kube_.access(), KubeReadRules(), times, [] {});
  }

  std::set<std::string> pods() const {
    std::set<std::string> out;
    watch_->with_facts([&](const KubeFacts& facts) {
      for (const auto& [key, pod] : facts.pods) out.insert(key + "@" + pod.node);
    });
    return out;
  }
  /// Waits until these pods are known.
  void expect_pods(const std::set<std::string>& expected) const {
    const Clock::time_point limit = Clock::now() + 30s;
    while (pods() != expected && Clock::now() < limit) std::this_thread::sleep_for(2ms);
    EXPECT_EQ(pods(), expected);
  }
  void wait_for(const std::function<bool()>& holds) const {
    const Clock::time_point limit = Clock::now() + 30s;
    while (!holds() && Clock::now() < limit) std::this_thread::sleep_for(2ms);
    EXPECT_TRUE(holds());
  }
  KubeKindState state(KubeKind kind = KubeKind::kPod) const { return watch_->states().at(kind); }

  static std::string pod(int i, const std::string& node) {
    return pod_object({fmt::format("s-{}", i), node});
  }
  void list(const std::vector<std::string>& items, int version, const std::string& next = "") {
    kube_.next([=](TestExchange& exchange) {
      EXPECT_FALSE(exchange.asks("watch=1")) << exchange.target();
      exchange.answer(200, list_of(items, version, next));
    });
  }
  void status(int code, const std::string& headers = "") {
    kube_.next([=](TestExchange& exchange) {
      exchange.answer(code, R"({"kind": "Status", "message": "as the test wants it"})", headers);
    });
  }
  /// A watch of these bytes in pieces of `piece`; then it ends well, or stays open.
  void watch(const std::string& bytes, size_t piece, bool ends) {
    kube_.next([=](TestExchange& exchange) {
      EXPECT_TRUE(exchange.asks("watch=1")) << exchange.target();
      exchange.begin_chunks();
      for (size_t at = 0; at < bytes.size(); at += piece) exchange.chunk(bytes.substr(at, piece));
      ends ? exchange.end_chunks() : exchange.hang();
    });
  }
  size_t asked(const std::string& text) const {
    size_t count = 0;
    for (const std::string& target : kube_.asked()) count += target.find(text) != target.npos;
    return count;
  }

  FakeKube kube_;
  std::unique_ptr<KubeClusterWatch> watch_;
};

TEST_F(ClusterWatchTest, PagesThenEventsInAnyPieces) {
  list({pod(0, "n1"), pod(1, "n2")}, 5, "more&than=plain");
  list({pod(2, "n3")}, 6);
  watch(event("DELETED", pod(0, "n1"), 7) + event("MODIFIED", pod(1, "n4"), 8), 3, true);
  watch(event("ADDED", pod(3, "n1"), 9), 1000, false);
  start();
  expect_pods({"t/s-1@n4", "t/s-2@n3", "t/s-3@n1"});
  ASSERT_TRUE(watch_->wait_listed(Clock::now() + 30s).ok());
  EXPECT_EQ(asked("continue=more%26than%3Dplain"), 1u);
  EXPECT_EQ(asked("watch=1&allowWatchBookmarks=true&resourceVersion=6&"), 1u);
  EXPECT_EQ(asked("resourceVersion=8&"), 1u) << "the second watch goes on from the last event";
  EXPECT_EQ(state().lists, 1);
  EXPECT_EQ(watch_->server_version(), "v1.99.0");
  EXPECT_TRUE(state(KubeKind::kJobSet).absent);
}

TEST_F(ClusterWatchTest, BookmarksMoveTheResume) {
  list({pod(0, "n1")}, 5);
  watch(R"({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "77"}}})"
        "\n",
        9, true);
  start();
  wait_for([&] { return asked("resourceVersion=77&") > 0; });
  expect_pods({"t/s-0@n1"});
}

TEST_F(ClusterWatchTest, AGoneWatchIsListedAnewAndWhatIsNotThereGoes) {
  list({pod(0, "n1"), pod(1, "n2")}, 5);
  watch(R"({"type": "ERROR", "object": {"kind": "Status", "code": 410}})"
        "\n",
        1000, false);
  list({pod(1, "n3")}, 50);
  start();
  expect_pods({"t/s-1@n3"});
  wait_for([&] { return asked("resourceVersion=50&") > 0; });
}

TEST_F(ClusterWatchTest, AGoneAnswerAndAnExpiredPageAreListedAnew) {
  list({pod(0, "n1")}, 5);
  status(410);  // of the watch
  list({pod(0, "n1"), pod(1, "n1")}, 6, "p2");
  status(410);  // of the second page
  list({pod(2, "n2")}, 7);
  start();
  expect_pods({"t/s-2@n2"});
}

TEST_F(ClusterWatchTest, AWatchThatBreaksOffGoesOnFromTheLastWholeEvent) {
  list({pod(0, "n1")}, 5);
  kube_.next([](TestExchange& exchange) {
    exchange.begin_chunks();
    exchange.chunk(event("ADDED", pod(1, "n2"), 6) + R"({"type": "ADDED", "object": {"meta)");
    exchange.close();
  });
  watch(event("ADDED", pod(2, "n3"), 7), 1000, false);
  start();
  expect_pods({"t/s-0@n1", "t/s-1@n2", "t/s-2@n3"});
  EXPECT_EQ(asked("resourceVersion=6&"), 1u);
  EXPECT_EQ(state().lists, 1);
}

TEST_F(ClusterWatchTest, AnEventThatIsNoJsonIsAReasonToListAnew) {
  list({pod(0, "n1")}, 5);
  watch("{\"type\": \"ADDED\", \"object\n", 1000, false);
  list({pod(4, "n4")}, 9);
  start();
  expect_pods({"t/s-4@n4"});
  EXPECT_GE(state().lists, 2);
}

TEST_F(ClusterWatchTest, AListThatIsCutShortIsAskedForAgain) {
  kube_.next([](TestExchange& exchange) {
    exchange.send("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{\"metadata\": {\"resourceVe");
    exchange.close();
  });
  kube_.next([](TestExchange& exchange) { exchange.answer(200, "{\"metadata\": {"); });
  list({pod(0, "n1")}, 5);
  start();
  expect_pods({"t/s-0@n1"});
}

TEST_F(ClusterWatchTest, TooManyRequestsWaitsAsLongAsAsked) {
  status(429, "Retry-After: 1\r\n");
  list({pod(0, "n1")}, 5);
  const Clock::time_point began = Clock::now();
  start();
  expect_pods({"t/s-0@n1"});
  EXPECT_GE(Clock::now() - began, 1s);
}

TEST_F(ClusterWatchTest, AHalfOpenConnectionIsGivenUp) {
  KubeTimes times = quick();
  times.watch = 300ms;
  times.grace = 300ms;
  list({pod(0, "n1")}, 5);
  watch("", 1, false);  // open, and nothing ever comes
  watch(event("ADDED", pod(1, "n2"), 6), 1000, false);
  start(times);
  expect_pods({"t/s-0@n1", "t/s-1@n2"});
  EXPECT_EQ(state().lists, 1) << "nothing was lost, so nothing is listed anew";
}

TEST_F(ClusterWatchTest, WhatIsKnownStaysWhileTheServerFails) {
  list({pod(0, "n1")}, 5);
  watch("", 1, true);
  kube_.others([](TestExchange& exchange) { exchange.answer(503, "down"); });
  start();
  wait_for([&] { return !state().trouble.empty(); });
  expect_pods({"t/s-0@n1"});
  EXPECT_THAT(state().trouble, HasSubstr("status 503, down"));
}

TEST_F(ClusterWatchTest, ARefusedTokenIsReadAnewAndTriedOnceMore) {
  const std::string file =
      ::testing::TempDir() + "monkeytree_kube_token_" + std::to_string(::getpid());
  ASSERT_TRUE(write_file(file, "old").ok());
  KubeAccess access = kube_.access();
  access.token_file = file;
  kube_.next([&](TestExchange& exchange) {
    EXPECT_TRUE(exchange.asks("Authorization: Bearer old"));
    EXPECT_TRUE(write_file(file, "new").ok());
    exchange.answer(401, R"({"message": "Unauthorized"})");
  });
  kube_.next([&](TestExchange& exchange) {
    EXPECT_TRUE(exchange.asks("Authorization: Bearer new"));
    exchange.answer(200, list_of({pod(0, "n1")}, 5));
  });
  watch_ = std::make_unique<KubeClusterWatch>(access, KubeReadRules(), quick(), [] {});
  expect_pods({"t/s-0@n1"});
  watch_.reset();
  std::remove(file.c_str());
}

TEST_F(ClusterWatchTest, MissingRightsAreNamed) {
  kube_.others(
      [](TestExchange& exchange) { exchange.answer(403, R"({"message": "pods is forbidden"})"); });
  start();
  wait_for([&] { return !state().trouble.empty(); });
  const absl::Status status = watch_->wait_listed(Clock::now() + 10ms);
  EXPECT_THAT(std::string(status.message()), HasSubstr("status 403, pods is forbidden"));
}

TEST_F(ClusterWatchTest, AnObjectThatCannotBeReadIsAFindingUntilItCan) {
  std::string bad = pod(0, "n1");
  bad.replace(bad.find("\"nvidia.com/gpu\": 8"), 19, "\"nvidia.com/gpu\": -1");
  list({bad}, 5);
  watch(event("MODIFIED", pod(0, "n1"), 6), 1000, false);
  start();
  expect_pods({"t/s-0@n1"});
  EXPECT_TRUE(watch_->faults().empty());
}

TEST_F(ClusterWatchTest, TheSchedulerShowsWhatIsWatchedAndRefusesToChangeIt) {
  const std::string file =
      ::testing::TempDir() + "monkeytree_kube_watch_" + std::to_string(::getpid()) + ".yaml";
  ASSERT_TRUE(write_file(file,
                         "current-context: c\ncontexts: [{name: c, context: {cluster: k, user: "
                         "u}}]\nclusters: [{name: k, cluster: {server: '" +
                             kube_.url() + "'}}]\nusers: [{name: u, user: {token: t}}]\n")
                  .ok());
  list({pod(0, "n1"), pod(1, "n3")}, 5);
  watch(event("MODIFIED", pod(1, "n2"), 6), 1000, false);
  KubernetesSettings settings;
  settings.kubeconfig = file;
  settings.racks.rack_label = "rack";
  settings.uplinks = "2";
  std::atomic<int> changes = 0;
  {
    KubernetesScheduler scheduler(settings, quick());
    scheduler.on_change([&] { ++changes; });
    wait_for([&] {
      const auto seen = scheduler.observe(Clock::now() + 30s);
      EXPECT_TRUE(seen.ok()) << seen.status();
      if (!seen.ok() || seen->snapshot.groups.empty()) return false;
      const Snapshot& snapshot = seen->snapshot;
      return snapshot.nodes[snapshot.groups[GroupId(0)].workers[1]].name == "n2";
    });
    EXPECT_GT(changes, 0);
    EXPECT_THAT(scheduler.describe(), HasSubstr("Kubernetes v1.99.0 at http://127.0.0.1"));
    EXPECT_FALSE(scheduler.why_read_only().empty());
    EXPECT_TRUE(absl::IsFailedPrecondition(
        scheduler.hold({"t.statefulset.s", 0, 1}, "n4", "", Clock::now() + 1s).status()));
    scheduler.on_change({});
  }
  std::remove(file.c_str());
}

}  // namespace
}  // namespace monkeytree
