#include "control/policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <ctime>
#include <set>

#include "base/json.h"

namespace monkeytree {
namespace {

constexpr double kHour_s = 3600;
constexpr double kDay_s = 24 * kHour_s;
constexpr int kDayMin = 24 * 60;
constexpr std::array<std::string_view, 7> kDays = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};

std::optional<size_t> day_named(std::string_view name) {
  const auto* found = std::find(kDays.begin(), kDays.end(), name);
  if (found == kDays.end()) return std::nullopt;
  return static_cast<size_t>(found - kDays.begin());
}

std::optional<int> number(std::string_view text, int most) {
  int value = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || fault != std::errc() || end != text.data() + text.size()) return std::nullopt;
  if (value < 0 || value > most) return std::nullopt;
  return value;
}

/// "20:00" in minutes.
std::optional<int> time_of_day(std::string_view text) {
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos || text.size() - colon != 3) return std::nullopt;
  const std::optional<int> hours = number(text.substr(0, colon), 24);
  const std::optional<int> minutes = number(text.substr(colon + 1), 59);
  if (!hours || !minutes || *hours * 60 + *minutes > kDayMin) return std::nullopt;
  return *hours * 60 + *minutes;
}

bool set_days(std::string_view text, Window& window) {
  if (text == "daily") {
    std::fill(std::begin(window.days), std::end(window.days), true);
    return true;
  }
  const size_t dash = text.find('-');
  const std::optional<size_t> first = day_named(text.substr(0, dash));
  const std::optional<size_t> last =
      dash == std::string_view::npos ? first : day_named(text.substr(dash + 1));
  if (!first || !last) return false;
  for (size_t day = *first;; day = (day + 1) % 7) {
    window.days[day] = true;
    if (day == *last) return true;
  }
}

bool contains(const std::vector<std::string>& list, const std::string& name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

bool has_word(std::string_view comment, std::string_view word) {
  if (word.empty()) return false;
  constexpr std::string_view kBetween = " ,;\t\n";
  size_t at = 0;
  while (at < comment.size()) {
    const size_t end = std::min(comment.find_first_of(kBetween, at), comment.size());
    if (comment.substr(at, end - at) == word) return true;
    at = end + 1;
  }
  return false;
}

std::string minutes(double seconds) { return fmt::format("{:.1f} min", seconds / 60); }

struct JobPast {
  int moves_today = 0;
  double last_s = 0;
};

std::string why_held_back(const Job& job, const PolicyRules& rules, const JobPast& past,
                          double now_s) {
  if (has_word(job.comment, rules.opt_out)) return "its comment says " + rules.opt_out;
  if (contains(rules.never_partitions, job.partition) ||
      (!rules.only_partitions.empty() && !contains(rules.only_partitions, job.partition))) {
    return fmt::format("partition {} is excluded", quote(job.partition));
  }
  if (contains(rules.never_users, job.user) ||
      (!rules.only_users.empty() && !contains(rules.only_users, job.user))) {
    return fmt::format("user {} is excluded", quote(job.user));
  }
  if (job.start_s && now_s - *job.start_s < rules.min_age_s) {
    return fmt::format("it started {} ago, less than {}", minutes(now_s - *job.start_s),
                       minutes(rules.min_age_s));
  }
  if (job.end_s && *job.end_s - now_s < rules.min_left_s) {
    return fmt::format("it ends within {}, less than {}",
                       minutes(std::max(0.0, *job.end_s - now_s)), minutes(rules.min_left_s));
  }
  if (past.moves_today >= rules.moves_per_job) {
    return fmt::format("it had {} moves in 24 hours, the most allowed", past.moves_today);
  }
  if (past.moves_today > 0 && now_s - past.last_s < rules.cool_down_s) {
    return fmt::format("it moved {} ago and cools down for {}", minutes(now_s - past.last_s),
                       minutes(rules.cool_down_s));
  }
  return "";
}

/// Jobs whose budget of moves the plan would overdraw.
void check_budgets(const Snapshot& snapshot, const Plan& plan, int most,
                   const std::vector<Journal::PastMove>& past, double now_s,
                   std::vector<std::string>& reasons) {
  std::map<std::string, int> before, moves;
  for (const Journal::PastMove& move : past) {
    if (now_s - move.ended_s <= kDay_s) ++before[move.worker.job];
  }
  for (const Round& round : plan.rounds) {
    for (const Move& move : round) {
      if (move.to != kStaging) ++moves[snapshot.jobs[snapshot.groups[move.group].job].id];
    }
  }
  for (const auto& [job, count] : moves) {
    if (before[job] + count <= most) continue;
    reasons.push_back(
        fmt::format("job {} had {} moves in 24 hours, and {} in the plan are more than {} in all",
                    job, before[job], count, most));
  }
}

/// Jobs that would be left without a node while all of their workers are staged: the scheduler's
/// books cannot hold such a job.
void check_staging(const Snapshot& snapshot, const Plan& plan, std::vector<std::string>& reasons) {
  std::map<JobId, int> on_nodes;
  for (const Group& group : snapshot.groups) {
    on_nodes[group.job] += static_cast<int>(group.workers.size());
  }
  for (const Round& round : plan.rounds) {
    std::set<JobId> staging;
    for (const Move& move : round) {
      const JobId job = snapshot.groups[move.group].job;
      on_nodes[job] += (move.from == kStaging) - (move.to == kStaging);
      if (move.to == kStaging) staging.insert(job);
    }
    for (const JobId job : staging) {
      if (on_nodes[job] > 0) continue;
      reasons.push_back(
          fmt::format("all workers of job {} would be staged at once", snapshot.jobs[job].id));
    }
  }
}

}  // namespace

