#include "kubernetes/cluster_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <random>
#include <thread>
#include <utility>

#include "base/json.h"
#include "base/status.h"
#include "kubernetes/reading.h"

namespace monkeytree {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

/// A text as a value in a query.
std::string query_text(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '.' || c == '_' || c == '~';
    if (plain) {
      out += c;
    } else {
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return out;
}

}  // namespace

/// Follows one kind in a thread of its own.
class KubeClusterWatch::Follower {
 public:
  Follower(KubeClusterWatch& watch, const KubeKindRow& row)
      : watch_(watch), row_(row), chance_(std::random_device()()) {
    thread_ = std::jthread([this](const std::stop_token& stop) {
      run(stop);
      ended_ = true;
    });
  }

  /// Asks for the end; a call to the server that is just beginning may miss it once.
  void stop() {
    thread_.request_stop();
    const std::lock_guard lock(connection_mutex_);
    if (connection_) connection_->stop();
  }
  bool ended() const { return ended_; }

 private:
  using Status = absl::Status;

  void run(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      Status status = connect(stop);
      if (status.ok()) status = find_version();
      if (status.ok() && version_.empty()) {
        report_absent();
        wait(stop, watch_.times_.look_again);
        continue;
      }
      if (status.ok()) status = follow(stop);
      if (stop.stop_requested()) return;
      back_off(stop, status);
    }
  }

  Status connect(const std::stop_token& stop) {
    if (connection_) return absl::OkStatus();
    auto opened = KubeConnection::open(watch_.access_, watch_.credentials_);
    if (!opened.ok()) return opened.status();
    const std::lock_guard lock(connection_mutex_);
    connection_ = *std::move(opened);
    if (stop.stop_requested()) connection_->stop();
    return absl::OkStatus();
  }

  std::string group_path(std::string_view version) const {
    return row_.group.empty() ? fmt::format("/api/{}", version)
                              : fmt::format("/apis/{}/{}", row_.group, version);
  }

  /// Which version of the kind the server has; none is no error.
  Status find_version() {
    version_.clear();
    for (const std::string_view version : row_.versions) {
      const auto page = connection_->get(group_path(version), Clock::now() + watch_.times_.list);
      if (absl::IsNotFound(page.status())) continue;
      if (!page.ok()) return page.status();
      simdjson::dom::element root;
      if (parser_.parse(*page).get(root) != simdjson::SUCCESS) {
        return absl::UnavailableError("the server's list of kinds is not JSON");
      }
      for (const simdjson::dom::element each : kube_items(kube_at(root, {"resources"}))) {
        if (kube_text(each, {"name"}) == row_.plural) version_ = version;
      }
      if (!version_.empty()) return absl::OkStatus();
    }
    return absl::OkStatus();
  }

  /// Lists, and watches for as long as that goes well. Never OK.
  Status follow(const std::stop_token& stop) {
    if (row_.kind == KubeKind::kNode) ask_server_version();
    while (!stop.stop_requested()) {
      if (Status status = list(); !status.ok()) return status;
      Status status;
      while (status.ok() && !stop.stop_requested()) {
        const Clock::time_point began = Clock::now();
        status = watch_once(stop);
        // A server that ends every watch at once is not asked without pause.
        const milliseconds least = watch_.times_.first_retry;
        if (status.ok() && Clock::now() - began < least) wait(stop, by_chance(least));
      }
      if (!absl::IsOutOfRange(status)) return status;
      wait(stop, by_chance(watch_.times_.first_retry));  // not all clients at once
    }
    return absl::CancelledError("stopped");
  }

  void ask_server_version() {
    const auto page = connection_->get("/version", Clock::now() + watch_.times_.list);
    simdjson::dom::element root;
    if (!page.ok() || parser_.parse(*page).get(root) != simdjson::SUCCESS) return;
    const std::lock_guard lock(watch_.mutex_);
    watch_.server_version_ = kube_text(root, {"gitVersion"});
  }

  std::string path(std::string_view query) const {
    // Pods that have ended are of no interest, and there may be many.
    const std::string_view selector = row_.kind == KubeKind::kPod
                                          ? "&fieldSelector=status.phase%21%3DSucceeded%2C"
                                            "status.phase%21%3DFailed"
                                          : "";
    return fmt::format("{}/{}?{}{}", group_path(version_), row_.plural, query, selector);
  }

