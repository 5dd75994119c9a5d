#include "service/etcd_leadership.h"

#include <absl/strings/numbers.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/json.h"
#include "base/status.h"

namespace monkeytree {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kLastPlan = "last_plan";
constexpr const char* kPaused = "paused";
constexpr const char* kTokenBase = "token_base";
constexpr size_t kMostExplained = 256 << 10;  // bytes of a decision; etcd takes 1.5 MiB in all

/// Keys sort as numbers do.
std::string plan_key(std::string_view folder, int64_t plan) {
  return fmt::format("{}/{:016}", folder, plan);
}

std::string text_at(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>() : "";
}

double number_at(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_number() ? found->get<double>() : 0;
}

/// What budgets and history need of a migration that is over.
Migration slim(Migration migration) {
  migration.before.clear();
  migration.after.clear();
  migration.staged.clear();
  for (WorkerMove& move : migration.moves) move.command = {};
  return migration;
}

/// The round and the number of "12.0.3".
std::pair<int, int> order_of(const Migration& migration) {
  int number = 0;
  const size_t dot = migration.id.rfind('.');
  if (dot == std::string::npos || !absl::SimpleAtoi(migration.id.substr(dot + 1), &number)) {
    number = 0;
  }
  return {migration.round, number};
}

void sort_migrations(std::vector<Migration>& migrations) {
  std::sort(migrations.begin(), migrations.end(),
            [](const Migration& a, const Migration& b) { return order_of(a) < order_of(b); });
}

absl::Status unreadable(const std::string& key) {
  return absl::DataLossError(fmt::format("{} in etcd cannot be read", printable(key)));
}

}  // namespace

