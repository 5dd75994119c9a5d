#pragma once

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "control/controller.h"

namespace monkeytree {

/// What Prometheus sees: counters and step durations since the start, and what a view of the
/// controller says now. docs/operating.md has the list. Thread-safe.
class Metrics {
 public:
  Metrics();

  void on_step(const StepNotice& notice);
  void on_event(const Event& event);
  void on_request(std::string_view route, int status);
  void on_notification(bool taken);

  /// The page, in Prometheus' text format; the same state gives the same text.
  std::string text(const ControllerView& view, const std::map<PlanState, int64_t>& plans,
                   size_t listeners, double now_s) const;

 private:
  using Counters = prometheus::Family<prometheus::Counter>;
  using Histograms = prometheus::Family<prometheus::Histogram>;

  prometheus::Registry registry_;
  prometheus::Counter& moves_;
  Counters& migrations_;
  Counters& step_failures_;
  Histograms& step_seconds_;
  Counters& events_;
  Counters& requests_;
  Counters& notifications_;

  std::mutex mutex_;
  std::map<std::pair<std::string, Step>, std::chrono::steady_clock::time_point> began_;
};

}  // namespace monkeytree