  /// All pages of a list. What is not in it any more goes with its last page.
  Status list() {
    std::set<std::string> seen;
    std::string next;
    for (int restarts = 0;;) {
      std::string query = fmt::format("limit={}", watch_.times_.page);
      if (!next.empty()) query += "&continue=" + query_text(next);
      const auto page = connection_->get(path(query), Clock::now() + watch_.times_.list);
      if (absl::IsOutOfRange(page.status()) && !next.empty() && ++restarts < 3) {
        next.clear();  // it took too long: from the front
        seen.clear();
        continue;
      }
      if (!page.ok()) return page.status();
      simdjson::dom::element root;
      if (parser_.parse(*page).get(root) != simdjson::SUCCESS || !kube_at(root, {"items"})) {
        return absl::UnavailableError(fmt::format("the list of {} cannot be read", row_.plural));
      }
      next = kube_text(root, {"metadata", "continue"});
      resource_version_ = kube_text(root, {"metadata", "resourceVersion"});
      watch_.take_page(row_.kind, kube_items(kube_at(root, {"items"})), seen);
      if (next.empty()) break;
    }
    watch_.end_list(row_.kind, seen, resource_version_);
    failures_ = 0;
    return absl::OkStatus();
  }

  /// One watch until it ends; OK where the next may go on from there, OutOfRange where all must be
  /// listed anew.
  Status watch_once(const std::stop_token& stop) {
    const KubeTimes& times = watch_.times_;
    KubeWatchStream stream([this](const KubeWatchEvent& event) {
      resource_version_ = event.version;
      watch_.take_event(row_.kind, event);
      failures_ = 0;
    });
    const std::string query = fmt::format(
        "watch=1&allowWatchBookmarks=true&resourceVersion={}&timeoutSeconds={}",
        query_text(resource_version_), std::max<int64_t>(1, by_chance(times.watch).count() / 1000));
    Status status =
        connection_->stream(path(query), times.watch + times.grace, [&](std::string_view bytes) {
          if (bytes.empty()) watch_.alive(row_.kind);
          return stream.feed(bytes);
        });
    watch_.end_watch(row_.kind);
    if (stream.end() == KubeWatchStream::End::kGone) return absl::OutOfRangeError("");
    if (stream.end() == KubeWatchStream::End::kFault) {
      // What was missed is not known.
      resource_version_.clear();
      return absl::UnavailableError(
          fmt::format("the watch of {}: {}", row_.plural, stream.fault()));
    }
    if (status.ok()) return absl::OkStatus();
    if (absl::IsOutOfRange(status) || absl::IsUnauthenticated(status) ||
        absl::IsPermissionDenied(status) || absl::IsNotFound(status)) {
      return status;
    }
    return resume_later(stop, status);
  }

  /// A watch that broke goes on from where it was, after a while.
  Status resume_later(const std::stop_token& stop, const Status& status) {
    watch_.report(row_.kind, status);
    wait(stop, pause());
    return ++failures_ < kMostResumes ? absl::OkStatus() : status;
  }

  void back_off(const std::stop_token& stop, const Status& status) {
    ++failures_;
    watch_.report(row_.kind, status);
    wait(stop, pause());
  }

  /// How long to wait after a failure: what the server asks for, else twice as long each time.
  milliseconds pause() {
    if (connection_ && connection_->retry_after()) {
      return *connection_->retry_after() + by_chance(watch_.times_.first_retry);
    }
    const KubeTimes& times = watch_.times_;
    const int doublings = std::min(failures_, 16);
    return by_chance(std::min(times.longest_retry, times.first_retry * (1 << doublings)));
  }

  /// Between half and all of it.
  milliseconds by_chance(milliseconds most) {
    return milliseconds(
        std::uniform_int_distribution<int64_t>(most.count() / 2, most.count())(chance_));
  }

  void report_absent() {
    if (row_.needed) {
      watch_.report(row_.kind,
                    absl::NotFoundError(fmt::format("the server has no {}", row_.plural)));
    } else {
      watch_.absent(row_.kind);
    }
  }

  void wait(const std::stop_token& stop, milliseconds time) {
    std::mutex mutex;
    std::condition_variable_any woken;
    std::unique_lock lock(mutex);
    woken.wait_for(lock, stop, time, [] { return false; });
  }

  static constexpr int kMostResumes = 5;  ///< in a row without an event; then all is listed anew

  KubeClusterWatch& watch_;
  const KubeKindRow& row_;
  std::mt19937_64 chance_;
  std::mutex connection_mutex_;  ///< guards the pointer against stop()
  std::unique_ptr<KubeConnection> connection_;
  simdjson::dom::parser parser_;
  std::string version_;           ///< of the API
  std::string resource_version_;  ///< of what has been seen
  int failures_ = 0;
  std::atomic<bool> ended_ = false;
  std::jthread thread_;
};

KubeClusterWatch::KubeClusterWatch(KubeAccess access, KubeReadRules rules, KubeTimes times,
                                   std::function<void()> changed)
    : access_(std::move(access)),
      rules_(std::move(rules)),
      times_(times),
      changed_(std::move(changed)),
      credentials_(access_) {
  for (const KubeKindRow& row : kube_kinds()) states_[row.kind];
  for (const KubeKindRow& row : kube_kinds()) {
    followers_.push_back(std::make_unique<Follower>(*this, row));
  }
}