std::string write_shared_plan(const SharedPlan& plan) {
  const PlanEntry& entry = plan.entry;
  Json migrations = Json::array();
  for (const Migration& migration : plan.migrations) {
    migrations.push_back(Json::parse(write_migration(migration), nullptr, false));
  }
  Json out = {{"id", entry.id},
              {"made_s", entry.made_s},
              {"ended_s", entry.ended_s ? Json(*entry.ended_s) : Json()},
              {"state", name_of(entry.state)},
              {"reason", entry.reason},
              {"approved_by", entry.approved_by},
              {"cancelled_by", plan.cancelled_by},
              {"moves", entry.moves},
              {"plan", entry.plan},
              {"decision", entry.decision.size() > kMostExplained ? "" : entry.decision},
              {"migrations", std::move(migrations)}};
  return out.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::optional<SharedPlan> read_shared_plan(std::string_view text) {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return std::nullopt;
  SharedPlan out;
  PlanEntry& entry = out.entry;
  entry.id = static_cast<int64_t>(number_at(json, "id"));
  const std::optional<PlanState> state = plan_state(text_at(json, "state"));
  if (entry.id <= 0 || !state) return std::nullopt;
  entry.state = *state;
  entry.made_s = number_at(json, "made_s");
  if (json.contains("ended_s") && json["ended_s"].is_number()) {
    entry.ended_s = number_at(json, "ended_s");
  }
  entry.reason = text_at(json, "reason");
  entry.approved_by = text_at(json, "approved_by");
  out.cancelled_by = text_at(json, "cancelled_by");
  entry.moves = static_cast<int>(number_at(json, "moves"));
  entry.plan = text_at(json, "plan");
  entry.decision = text_at(json, "decision");
  const auto migrations = json.find("migrations");
  if (migrations == json.end() || !migrations->is_array()) return std::nullopt;
  for (const Json& one : *migrations) {
    std::optional<Migration> migration = read_migration(one.dump());
    if (!migration) return std::nullopt;
    out.migrations.push_back(*std::move(migration));
  }
  return out;
}

EtcdLeadership::EtcdLeadership(Etcd& etcd, Settings settings)
    : changed_(settings.changed),
      known_token_(settings.known_token),
      name_(settings.election.name),
      election_(etcd, std::move(settings.election), std::move(settings.changed)),
      store_(etcd, election_) {}

uint64_t EtcdLeadership::token() const {
  const int64_t token = election_.token();
  const std::lock_guard lock(mutex_);
  return token == 0 || token != based_on_ ? 0 : base_ + static_cast<uint64_t>(token);
}

LeadershipView EtcdLeadership::view() const {
  const Election::View seen = election_.view();
  LeadershipView view;
  view.leads = seen.token != 0;
  view.term = seen.term;
  view.token = view.leads ? token() : 0;
  if (view.leads && view.token == 0) view.token = static_cast<uint64_t>(seen.token);
  view.name = name_;
  view.leader = seen.leader.name;
  view.address = seen.leader.address;
  view.trouble = seen.trouble;
  view.left = seen.left;
  return view;
}

std::chrono::milliseconds EtcdLeadership::longest_step() const {
  return std::chrono::milliseconds(election_.settings().lease) / 2;
}

absl::Status EtcdLeadership::set_base(int64_t term_token) {
  // A single controller counted by itself: agents would take our tokens for those of an older one.
  const auto token = static_cast<uint64_t>(term_token);
  uint64_t base = 0;
  {
    const std::lock_guard lock(mutex_);
    base = base_;
  }
  if (base + token <= known_token_) {
    base = known_token_ + 1 - token;
    absl::Status status = store_.put(kTokenBase, std::to_string(base));
    if (!status.ok()) return status;
  }
  {
    const std::lock_guard lock(mutex_);
    base_ = base;
    based_on_ = term_token;
  }
  changed_();  // from now on agents may be spoken to
  return absl::OkStatus();
}

absl::StatusOr<SharedBooks> EtcdLeadership::read() {
  const int64_t token = election_.token();
  const absl::StatusOr<std::vector<EtcdPair>> pairs = store_.read("");
  if (!pairs.ok()) return pairs.status();
  SharedBooks books;
  std::map<int64_t, std::vector<Migration>> migrations;
  for (const EtcdPair& pair : *pairs) {
    if (pair.key == kLastPlan) {
      if (!absl::SimpleAtoi(pair.value, &books.last_plan)) return unreadable(pair.key);
    } else if (pair.key == kPaused) {
      books.paused = pair.value;
    } else if (pair.key == kTokenBase) {
      const std::lock_guard lock(mutex_);
      if (!absl::SimpleAtoi(pair.value, &base_)) return unreadable(pair.key);
    } else if (pair.key.starts_with("migrations/")) {
      std::optional<Migration> migration = read_migration(pair.value);
      if (!migration) return unreadable(pair.key);
      std::vector<Migration>& of_plan = migrations[migration->plan];
      of_plan.push_back(*std::move(migration));
    } else if (pair.key.starts_with("plans/") || pair.key.starts_with("past/")) {
      std::optional<SharedPlan> plan = read_shared_plan(pair.value);
      if (!plan) return unreadable(pair.key);
      (pair.key.starts_with("plans/") ? books.running : books.ended).push_back(*std::move(plan));
    }
  }
  for (SharedPlan& plan : books.running) {
    const auto found = migrations.find(plan.entry.id);
    if (found == migrations.end()) continue;
    plan.migrations = std::move(found->second);
    sort_migrations(plan.migrations);
    migrations.erase(found);
  }
  absl::Status status = set_base(token);
  // Of plans whose beginning was not written down whole: nothing was done yet.
  for (const auto& [plan, left] : migrations) {
    if (status.ok()) {
      status = store_.exchange({store_.under(plan_key("migrations", plan) + "/")}, {});
    }
  }
  if (!status.ok()) return status;
  return books;
}

absl::Status EtcdLeadership::set_last_plan(int64_t plan) {
  return store_.put(kLastPlan, std::to_string(plan));
}

absl::Status EtcdLeadership::put_plan(const PlanEntry& plan, std::string_view cancelled_by) {
  return store_.put(plan_key("plans", plan.id),
                    write_shared_plan({plan, std::string(cancelled_by), {}}));
}

absl::Status EtcdLeadership::put_migration(const Migration& migration) {
  return store_.put(plan_key("migrations", migration.plan) + "/" + migration.id,
                    write_migration(migration));
}

absl::Status EtcdLeadership::end_plan(const SharedPlan& plan, int64_t forget) {
  SharedPlan past = plan;
  for (Migration& migration : past.migrations) migration = slim(std::move(migration));
  const int64_t id = plan.entry.id;
  std::vector<EtcdRange> removals = {store_.just(plan_key("plans", id)),
                                     store_.under(plan_key("migrations", id) + "/")};
  if (forget > 0 && forget <= id) {
    removals.push_back(store_.between(plan_key("past", 0), plan_key("past", forget)));
  }
  return store_.exchange(removals, {{plan_key("past", id), write_shared_plan(past)}});
}

absl::Status EtcdLeadership::set_paused(std::string_view why) {
  return store_.put(kPaused, std::string(why));
}

}  // namespace monkeytree
