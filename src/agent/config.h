#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostics.h"
#include "identity/tls_files.h"
#include "wire/worker_protocol.h"

namespace monkeytree {

/// The agent's configuration file: YAML, every field optional, an unknown one is an error.
/// packaging/agent.yaml shows each with its default.
struct AgentConfig {
  std::string node;  ///< as the scheduler names it; "": the machine's short name
  int slots = 0;     ///< 0: not told
  std::vector<std::string> controllers = {"127.0.0.1:7461"};  ///< all that may lead
  std::string socket = kDefaultAgentSocket;
  std::string data;            ///< interface, prefix or address; "": loopback
  int64_t staging_quota = 0;   ///< bytes
  std::string staging_folder;  ///< "": as of staging_folder_of()
  int64_t min_bytes_per_s = 0;
  std::string routes_file;
  std::string ports_file;
  std::vector<std::string> spines;  ///< addresses by which they answer probes, by uplink
  int spine_hops = 2;
  TlsFiles tls;
  bool ucx = false;            ///< state may travel by UCX
  bool encrypt_state = false;  ///< by the same files
  bool insecure = false;
  bool json_log = false;
  friend bool operator==(const AgentConfig&, const AgentConfig&) = default;
};

/// Every fault of the file in one run, as `file:line: /path: …`; nullopt exactly when there was an
/// error.
std::optional<AgentConfig> parse_agent_config(std::string_view text, std::string_view file,
                                              Diagnostics& diagnostics);

/// "1073741824", "64GiB", "500MB": bytes. nullopt where the text is none.
std::optional<int64_t> parse_bytes(std::string_view text);

/// Where staged state is kept: as configured; otherwise in /dev/shm, or beside the socket where
/// that is not the usual one (several agents on one machine).
std::string staging_folder_of(const AgentConfig& config);

/// What is wrong with the configuration as a whole; empty where nothing is.
std::string why_unusable(const AgentConfig& config);

}  // namespace monkeytree