KubeClusterWatch::~KubeClusterWatch() {
  const auto all_ended = [&] {
    return std::all_of(followers_.begin(), followers_.end(),
                       [](const auto& follower) { return follower->ended(); });
  };
  while (!all_ended()) {
    for (const auto& follower : followers_) follower->stop();
    std::this_thread::sleep_for(milliseconds(5));
  }
}

bool KubeClusterWatch::put(KubeKind kind, simdjson::dom::element object, const std::string& key) {
  const KubePut done = facts_.put(kind, object, rules_);
  if (done.fault) {
    faults_[{kind, key}] = fmt::format("{} {}: {}: {}", row_of(kind).name, printable(key),
                                       done.fault->path, done.fault->message);
  } else if (!faults_.empty()) {
    faults_.erase({kind, key});
  }
  return done.changed;
}

void KubeClusterWatch::take_page(KubeKind kind, const std::vector<simdjson::dom::element>& items,
                                 std::set<std::string>& seen) {
  bool shows = false;
  {
    const std::lock_guard lock(mutex_);
    states_[kind].heard = Clock::now();
    for (const simdjson::dom::element item : items) {
      std::string key = kube_key(item);
      shows |= put(kind, item, key);
      seen.insert(std::move(key));
    }
    if (shows) ++revision_;
  }
  if (shows) changed_();
}

void KubeClusterWatch::end_list(KubeKind kind, const std::set<std::string>& seen,
                                const std::string& version) {
  bool shows = false;
  {
    const std::lock_guard lock(mutex_);
    for (const std::string& key : facts_.keys(kind)) {
      if (seen.contains(key)) continue;
      facts_.remove(kind, key);
      shows = true;
    }
    std::erase_if(faults_, [&](const auto& fault) {
      return fault.first.first == kind && !seen.contains(fault.first.second);
    });
    KubeKindState& state = states_[kind];
    shows |= !state.listed;
    state.listed = true;
    state.absent = false;
    state.trouble.clear();
    state.version = version;
    state.heard = Clock::now();
    ++state.lists;
    if (shows) ++revision_;
  }
  listed_.notify_all();
  if (shows) changed_();
}

void KubeClusterWatch::take_event(KubeKind kind, const KubeWatchEvent& event) {
  bool shows = false;
  {
    const std::lock_guard lock(mutex_);
    KubeKindState& state = states_[kind];
    state.heard = Clock::now();
    state.version = event.version;
    state.trouble.clear();
    ++state.events;
    const std::string key = kube_key(event.object);
    if (event.kind == KubeWatchEvent::Kind::kPut) shows = put(kind, event.object, key);
    if (event.kind == KubeWatchEvent::Kind::kDeleted) {
      shows = facts_.remove(kind, key);
      faults_.erase({kind, key});
    }
    if (shows) ++revision_;
  }
  if (shows) changed_();
}

void KubeClusterWatch::alive(KubeKind kind) {
  const std::lock_guard lock(mutex_);
  states_[kind].heard = Clock::now();
  states_[kind].trouble.clear();
}

void KubeClusterWatch::end_watch(KubeKind kind) {
  const std::lock_guard lock(mutex_);
  ++states_[kind].watches;
}

void KubeClusterWatch::report(KubeKind kind, const absl::Status& status) {
  if (absl::IsCancelled(status)) return;
  const std::lock_guard lock(mutex_);
  KubeKindState& state = states_[kind];
  state.trouble = std::string(message_of(status));
  // Without the right to see a kind that is not needed we go on without it.
  if (absl::IsPermissionDenied(status) && !row_of(kind).needed) state.listed = true;
  listed_.notify_all();
}

void KubeClusterWatch::absent(KubeKind kind) {
  const std::lock_guard lock(mutex_);
  KubeKindState& state = states_[kind];
  state.listed = state.absent = true;
  state.trouble.clear();
  listed_.notify_all();
}

absl::Status KubeClusterWatch::wait_listed(Clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  const auto all = [&] {
    return std::all_of(states_.begin(), states_.end(),
                       [](const auto& state) { return state.second.listed; });
  };
  if (listed_.wait_until(lock, deadline, all)) return absl::OkStatus();
  for (const auto& [kind, state] : states_) {
    if (!state.listed && !state.trouble.empty()) return absl::UnavailableError(state.trouble);
  }
  return absl::DeadlineExceededError("the cluster has not been listed in time");
}

void KubeClusterWatch::with_facts(const std::function<void(const KubeFacts&)>& use) const {
  const std::lock_guard lock(mutex_);
  use(facts_);
}

int64_t KubeClusterWatch::revision() const {
  const std::lock_guard lock(mutex_);
  return revision_;
}

std::map<KubeKind, KubeKindState> KubeClusterWatch::states() const {
  const std::lock_guard lock(mutex_);
  return states_;
}

std::vector<std::string> KubeClusterWatch::faults() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> out;
  for (const auto& [key, fault] : faults_) out.push_back(fault);
  return out;
}

std::string KubeClusterWatch::server_version() const {
  const std::lock_guard lock(mutex_);
  return server_version_;
}

}  // namespace monkeytree
