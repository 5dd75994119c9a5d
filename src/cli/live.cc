#include "cli/live.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "base/json.h"
#include "base/status.h"
#include "cli/api_client.h"
#include "cli/common.h"
#include "identity/tls_files.h"
#include "service/http_message.h"
#include "service/token.h"

namespace monkeytree {
namespace {

using Json = nlohmann::json;

constexpr std::chrono::seconds kAskLimit{15};
constexpr std::chrono::seconds kChangeLimit{180};  ///< an approval looks at the cluster first
constexpr size_t kMostListed = 30;
constexpr int kExitRefused = 3;

constexpr const char* kWhere =
    "\n\n"
    "The controller is at 127.0.0.1:7460, or --address, or MONKEYTREE_ADDRESS. It is\n"
    "asked by HTTPS where --ca or MONKEYTREE_CA_FILE names the CA of its certificate.\n"
    "Exit code: 0 done, 1 no controller answers, 2 bad usage, 3 refused.";

struct Arguments {
  std::string address, ca, token_file, why, plan;
  int limit = 40;
  bool json = false, plans = false, audit = false;
};

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// Who asks: the user's name, also behind sudo.
std::string user_name() {
  if (std::string sudo = environment("SUDO_USER"); !sudo.empty()) return sudo;
  const passwd* entry = getpwuid(geteuid());
  return entry != nullptr ? entry->pw_name : fmt::format("user {}", geteuid());
}

std::string local_time(double unix_s) {
  const auto seconds = static_cast<std::time_t>(unix_s);
  std::tm local{};
  localtime_r(&seconds, &local);
  return fmt::format("{:%Y-%m-%d %H:%M:%S}", local);
}

std::string text_at(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>() : "";
}
double number_at(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_number() ? found->get<double>() : 0;
}
Json at(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() ? *found : Json();
}

/// `text` in lines that fit, the further ones indented. `used` columns of the first are taken.
std::string lines_of(std::string_view text, size_t indent, size_t used = 0) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(' ', at), text.size());
    const std::string word = printable(text.substr(at, end - at));
    at = end + 1;
    if (used > 0 && used + 1 + word.size() > kColumns) {
      out += "\n" + std::string(indent, ' ');
      used = indent;
    } else if (used > 0) {
      out += " ";
      ++used;
    }
    out += word;
    used += word.size();
  }
  return out + "\n";
}

/// A conversation with the controller; messages are printed here.
class Session {
 public:
  explicit Session(const Arguments& arguments) : arguments_(arguments) {}

  /// nullopt after a message; exit_code() then says how to end.
  std::optional<std::string> get(const std::string& target) { return call("GET", target, ""); }

  int change(const std::string& target, std::string_view done) {
    Json body = {{"by", user_name()}};
    if (!arguments_.why.empty()) body["why"] = arguments_.why;
    const std::optional<std::string> answer =
        call("POST", target, body.dump(-1, ' ', false, Json::error_handler_t::replace));
    if (!answer) return exit_code_;
    return print_result(arguments_.json ? *answer : fmt::format("{}\n", done), kExitDone);
  }

  int exit_code() const { return exit_code_; }

 private:
  std::optional<std::string> call(std::string_view method, const std::string& target,
                                  std::string_view body) {
    const std::string file = arguments_.token_file.empty() ? environment("MONKEYTREE_TOKEN_FILE")
                                                           : arguments_.token_file;
    std::string token;
    if (!file.empty()) {
      const absl::StatusOr<std::string> read = read_token(file);
      if (!read.ok()) return fail(kExitBadInput, std::string(message_of(read.status())));
      token = *read;
    }
    std::string where = arguments_.address;
    if (where.empty()) where = environment("MONKEYTREE_ADDRESS");
    if (where.empty()) where = "127.0.0.1:7460";
    const std::optional<ListenAddress> address = parse_address(where);
    if (!address) {
      return fail(kExitBadInput, fmt::format("--address: expected HOST:PORT such as "
                                             "127.0.0.1:7460, found {}",
                                             quote(where)));
    }
    ApiServer server{*address, "", token};
    const std::string ca =
        arguments_.ca.empty() ? environment("MONKEYTREE_CA_FILE") : arguments_.ca;
    if (!ca.empty()) {
      const absl::StatusOr<std::string> authorities = read_authorities(ca);
      if (!authorities.ok()) return fail(kExitBadInput, message_of(authorities.status()));
      server.authorities = *authorities;
    }
    const absl::StatusOr<ApiAnswer> answer =
        call_api(server, method, target, body, body.empty() ? kAskLimit : kChangeLimit);
    if (absl::IsPermissionDenied(answer.status())) {
      return fail(kExitFailed, message_of(answer.status()));
    }
    if (!answer.ok()) {
      return fail(kExitFailed, fmt::format("{}; is it running (systemctl status "
                                           "monkeytree-controller), is --address right?",
                                           message_of(answer.status())));
    }
    const Json json = Json::parse(answer->body, nullptr, false);
    if (answer->status < 300) {
      // What else listens there must not pass for a controller that has done what it was told.
      if (json.is_object() && !json.empty()) return answer->body;
      return fail(kExitFailed, fmt::format("what listens at {} is no monkeytree controller: is "
                                           "--address right?",
                                           to_string(*address)));
    }
    const std::string message = json.is_object() ? text_at(at(json, "error"), "message") : "";
    const bool bad = answer->status == 400;
    std::string text =
        message.empty() ? fmt::format("HTTP status {}", answer->status) : printable(message);
    if (answer->status == 401) text += "; --token-file or MONKEYTREE_TOKEN_FILE names its file";
    return fail(bad ? kExitBadInput : answer->status >= 500 ? kExitFailed : kExitRefused, text);
  }

