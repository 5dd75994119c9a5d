#include <absl/strings/match.h>
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "service/api.h"
#include "service/api_common.h"
#include "service/tokens.h"

/// Who may ask for what, and what is written down of it.
namespace monkeytree {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMostSaid = 400;  // bytes of a body in the audit log
constexpr std::string_view kBearer = "Bearer ";
constexpr std::string_view kCookie = "monkeytree=";

/// The secret that came with the request; a cookie counts for what changes nothing: a page of
/// another site could have it sent along.
std::string_view secret_in(const HttpRequest& request, bool changing) {
  const std::string_view given = request.header("authorization");
  if (absl::StartsWithIgnoreCase({given.data(), given.size()}, kBearer.data())) {
    return given.substr(kBearer.size());
  }
  if (changing) return "";
  std::string_view left = request.header("cookie");
  while (!left.empty()) {
    std::string_view cookie = left.substr(0, left.find(';'));
    left.remove_prefix(std::min(cookie.size() + 1, left.size()));
    cookie.remove_prefix(std::min(cookie.find_first_not_of(' '), cookie.size()));
    if (cookie.starts_with(kCookie)) return cookie.substr(kCookie.size());
  }
  return "";
}

/// "OK", or the status and what the answer says.
std::string outcome_of(const HttpResponse& response) {
  if (response.status < 300) return "OK";
  const nlohmann::json body = nlohmann::json::parse(response.body, nullptr, false);
  const auto error = body.is_object() ? body.find("error") : body.end();
  const std::string said = error != body.end() ? error->value("message", "") : "";
  return fmt::format("{} {}", response.status, said);
}

}  // namespace

std::optional<TokenEntry> Api::caller(const HttpRequest& request, Role needed,
                                      HttpResponse& no) const {
  if (settings_.tokens.empty()) {
    no = http_error(403,
                    "this call needs a token, and the controller knows none: make one with "
                    "monkeytree token add NAME --role operate --tokens FILE and name the file in "
                    "its configuration as tokens");
    return std::nullopt;
  }
  const absl::StatusOr<std::vector<TokenEntry>> tokens = read_tokens(settings_.tokens);
  if (!tokens.ok()) {
    no = http_error(403, message_of(tokens.status()));
    return std::nullopt;
  }
  const std::string_view secret = secret_in(request, needed != Role::kRead);
  const TokenEntry* const found = find_token(*tokens, secret);
  if (found == nullptr) {
    no = http_error(
        401, secret.empty() ? "expected a token: Authorization: Bearer TOKEN" : "not our token");
    no.headers["WWW-Authenticate"] = "Bearer";
    return std::nullopt;
  }
  if (found->role < needed) {
    no = http_error(403, fmt::format("the token of {} may {}, this call needs one that may {}",
                                     found->name, name_of(found->role), name_of(needed)));
  }
  return *found;
}

std::optional<HttpResponse> Api::refuse_reader(const HttpRequest& request) const {
  HttpResponse no;
  if (caller(request, Role::kRead, no)) return std::nullopt;
  return no;
}

HttpResponse Api::change(const Route& route, const HttpRequest& request, std::string_view id) {
  HttpResponse no;
  const Role needed = route.kind == Route::kOperate ? Role::kOperate : Role::kApprove;
  const std::optional<TokenEntry> who = caller(request, needed, no);
  Journal& journal = parts_.controller.journal();
  AuditEntry entry;
  entry.time_s = parts_.wall_s();
  if (who) {
    entry.who = who->name;
    entry.role = name_of(who->role);
  }
  entry.from = request.peer;
  entry.call = fmt::format("{} {}", request.method, printable(request.path));
  entry.said = printable(std::string_view(request.body).substr(0, kMostSaid));
  if (!who || who->role < needed) {
    entry.outcome = outcome_of(no);
    if (audited_refusals_.pass(Clock::now())) journal.add_audit(entry).IgnoreError();
    return no;
  }
  const absl::StatusOr<int64_t> number = journal.add_audit(entry);
  if (!number.ok()) {
    return http_error(with_context(number.status(), "what is not written down is not done"));
  }
  HttpRequest named = request;
  named.caller = who->name;
  HttpResponse response = (this->*route.answer)(named, id);
  journal.set_audit_outcome(*number, outcome_of(response)).IgnoreError();
  return response;
}

HttpResponse Api::open_session(const HttpRequest& request, std::string_view /*id*/) {
  HttpResponse no;
  const std::optional<TokenEntry> who = caller(request, Role::kRead, no);
  if (!who) return no;
  HttpResponse response = json_answer(
      fmt::format("{{\"name\": {}, \"role\": {}}}\n", quote(who->name), quote(name_of(who->role))));
  response.headers["Set-Cookie"] =
      fmt::format("{}{}; Path=/; HttpOnly; SameSite=Strict{}", kCookie, secret_in(request, false),
                  settings_.loopback || settings_.insecure ? "" : "; Secure");
  return response;
}

HttpResponse Api::close_session(const HttpRequest& /*request*/, std::string_view /*id*/) {
  HttpResponse response = json_answer("{\"ok\": true}\n");
  response.headers["Set-Cookie"] =
      fmt::format("{}; Path=/; HttpOnly; SameSite=Strict; Max-Age=0", kCookie);
  return response;
}

}  // namespace monkeytree