std::optional<Window> parse_window(std::string_view text) {
  const size_t space = text.find(' ');
  if (space == std::string_view::npos) return std::nullopt;
  Window window;
  const std::string_view times = text.substr(space + 1);
  const size_t dash = times.find('-');
  if (dash == std::string_view::npos || !set_days(text.substr(0, space), window)) {
    return std::nullopt;
  }
  const std::optional<int> from = time_of_day(times.substr(0, dash));
  const std::optional<int> to = time_of_day(times.substr(dash + 1));
  if (!from || !to || *from == *to || *from == kDayMin) return std::nullopt;
  window.from_min = *from;
  window.to_min = *to;
  return window;
}

bool in_window(const std::vector<Window>& windows, double wall_s) {
  if (windows.empty()) return true;
  const auto seconds = static_cast<std::time_t>(wall_s);
  std::tm local{};
  localtime_r(&seconds, &local);
  const int now = local.tm_hour * 60 + local.tm_min;
  const int today = local.tm_wday;
  const int yesterday = (today + 6) % 7;
  return std::any_of(windows.begin(), windows.end(), [&](const Window& window) {
    const bool over_midnight = window.to_min < window.from_min;
    const int end = over_midnight ? window.to_min + kDayMin : window.to_min;
    if (window.days[today] && now >= window.from_min && now < end) return true;
    return window.days[yesterday] && now + kDayMin < end;
  });
}

std::map<std::string, std::string> held_back(const Snapshot& snapshot, const PolicyRules& rules,
                                             const std::map<std::string, std::string>& unmovable,
                                             const std::map<std::string, std::string>& unhooked,
                                             const std::vector<Journal::PastMove>& past,
                                             double now_s) {
  std::map<std::string, JobPast> pasts;
  for (const Journal::PastMove& move : past) {
    if (now_s - move.ended_s > kDay_s) continue;
    JobPast& job = pasts[move.worker.job];
    ++job.moves_today;
    job.last_s = std::max(job.last_s, move.ended_s);
  }
  std::map<std::string, std::string> reasons;
  for (size_t j = 0; j < snapshot.jobs.size(); ++j) {
    const Job& job = snapshot.jobs[JobId(j)];
    if (!job.movable) continue;
    std::string reason;
    const auto books = unmovable.find(job.id);
    const auto hook = unhooked.find(job.id);
    const auto before = pasts.find(job.id);
    if (books != unmovable.end()) {
      reason = books->second;
    } else if (hook != unhooked.end()) {
      reason = hook->second;
    } else {
      reason = why_held_back(job, rules, before == pasts.end() ? JobPast() : before->second, now_s);
    }
    if (!reason.empty()) reasons[job.id] = reason;
  }
  return reasons;
}

std::vector<std::string> objections(const Snapshot& snapshot, const Plan& plan, const Gain& gain,
                                    const PolicyRules& rules,
                                    const std::vector<Journal::PastMove>& past, double now_s) {
  std::vector<std::string> reasons;
  if (!in_window(rules.windows, now_s)) reasons.emplace_back("outside the maintenance windows");
  int last_hour = 0;
  for (const Journal::PastMove& move : past) last_hour += now_s - move.ended_s <= kHour_s;
  if (last_hour + plan.moves > rules.moves_per_hour) {
    reasons.push_back(fmt::format("{} moves in the last hour and {} in the plan are more than {}",
                                  last_hour, plan.moves, rules.moves_per_hour));
  }
  if (gain.regained_gpu_h < rules.pay_back * gain.paused_gpu_h) {
    reasons.push_back(
        fmt::format("{:.2f} GPU hours regained are less than {} times the {:.2f} paused",
                    gain.regained_gpu_h, rules.pay_back, gain.paused_gpu_h));
  }
  check_budgets(snapshot, plan, rules.moves_per_job, past, now_s, reasons);
  check_staging(snapshot, plan, reasons);
  std::map<std::string_view, RackId> racks;
  for (const Node& node : snapshot.nodes) racks[node.name] = node.rack;
  std::map<WorkerName, std::set<RackId>> left;  // within the loop detector's window
  for (const Journal::PastMove& move : past) {
    const auto rack = racks.find(move.from);
    if (now_s - move.ended_s > rules.loop_s || rack == racks.end()) continue;
    left[move.worker].insert(rack->second);
  }
  for (const Round& round : plan.rounds) {
    for (const Move& move : round) {
      if (move.to == kStaging) continue;
      const WorkerName name{snapshot.jobs[snapshot.groups[move.group].job].id,
                            snapshot.group_index(move.group), move.worker};
      const auto known = left.find(name);
      if (known == left.end() || !known->second.contains(snapshot.nodes[move.to].rack)) continue;
      reasons.push_back(fmt::format(
          "worker {} would go back to rack {}, which it left within {}", to_string(name),
          quote(snapshot.racks[snapshot.nodes[move.to].rack].name), minutes(rules.loop_s)));
    }
  }
  return reasons;
}

}  // namespace monkeytree
