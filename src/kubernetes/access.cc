#include "kubernetes/access.h"

#include <absl/strings/escaping.h>
#include <absl/strings/numbers.h>
#include <absl/strings/strip.h>
#include <fmt/format.h>

#include "base/diagnostics.h"
#include "base/file.h"
#include "base/json.h"
#include "base/status.h"
#include "base/yaml.h"

namespace monkeytree {
namespace {

/// A text; "" where there is none, or nothing stands after the key, as kubectl writes it.
std::string plain_text(const YamlValue& at) {
  const bool nothing = !at.is_scalar() && !at.is_list() && !at.is_map();
  if (nothing || at.is("null") || at.is("~")) return "";
  return at.nonempty_string().value_or("");
}

std::string text_at(const YamlMap& map, std::string_view key) {
  const YamlValue* at = map.find(key);
  return at == nullptr ? "" : plain_text(*at);
}

bool flag_at(const YamlMap& map, std::string_view key) {
  const YamlValue* at = map.find(key);
  return at != nullptr && at->boolean().value_or(false);
}

/// One reading of a kubeconfig; faults are those of its values.
class KubeconfigReader {
 public:
  explicit KubeconfigReader(std::string file) : file_(std::move(file)) {}

  std::optional<KubeAccess> read(const YamlValue& root, std::string context_name) {
    const YamlMap config = root.map();
    if (context_name.empty()) context_name = text_at(config, "current-context");
    if (context_name.empty()) {
      root.error("no current-context, expected one, or a context in the configuration");
      return std::nullopt;
    }
    const std::optional<YamlValue> context =
        named(root, config, "contexts", context_name, "context");
    if (!context) return std::nullopt;
    const YamlMap names = context->map();
    const std::optional<YamlValue> cluster =
        named(root, config, "clusters", text_at(names, "cluster"), "cluster");
    const std::optional<YamlValue> user =
        named(root, config, "users", text_at(names, "user"), "user");
    KubeAccess access;
    if (cluster) read_cluster(*cluster, access);
    if (user) read_user(*user, access);
    return access;
  }

 private:
  /// The entry of that name in a list of {name, <inner>}.
  static std::optional<YamlValue> named(const YamlValue& root, const YamlMap& config,
                                        std::string_view list, const std::string& name,
                                        std::string_view inner) {
    if (const YamlValue* all = config.find(list)) {
      for (const YamlValue& entry : all->list().value_or(std::vector<YamlValue>())) {
        const YamlMap fields = entry.map();
        if (text_at(fields, "name") != name) continue;
        if (const YamlValue* found = fields.find(inner)) return *found;
      }
    }
    root.error(fmt::format("no {} {} in {}", inner, quote(name), list));
    return std::nullopt;
  }

  std::string path_of(const std::string& name) const {
    return name.starts_with("/") ? name : folder_of(file_) + name;
  }

  /// Inline data, which counts, or a file.
  std::string bytes_of(const YamlMap& map, const std::string& key) {
    if (const std::string data = text_at(map, key + "-data"); !data.empty()) {
      std::string out;
      if (!absl::Base64Unescape(data, &out)) map.find(key + "-data")->error_expected("base64");
      return out;
    }
    const std::string name = text_at(map, key);
    if (name.empty()) return "";
    const absl::StatusOr<std::string> text = read_file(path_of(name));
    if (!text.ok()) {
      map.find(key)->error(fmt::format("{}: {}", printable(name), message_of(text.status())));
      return "";
    }
    return *text;
  }

  void read_cluster(const YamlValue& at, KubeAccess& access) {
    const YamlMap map = at.map();
    if (!parse_server(text_at(map, "server"), access)) {
      at.error("no server, expected one such as https://10.0.0.1:6443");
    }
    access.any_server = flag_at(map, "insecure-skip-tls-verify");
    access.authority = bytes_of(map, "certificate-authority");
    for (const char* key : {"tls-server-name", "proxy-url"}) {
      if (const YamlValue* field = map.find(key)) field->error("is not supported");
    }
  }

  void read_user(const YamlValue& at, KubeAccess& access) {
    const YamlMap map = at.map();
    access.certificate = bytes_of(map, "client-certificate");
    access.key = bytes_of(map, "client-key");
    access.token = text_at(map, "token");
    if (const std::string name = text_at(map, "tokenFile"); !name.empty()) {
      access.token_file = path_of(name);
    }
    for (const char* key : {"username", "auth-provider"}) {
      if (const YamlValue* field = map.find(key)) {
        field->error("is not supported, expected a token, a certificate or exec");
      }
    }
    if (const YamlValue* exec = map.find("exec")) read_exec(*exec, access);
  }

