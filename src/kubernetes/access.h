#pragma once

#include <absl/status/statusor.h>

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// How a server of Kubernetes is reached, and by whom.
namespace monkeytree {

/// A program that gives out credentials.
struct KubeExec {
  std::vector<std::string> command;                ///< program first
  std::map<std::string, std::string> environment;  ///< added to ours
  std::string api_version;
  bool wants_cluster = false;
};

struct KubeAccess {
  bool tls = true;
  std::string host;
  int port = 443;
  std::string prefix;  ///< of every path: "" or "/k8s/clusters/c-1"
  std::string
      authority;  ///< certificates that the server's must descend from, PEM; "": the system's
  bool any_server = false;       ///< insecure-skip-tls-verify
  std::string certificate, key;  ///< ours, PEM; or ""
  std::string token;
  std::string token_file;  ///< read anew, as such tokens are exchanged every hour
  std::optional<KubeExec> exec;
  std::string name;  ///< for people: "https://10.0.0.1:6443"
};

/// A kubeconfig, `context` of it, or its current one where that is "". Files that it names are
/// read; their names are relative to it. InvalidArgument says what is wrong and where.
absl::StatusOr<KubeAccess> read_kubeconfig(const std::string& file, const std::string& context);

/// What every pod is given, in this folder; host and port stand in the environment.
inline constexpr std::string_view kKubeAccountFolder =
    "/var/run/secrets/kubernetes.io/serviceaccount";
absl::StatusOr<KubeAccess> in_cluster_access(
    const std::map<std::string, std::string>& environment,
    const std::string& folder = std::string(kKubeAccountFolder));

/// "https://host:port/prefix" into the access. False where it is no such address.
bool parse_server(std::string_view server, KubeAccess& access);

}  // namespace monkeytree