  std::nullopt_t fail(int exit_code, std::string_view message) {
    exit_code_ = exit_code;
    print_error(message);
    return std::nullopt;
  }

  const Arguments& arguments_;
  int exit_code_ = kExitFailed;
};

/// An answer of the controller as JSON; {} where it is none, and what is missing reads as empty.
Json read_answer(const std::string& text) {
  Json json = Json::parse(text, nullptr, false);
  return json.is_object() ? json : Json::object();
}

std::string plan_list(const Json& plans) {
  std::string out;
  for (const Json& plan : plans)
    out += fmt::format(" {}", plan.is_number() ? plan.get<int64_t>() : 0);
  return out;
}

/// Of several controllers: who leads.
std::string lead_text(const Json& lead) {
  const std::string name = text_at(lead, "name"), leader = text_at(lead, "leader");
  if (at(lead, "leads") == true) {
    return fmt::format("this controller ({}) leads; {:.0f} s of its lease are left", name,
                       number_at(lead, "lease_left_s"));
  }
  if (const std::string trouble = text_at(lead, "trouble"); !trouble.empty()) {
    return fmt::format("this controller ({}) does not lead, and who does is not known: {}", name,
                       trouble);
  }
  if (leader.empty() || leader == name) return "no controller leads at this moment";
  const std::string address = text_at(lead, "address");
  return fmt::format("{}{} leads; this controller ({}) stands by", leader,
                     address.empty() ? "" : " at " + address, name);
}

std::string status_text(const Json& status, const Paint& paint) {
  std::string out = paint.bold(fmt::format("mode {}", text_at(status, "mode")));
  if (at(status, "observation_age_s").is_number()) {
    out += fmt::format(", looked at {:.0f} s ago", number_at(status, "observation_age_s"));
  }
  out += "\n" + lines_of(text_at(status, "scheduler"), 2);
  if (const Json lead = at(status, "leadership"); lead.is_object()) {
    out += lines_of(lead_text(lead), 2);
  }
  if (const std::string why = text_at(status, "read_only"); !why.empty()) {
    out += lines_of("moves cannot be booked: " + why, 2);
  }
  if (at(status, "paused") == true) {
    out += paint.bad("paused") + lines_of(text_at(status, "paused_why"), 2, 6);
  }
  if (at(status, "insecure") == true) out += paint.bad("insecure: true") + "\n";
  if (at(status, "ready") != true) {
    out += paint.bad("not ready") + "\n" + lines_of(text_at(status, "trouble"), 2);
  }
  if (const Json cluster = at(status, "cluster"); cluster.is_object()) {
    out += fmt::format("{}, {}, {}\n",
                       counted(static_cast<long long>(number_at(cluster, "racks")), "rack"),
                       counted(static_cast<long long>(number_at(cluster, "nodes")), "node"),
                       counted(static_cast<long long>(number_at(cluster, "jobs")), "job"));
  }
  const Json agents = at(status, "agents");
  out += fmt::format("{} of {} connected\n", static_cast<int64_t>(number_at(agents, "connected")),
                     counted(static_cast<long long>(number_at(agents, "known")), "agent"));
  const Json running = at(status, "running"), waiting = at(status, "waiting");
  if (!running.empty()) out += lines_of("plans running:" + plan_list(running), 2);
  if (!waiting.empty()) {
    out += lines_of("plans that wait for monkeytree approve:" + plan_list(waiting), 2);
  }
  const Json over = at(status, "racks_over");
  if (at(status, "cluster").is_object() && over.empty()) {
    out += paint.good("no rack is over its bound") + "\n";
  }
  if (!over.empty()) {
    out += paint.bad(fmt::format("{} over the bound",
                                 counted(static_cast<long long>(over.size()), "rack"))) +
           "\n\n";
    Table table({"rack", "degree/bound"});
    for (size_t i = 0; i < over.size() && i < kMostListed; ++i) {
      table.add({text_at(over[i], "rack"),
                 fmt::format("{}/{}", static_cast<int64_t>(number_at(over[i], "degree")),
                             static_cast<int64_t>(number_at(over[i], "bound")))});
    }
    out += table.text(paint);
    if (over.size() > kMostListed)
      out += fmt::format("... and {} more\n", over.size() - kMostListed);
  }
  const Json held = at(status, "held_back");
  if (held.is_object() && !held.empty()) {
    Table table({"job", "may not move because"});
    size_t listed = 0;
    for (const auto& [job, why] : held.items()) {
      if (listed++ == kMostListed) break;
      table.add({fit(job, 20), why.is_string() ? why.get<std::string>() : ""});
    }
    out += "\n" + table.text(paint);
    if (held.size() > kMostListed)
      out += fmt::format("... and {} more\n", held.size() - kMostListed);
  }
  for (const char* key : {"orphans", "findings"}) {
    const Json list = at(status, key);
    if (list.empty()) continue;
    out += fmt::format("\n{}\n",
                       std::string_view(key) == "orphans" ? "holds that nobody uses:" : "remarks:");
    for (size_t i = 0; i < list.size() && i < kMostListed; ++i) {
      if (list[i].is_string()) out += lines_of("- " + list[i].get<std::string>(), 2);
    }
    if (list.size() > kMostListed)
      out += fmt::format("... and {} more\n", list.size() - kMostListed);
  }
  return out;
}

