#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string_view>

#include "base/diagnostics.h"
#include "cluster/snapshot.h"
#include "service/http_message.h"

/// The calls that compute something from what they are given and change nothing, on a controller
/// and on a file alike.
namespace monkeytree {

/// What `POST /api/v1/import` is given, as a snapshot: {"topology": TEXT, "jobs": TEXT, "nodes":
/// TEXT, "uplinks": N, "topology_name": NAME}, of which the first two must be there. Findings are
/// those of the texts, which go by the names of their fields. nullopt exactly when there was an
/// error.
/// `most_values`: JSON values of a text.
std::optional<Snapshot> import_texts(std::string_view request, Diagnostics& diagnostics,
                                     size_t most_values = SIZE_MAX);

/// One such call at a time: another is told to come back. Thread-safe.
class TryApi {
 public:
  struct Limits {
    /// Search nodes of the planner; none, as the time ends it and a limit would keep it from the
    /// plans of badly fragmented clusters.
    int64_t work = INT64_MAX;
    std::chrono::milliseconds time{5'000};  ///< of the planner
    size_t body = size_t{16} << 20;         ///< bytes of a request
    /// Of a request's JSON, and of JSON within it: each may take some hundred bytes of memory, and
    /// a cluster of 16,384 nodes has less than a million.
    size_t values = 4'000'000;
  };
  static constexpr std::string_view kWhatIf = "/api/v1/what-if";
  static constexpr std::string_view kImport = "/api/v1/import";

  explicit TryApi(Limits limits) : limits_(limits) {}

  /// `live`: what it is about where the request brings no snapshot; null where there is none.
  HttpResponse what_if(const HttpRequest& request, const Snapshot* live);
  HttpResponse import(const HttpRequest& request);

  /// These calls may take long.
  static bool slow(const HttpRequest& request);
  /// Bytes that the body of a request may have.
  size_t most_body(const HttpRequest& request) const;

 private:
  const Limits limits_;
  std::mutex one_;
};

}  // namespace monkeytree
