#pragma once

#include <absl/status/status.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "kubernetes/client.h"
#include "kubernetes/kinds.h"
#include "kubernetes/objects.h"
#include "kubernetes/watch_stream.h"

namespace monkeytree {

/// How the watching is timed; the defaults are for real servers.
struct KubeTimes {
  using Milliseconds = std::chrono::milliseconds;
  Milliseconds watch{270'000};         ///< a watch is asked for this long,
  Milliseconds grace{30'000};          ///< and given up as dead this long after
  Milliseconds list{60'000};           ///< for one page of a list
  Milliseconds first_retry{500};       ///< then twice as long,
  Milliseconds longest_retry{30'000};  ///< up to this; each between half and all of it, by chance
  Milliseconds look_again{600'000};    ///< for kinds that the server does not have
  int page = 500;                      ///< objects of a list asked for at once
};

/// What is known of one kind.
struct KubeKindState {
  bool listed = false;  ///< once whole, since the start
  bool absent = false;  ///< the server does not have it
  std::string trouble;  ///< why it is not being followed now; "" where it is
  std::chrono::steady_clock::time_point heard{};  ///< from the server, last
  std::string version;                            ///< resourceVersion followed from
  int64_t lists = 0, watches = 0, events = 0;     ///< so far
};

/// All objects of a cluster that matter, kept by watching it. A thread for each kind lists and then
/// watches; it goes on from where it was when a watch ends, lists anew where the server has
/// forgotten that, and keeps what it has while the server cannot be reached. Only ever reads.
class KubeClusterWatch {
 public:
  /// `changed` is called from its threads when something that a snapshot may show has changed.
  KubeClusterWatch(KubeAccess access, KubeReadRules rules, KubeTimes times,
                   std::function<void()> changed);
  ~KubeClusterWatch();
  KubeClusterWatch(const KubeClusterWatch&) = delete;
  KubeClusterWatch& operator=(const KubeClusterWatch&) = delete;

  /// Waits until every kind has been listed once. Otherwise the first trouble of a kind that is
  /// needed, or DeadlineExceeded.
  absl::Status wait_listed(std::chrono::steady_clock::time_point deadline);

  /// Calls `use` with the facts, which do not change meanwhile.
  void with_facts(const std::function<void(const KubeFacts&)>& use) const;
  /// Grows with every change that a snapshot may show.
  int64_t revision() const;
  std::map<KubeKind, KubeKindState> states() const;
  /// Objects that could not be read, a line each.
  std::vector<std::string> faults() const;
  /// "v1.20.2"; "" until it is known.
  std::string server_version() const;

 private:
  class Follower;

  // What followers report.
  void take_page(KubeKind kind, const std::vector<simdjson::dom::element>& items,
                 std::set<std::string>& seen);
  void end_list(KubeKind kind, const std::set<std::string>& seen, const std::string& version);
  void take_event(KubeKind kind, const KubeWatchEvent& event);
  void alive(KubeKind kind);
  void end_watch(KubeKind kind);
  void report(KubeKind kind, const absl::Status& status);
  void absent(KubeKind kind);
  /// Puts an object in; true where that shows. The caller holds the mutex.
  bool put(KubeKind kind, simdjson::dom::element object, const std::string& key);

  const KubeAccess access_;
  const KubeReadRules rules_;
  const KubeTimes times_;
  const std::function<void()> changed_;
  KubeCredentials credentials_;

  mutable std::mutex mutex_;
  mutable std::condition_variable listed_;
  KubeFacts facts_;
  std::map<KubeKind, KubeKindState> states_;
  std::map<std::pair<KubeKind, std::string>, std::string> faults_;
  std::string server_version_;
  int64_t revision_ = 0;
  std::vector<std::unique_ptr<Follower>> followers_;
};

}  // namespace monkeytree