int run_status(const Arguments& arguments) {
  Session session(arguments);
  const std::optional<std::string> answer = session.get("/api/v1/status");
  if (!answer) return session.exit_code();
  if (arguments.json) return print_result(*answer, kExitDone);
  return print_result(status_text(read_answer(*answer), Paint(colors_wanted())), kExitDone);
}

int run_explain(const Arguments& arguments) {
  Session session(arguments);
  const std::optional<std::string> answer =
      session.get("/api/v1/plans/" + percent_encoded(arguments.plan));
  if (!answer) return session.exit_code();
  if (arguments.json) return print_result(*answer, kExitDone);
  return print_result(text_at(read_answer(*answer), "explanation"), kExitDone);
}

std::string plans_text(const Json& plans, const Paint& paint) {
  Table table({"plan", "made", "state", "moves", "reason"});
  for (const Json& plan : plans) {
    table.add({fmt::format("{:.0f}", number_at(plan, "id")), local_time(number_at(plan, "made_s")),
               text_at(plan, "state"), fmt::format("{:.0f}", number_at(plan, "moves")),
               text_at(plan, "reason")});
  }
  return table.empty() ? "no plan has been made\n" : table.text(paint);
}

std::string events_text(const Json& events) {
  std::string out;
  for (const Json& event : events) {
    out += lines_of(fmt::format("{}  {}: {}", local_time(number_at(event, "time_s")),
                                text_at(event, "kind"), text_at(event, "text")),
                    4);
  }
  return out.empty() ? "nothing has happened\n" : out;
}

std::string calls_text(const Json& calls) {
  std::string out;
  for (const Json& call : calls) {
    const std::string who = text_at(call, "who");
    const std::string role = text_at(call, "role");
    const std::string said = text_at(call, "said");
    out += lines_of(fmt::format("{}  {} from {}: {}{}: {}", local_time(number_at(call, "time_s")),
                                who.empty() ? "nobody" : fmt::format("{} ({})", who, role),
                                text_at(call, "from"), text_at(call, "call"),
                                said.empty() ? "" : " " + said, text_at(call, "outcome")),
                    4);
  }
  return out.empty() ? "nobody has asked for a change\n" : out;
}

int run_history(const Arguments& arguments) {
  Session session(arguments);
  const char* what = arguments.plans ? "plans" : arguments.audit ? "audit" : "history";
  const std::optional<std::string> answer =
      session.get(fmt::format("/api/v1/{}?limit={}", what, arguments.limit));
  if (!answer) return session.exit_code();
  if (arguments.json) return print_result(*answer, kExitDone);
  const Json json = read_answer(*answer);
  const std::string text = arguments.plans   ? plans_text(at(json, "plans"), Paint(colors_wanted()))
                           : arguments.audit ? calls_text(at(json, "calls"))
                                             : events_text(at(json, "events"));
  return print_result(text, kExitDone);
}