  void read_exec(const YamlValue& at, KubeAccess& access) {
    const YamlMap map = at.map();
    KubeExec exec;
    std::string program = text_at(map, "command");
    if (program.empty()) return at.error("no command, expected a program");
    // As kubectl: a path with a slash is relative to the file.
    if (program.find('/') != std::string::npos) program = path_of(program);
    exec.command.push_back(std::move(program));
    if (const YamlValue* arguments = map.find("args"); arguments && arguments->is_list()) {
      const std::vector<YamlValue> items = arguments->list().value_or(std::vector<YamlValue>());
      for (const YamlValue& item : items) exec.command.push_back(plain_text(item));
    }
    if (const YamlValue* variables = map.find("env"); variables && variables->is_list()) {
      for (const YamlValue& item : variables->list().value_or(std::vector<YamlValue>())) {
        const YamlMap variable = item.map();
        exec.environment[text_at(variable, "name")] = text_at(variable, "value");
      }
    }
    exec.api_version = text_at(map, "apiVersion");
    exec.wants_cluster = flag_at(map, "provideClusterInfo");
    access.exec = std::move(exec);
  }

  std::string file_;
};

}  // namespace

bool parse_server(std::string_view server, KubeAccess& access) {
  access.name = std::string(server);
  if (server.starts_with("https://")) {
    server.remove_prefix(8);
    access.tls = true;
  } else if (server.starts_with("http://")) {
    server.remove_prefix(7);
    access.tls = false;
  } else {
    return false;
  }
  access.port = access.tls ? 443 : 80;
  const size_t slash = server.find('/');
  if (slash != std::string_view::npos) {
    access.prefix = server.substr(slash);
    while (access.prefix.ends_with("/")) access.prefix.pop_back();
    server = server.substr(0, slash);
  }
  const size_t bracket = server.rfind(']');
  const size_t colon = server.rfind(':');
  if (colon != std::string_view::npos && (bracket == std::string_view::npos || colon > bracket)) {
    const std::string_view port = server.substr(colon + 1);
    if (!absl::SimpleAtoi(absl::string_view(port.data(), port.size()), &access.port) ||
        access.port < 1 || access.port > 65535) {
      return false;
    }
    server = server.substr(0, colon);
  }
  if (server.starts_with("[") && server.ends_with("]")) {
    server = server.substr(1, server.size() - 2);
  }
  access.host = std::string(server);
  return !access.host.empty();
}

absl::StatusOr<KubeAccess> read_kubeconfig(const std::string& file, const std::string& context) {
  const absl::StatusOr<std::string> text = read_file(file);
  if (!text.ok()) return with_context(text.status(), printable(file));
  Diagnostics diagnostics;
  const std::optional<YamlValue> root = parse_yaml(*text, printable(file), diagnostics);
  std::optional<KubeAccess> access;
  if (root) access = KubeconfigReader(file).read(*root, context);
  if (!access || diagnostics.has_errors()) {
    return absl::InvalidArgumentError(diagnostics.findings().front().text());
  }
  return *std::move(access);
}

absl::StatusOr<KubeAccess> in_cluster_access(const std::map<std::string, std::string>& environment,
                                             const std::string& folder) {
  const auto host = environment.find("KUBERNETES_SERVICE_HOST");
  const auto port = environment.find("KUBERNETES_SERVICE_PORT");
  if (host == environment.end() || port == environment.end()) {
    return absl::InvalidArgumentError(
        "no kubeconfig is given, and this is no pod of a cluster: KUBERNETES_SERVICE_HOST and "
        "KUBERNETES_SERVICE_PORT are not set");
  }
  KubeAccess access;
  const bool v6 = host->second.find(':') != std::string::npos;
  const std::string server = v6 ? fmt::format("https://[{}]:{}", host->second, port->second)
                                : fmt::format("https://{}:{}", host->second, port->second);
  if (!parse_server(server, access)) {
    return absl::InvalidArgumentError(fmt::format("{} is no address", printable(server)));
  }
  const absl::StatusOr<std::string> authority = read_file(folder + "/ca.crt");
  if (!authority.ok()) return with_context(authority.status(), folder + "/ca.crt");
  access.authority = *authority;
  access.token_file = folder + "/token";
  const absl::StatusOr<std::string> token = read_file(access.token_file);
  if (!token.ok()) return with_context(token.status(), access.token_file);
  return access;
}

}  // namespace monkeytree
