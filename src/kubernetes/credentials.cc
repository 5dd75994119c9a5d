#include "kubernetes/credentials.h"

#include <absl/strings/strip.h>
#include <fmt/format.h>
#include <simdjson.h>
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/command.h"
#include "base/file.h"
#include "base/json.h"
#include "base/status.h"
#include "kubernetes/reading.h"

namespace monkeytree {
namespace {

constexpr auto kFileHolds = std::chrono::seconds(60);
/// Credentials are given up so long before they end.
constexpr double kEarly_s = 30;
/// How long a program's answer without an end holds.
constexpr auto kProgramHolds = std::chrono::minutes(10);

double wall_s() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::map<std::string, std::string> our_environment() {
  std::map<std::string, std::string> out;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const size_t equals = text.find('=');
    if (equals != std::string_view::npos) {
      out.emplace(text.substr(0, equals), text.substr(equals + 1));
    }
  }
  return out;
}

/// What such a program is told: docs of client-go's credential plugins.
std::string exec_info(const KubeAccess& access) {
  nlohmann::json info = {{"kind", "ExecCredential"},
                         {"apiVersion", access.exec->api_version},
                         {"spec", {{"interactive", false}}}};
  if (access.exec->wants_cluster) info["spec"]["cluster"] = {{"server", access.name}};
  return info.dump();
}

}  // namespace

absl::StatusOr<ExecCredential> parse_exec_credential(std::string_view text) {
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  if (parser.parse(text.data(), text.size()).get(root) != simdjson::SUCCESS) {
    return absl::UnauthenticatedError("it did not print JSON");
  }
  if (kube_text(root, {"kind"}) != "ExecCredential") {
    return absl::UnauthenticatedError("it did not print an ExecCredential");
  }
  ExecCredential out;
  out.token = kube_text(root, {"status", "token"});
  out.certificate = kube_text(root, {"status", "clientCertificateData"});
  out.key = kube_text(root, {"status", "clientKeyData"});
  if (out.token.empty() && (out.certificate.empty() || out.key.empty())) {
    return absl::UnauthenticatedError("it gave neither a token nor a certificate with its key");
  }
  const std::string_view end = kube_text(root, {"status", "expirationTimestamp"});
  out.ends_s = kube_time(end).value_or(std::numeric_limits<double>::infinity());
  return out;
}

absl::StatusOr<KubeCredentials::Identity> KubeCredentials::now(Clock::time_point deadline) {
  const std::lock_guard lock(mutex_);
  if (known_ && Clock::now() < until_) return identity_;
  absl::Status status;
  if (access_.exec) {
    status = ask_program(deadline);
  } else if (!access_.token_file.empty()) {
    status = ask_file();
  } else {
    identity_ = {access_.token, access_.certificate, access_.key, 1};
    until_ = Clock::time_point::max();
  }
  if (!status.ok()) return status;
  known_ = true;
  return identity_;
}

void KubeCredentials::refused(int generation) {
  const std::lock_guard lock(mutex_);
  if (identity_.generation == generation) until_ = {};
}

absl::Status KubeCredentials::ask_file() {
  const absl::StatusOr<std::string> text = read_file(access_.token_file);
  if (!text.ok()) {
    return absl::UnauthenticatedError(
        fmt::format("{}: {}", printable(access_.token_file), message_of(text.status())));
  }
  const std::string token(absl::StripAsciiWhitespace(*text));
  if (token != identity_.token || !known_) {
    identity_ = {token, access_.certificate, access_.key, identity_.generation + 1};
  }
  until_ = Clock::now() + kFileHolds;
  return absl::OkStatus();
}

absl::Status KubeCredentials::ask_program(Clock::time_point deadline) {
  Command command;
  command.arguments = access_.exec->command;
  command.environment = our_environment();
  for (const auto& [key, value] : access_.exec->environment) command.environment[key] = value;
  command.environment["KUBERNETES_EXEC_INFO"] = exec_info(access_);
  const absl::StatusOr<CommandResult> run = run_command(command, deadline);
  const std::string program = printable(command.arguments.front());
  if (!run.ok()) {
    return absl::UnauthenticatedError(fmt::format("{}: {}", program, message_of(run.status())));
  }
  if (run->exit_code != 0) {
    return absl::UnauthenticatedError(fmt::format("{} ended with exit code {}: {}", program,
                                                  run->exit_code, printable(run->err)));
  }
  absl::StatusOr<ExecCredential> given = parse_exec_credential(run->out);
  if (!given.ok()) return with_context(given.status(), program);
  const double left_s = given->ends_s - kEarly_s - wall_s();
  const auto most = std::chrono::duration<double>(kProgramHolds).count();
  identity_ = {std::move(given->token), std::move(given->certificate), std::move(given->key),
               identity_.generation + 1};
  until_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                              std::chrono::duration<double>(std::clamp(left_s, 1.0, most)));
  return absl::OkStatus();
}

}  // namespace monkeytree