/// A verb with the options that all share.
std::shared_ptr<Arguments> add_verb(CLI::App& app, const std::string& name,
                                    const std::string& description, const std::string& examples,
                                    int& exit_code, const std::function<int(const Arguments&)>& run,
                                    CLI::App** command) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App& verb = add_command(app, name, description, examples + kWhere);
  verb.add_option("--address", arguments->address, "of the controller")->type_name("HOST:PORT");
  verb.add_option("--ca", arguments->ca, "of the controller's certificate: asks by HTTPS")
      ->type_name("FILE");
  verb.add_flag("--json", arguments->json, "what the controller answers, as it is");
  verb.add_option("--token-file", arguments->token_file,
                  "holds the token; else MONKEYTREE_TOKEN_FILE names it")
      ->type_name("FILE");
  verb.callback([arguments, run, &exit_code] { exit_code = run(*arguments); });
  *command = &verb;
  return arguments;
}

void add_plan_argument(CLI::App& command, Arguments& arguments) {
  command.add_option("PLAN", arguments.plan, "its number")->required()->type_name("");
}

void add_reading(CLI::App& app, int& exit_code) {
  CLI::App* command = nullptr;
  add_verb(app, "status", "how the controller and its cluster are",
           "Examples:\n  monkeytree status\n  monkeytree status --json", exit_code, run_status,
           &command);
  const std::shared_ptr<Arguments> explain =
      add_verb(app, "explain", "why a plan was made, and how it went",
               "Examples:\n  monkeytree explain 12", exit_code, run_explain, &command);
  add_plan_argument(*command, *explain);
  const std::shared_ptr<Arguments> history =
      add_verb(app, "history", "what has happened, the newest last",
               "Examples:\n  monkeytree history --limit 10\n"
               "  monkeytree history --plans               the plans, the newest first\n"
               "  monkeytree history --audit               who asked for which change",
               exit_code, run_history, &command);
  command->add_option("--limit", history->limit, "at most so many lines")
      ->check(CLI::Range(1, 1000).description(""))
      ->type_name("N");
  CLI::Option* plans = command->add_flag("--plans", history->plans, "plans in place of events");
  command->add_flag("--audit", history->audit, "changing calls in place of events")
      ->excludes(plans);
}

void add_changing(CLI::App& app, int& exit_code) {
  CLI::App* command = nullptr;
  const std::shared_ptr<Arguments> approve = add_verb(
      app, "approve", "has a waiting plan carried out",
      "Examples:\n  monkeytree approve 12\n\n"
      "The plan is compared with the cluster as it is now; where it does not fit any\n"
      "more it is refused, with what has changed.",
      exit_code,
      [](const Arguments& a) {
        return Session(a).change("/api/v1/plans/" + percent_encoded(a.plan) + "/approve",
                                 fmt::format("plan {} begins", a.plan));
      },
      &command);
  add_plan_argument(*command, *approve);
  const std::shared_ptr<Arguments> cancel = add_verb(
      app, "cancel", "drops a waiting plan, undoes a running one",
      "Examples:\n  monkeytree cancel 12\n\n"
      "Of a running plan, migrations that are past `restored` come to their end.",
      exit_code,
      [](const Arguments& a) {
        return Session(a).change("/api/v1/plans/" + percent_encoded(a.plan) + "/cancel",
                                 fmt::format("plan {} is cancelled", a.plan));
      },
      &command);
  add_plan_argument(*command, *cancel);
  const std::shared_ptr<Arguments> pause = add_verb(
      app, "pause", "the kill switch: no plan begins from now on",
      "Examples:\n  monkeytree pause --why \"network maintenance\"\n\n"
      "Plans that run come to their end (cancel undoes one). It outlives restarts of\n"
      "the controller, until monkeytree resume.",
      exit_code, [](const Arguments& a) { return Session(a).change("/api/v1/pause", "paused"); },
      &command);
  command->add_option("--why", pause->why, "for those who wonder")->type_name("TEXT");
  add_verb(
      app, "resume", "ends monkeytree pause", "Examples:\n  monkeytree resume", exit_code,
      [](const Arguments& a) { return Session(a).change("/api/v1/resume", "resumed"); }, &command);
}

}  // namespace

void add_live(CLI::App& app, int& exit_code) {
  add_reading(app, exit_code);
  add_changing(app, exit_code);
}

}  // namespace monkeytree
