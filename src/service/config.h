#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostics.h"
#include "control/controller.h"
#include "election/etcd.h"
#include "identity/tls_files.h"
#include "inventory/slurm_scheduler.h"
#include "kubernetes/settings.h"
#include "service/address.h"

/// The controller's configuration file: YAML, docs/operating.md has the table,
/// packaging/controller.yaml names every field with its default.
namespace monkeytree {

/// A cluster in memory, for trying out and for the demo.
struct EmulatedSettings {
  /// Of the process that has the cluster, and the rest below means nothing; "": it is made here.
  std::string socket;
  int racks = 4, nodes_per_rack = 8, slots_per_node = 8, uplinks = 2;
  uint64_t seed = 1;
  double load = 0.9;   ///< share of nodes in use that arrivals aim at
  double every_s = 0;  ///< a job comes or goes so often; 0: never
  int first_jobs = 0;  ///< steps of that kind before the first look
  friend bool operator==(const EmulatedSettings&, const EmulatedSettings&) = default;
};

/// Snapshots that were written before, one after the other.
struct RecordedSettings {
  std::vector<std::string> snapshots;  ///< files, in order
  double every_s = 0;                  ///< each stands so long; 0: one for each look
  friend bool operator==(const RecordedSettings&, const RecordedSettings&) = default;
};

/// The etcd by which several controllers agree who leads; none where it has no endpoints.
struct EtcdSettings {
  EtcdAccess access;
  std::string prefix = "/monkeytree";  ///< of all keys; the same for all controllers of a cluster
  std::string name;                    ///< of this controller; "": the machine's
  int lease_s = 8;                     ///< nobody leads for so long when the leader is gone
  bool configured() const { return !access.endpoints.empty(); }
  friend bool operator==(const EtcdSettings&, const EtcdSettings&) = default;
};

enum class SchedulerKind : uint8_t { kSlurm, kKubernetes, kEmulated, kRecorded };

struct ServiceConfig {
  ControllerRules rules;
  SchedulerKind scheduler = SchedulerKind::kSlurm;
  SlurmSettings slurm;
  KubernetesSettings kubernetes;
  EmulatedSettings emulated;
  RecordedSettings recorded;
  ListenAddress http{"127.0.0.1", 7460};
  ListenAddress agents{"127.0.0.1", 7461};
  /// Where configured, both addresses speak TLS and nothing else, and may be any.
  TlsFiles tls;
  EtcdSettings etcd;
  bool insecure = false;  ///< other addresses than loopback are allowed, without identity
  std::string journal = "/var/lib/monkeytree/journal.db";
  std::string tokens;              ///< file of tokens.h; "": changing calls are refused
  std::string log_level = "info";  ///< "debug", "info", "warn" or "error"
};

/// Every fault of the file in one run, as `file:line: /path: …`; unknown fields are errors. nullopt
/// exactly when there was an error.
std::optional<ServiceConfig> parse_config(std::string_view text, std::string_view file,
                                          Diagnostics& diagnostics);

/// All of it as such a file, every field named: what `controller --check` prints. Reading it gives
/// the same configuration.
std::string write_config(const ServiceConfig& config);

}  // namespace monkeytree
