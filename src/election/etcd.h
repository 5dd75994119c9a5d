#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "identity/tls_files.h"

namespace monkeytree {

/// Where etcd answers.
struct EtcdAccess {
  std::vector<std::string> endpoints;  ///< "http://10.0.0.1:2379", "https://..."
  /// Whom to believe over https, and who we are; ca "": the system's CAs; certificate "": nobody.
  TlsFiles tls;
  friend bool operator==(const EtcdAccess&, const EtcdAccess&) = default;
};

struct EtcdPair {
  std::string key, value;
  int64_t created = 0, modified = 0;  ///< revisions
  int64_t lease = 0;
  friend bool operator==(const EtcdPair&, const EtcdPair&) = default;
};

/// Keys from `key` up to but not `end`; "": that key alone.
struct EtcdRange {
  std::string key, end;
};
/// All keys that begin so.
EtcdRange keys_under(const std::string& prefix);

/// A transaction: all of it is done, or nothing.
struct EtcdChange {
  enum class Revision : uint8_t { kCreated, kModified };
  struct Compare {
    std::string key;
    Revision which = Revision::kCreated;
    int64_t equals = 0;  ///< 0: there is no such key
  };
  struct Put {
    std::string key, value;
    int64_t lease = 0;
  };
  std::vector<Compare> where;
  std::vector<Put> puts;
  std::vector<EtcdRange> removals;
  std::vector<EtcdRange> otherwise;  ///< read, where a comparison does not hold
};

struct EtcdOutcome {
  bool done = false;
  int64_t revision = 0;         ///< of the store, after it
  std::vector<EtcdPair> found;  ///< what `otherwise` names and there is, in that order
};

struct EtcdLease {
  int64_t id = 0;
  std::chrono::seconds ttl{0};
};

/// etcd by its JSON gateway (v3, from etcd 3.4 on). Asks one endpoint after the other, the last one
/// that answered first, each for its part of the limit. Thread-safe; calls run side by side.
///
/// Errors: Unavailable (no endpoint answers, or not well), DataLoss (an answer makes no sense),
/// InvalidArgument (etcd refuses the question). Of a change that ends with an error it is not known
/// whether it was done.
class Etcd {
 public:
  using Limit = std::chrono::milliseconds;

  /// InvalidArgument: an endpoint is no address, or the TLS files cannot be read.
  static absl::StatusOr<std::unique_ptr<Etcd>> open(EtcdAccess access);
  ~Etcd();
  Etcd(const Etcd&) = delete;
  Etcd& operator=(const Etcd&) = delete;

  absl::StatusOr<EtcdOutcome> change(const EtcdChange& change, Limit limit);
  /// In the order of their keys.
  absl::StatusOr<std::vector<EtcdPair>> read(const EtcdRange& range, Limit limit);
  absl::StatusOr<EtcdLease> grant(std::chrono::seconds ttl, Limit limit);
  /// What is left of it; 0 where there is none of that number.
  absl::StatusOr<std::chrono::seconds> keep_alive(int64_t lease, Limit limit);
  /// Ends the lease, and the keys that it keeps. OK where it is gone already.
  absl::Status revoke(int64_t lease, Limit limit);

 private:
  class Connections;
  explicit Etcd(std::unique_ptr<Connections> connections);
  absl::StatusOr<std::string> ask(std::string_view path, const std::string& body, Limit limit);

  std::unique_ptr<Connections> connections_;
};

/// "http://10.0.0.1:2379", "https://etcd-1:2379": its parts; nullopt where it is none.
struct EtcdEndpoint {
  bool tls = false;
  std::string host;
  int port = 0;
};
absl::StatusOr<EtcdEndpoint> parse_endpoint(std::string_view text);

}  // namespace monkeytree
