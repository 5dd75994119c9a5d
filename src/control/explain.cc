#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/counted.h"
#include "base/diagnostics.h"
#include "base/json.h"
#include "control/decision.h"
#include "planning/plan_json.h"

namespace monkeytree {
namespace {

using Json = nlohmann::json;

constexpr size_t kColumns = 80;
constexpr size_t kMostListed = 20;  ///< of racks, links, jobs; a cluster in a bad state has many
constexpr size_t kMostFlows = 8;    ///< of a link

size_t width(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

/// `text` as lines of at most kColumns; those after the first are indented by `indent` more than
/// the first, which is indented by `first`. A word too long for a line is cut into pieces.
std::string wrapped(std::string_view text, size_t first, size_t indent) {
  std::string out(first, ' ');
  size_t used = first;
  const auto new_line = [&] {
    out += "\n" + std::string(first + indent, ' ');
    used = first + indent;
  };
  bool begun = false;
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (word.empty()) continue;
    if (begun && used + 1 + width(word) > kColumns) {
      new_line();
      begun = false;
    }
    if (begun) {
      out += ' ';
      ++used;
    }
    while (used + width(word) > kColumns) {
      size_t cut = 0;
      for (size_t room = kColumns - used; cut < word.size(); ++cut) {
        const bool starts = (static_cast<unsigned char>(word[cut]) & 0xC0) != 0x80;
        if (starts && room-- == 0) break;
      }
      out += word.substr(0, cut);
      word.remove_prefix(cut);
      new_line();
    }
    out += word;
    used += width(word);
    begun = true;
  }
  return out + "\n";
}

std::string time_text(double unix_s, bool with_day) {
  // Beyond these years a clock is wrong, and fmt would throw.
  constexpr double kLast = 4102444800.0;
  const double clamped = std::isfinite(unix_s) ? std::clamp(unix_s, 0.0, kLast) : 0.0;
  const auto ms = static_cast<int64_t>(std::llround(clamped * 1000));
  const auto seconds = static_cast<std::time_t>(ms / 1000);
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  if (with_day) return fmt::format("{:%Y-%m-%d %H:%M:%S} UTC", utc);
  return fmt::format("{:%H:%M:%S}.{:03}", utc, ms % 1000);
}

std::string gpu_hours(double hours) {
  return fmt::format("{:.{}f}", hours, std::abs(hours) < 10 ? 2 : 1);
}

// Reading JSON that may have been written by an older version: what is missing is left out.

const Json& at(const Json& json, const char* key) {
  static const Json kNothing;
  if (!json.is_object()) return kNothing;
  const auto found = json.find(key);
  return found == json.end() ? kNothing : *found;
}
std::string text_at(const Json& json, const char* key) {
  const Json& value = at(json, key);
  return value.is_string() ? printable(value.get_ref<const std::string&>()) : std::string("?");
}
int64_t whole_at(const Json& json, const char* key) {
  const Json& value = at(json, key);
  return value.is_number_integer() ? value.get<int64_t>() : 0;
}
double number_at(const Json& json, const char* key) {
  const Json& value = at(json, key);
  return value.is_number() ? value.get<double>() : 0;
}
const Json& list_at(const Json& json, const char* key) {
  static const Json kNone = Json::array();
  const Json& value = at(json, key);
  return value.is_array() ? value : kNone;
}

class Explanation {
 public:
  Explanation(const PlanEntry& plan, const std::vector<Migration>& migrations,
              const std::vector<StepEntry>& steps)
      : plan_(plan),
        migrations_(migrations),
        steps_(steps),
        decision_(Json::parse(plan.decision, nullptr, /*allow_exceptions=*/false)) {
    Diagnostics findings;
    if (!plan.plan.empty()) record_ = parse_plan(plan.plan, "plan", findings);
  }

  std::string text() {
    heading();
    racks();
    links();
    gain();
    moves();
    not_done();
    held_back();
    history();
    return std::move(out_);
  }

 private:
  void title(std::string_view text) { out_ += fmt::format("\n{}\n", text); }
  void line(std::string_view text, size_t first = 2, size_t indent = 4) {
    out_ += wrapped(text, first, indent);
  }
  void rest(size_t listed, size_t all, size_t first = 2) {
    if (listed < all) line(fmt::format("... and {} more", all - listed), first);
  }

  void heading() {
    // A plan that no journal holds has no number: what would be.
    std::string first = counted(plan_.moves, "move");
    if (plan_.id > 0) {
      first = fmt::format("plan {}: {}, {}", plan_.id, name_of(plan_.state), first);
    }
    if (record_ && record_->rounds.size() > 1) {
      first += fmt::format(" in {} rounds", record_->rounds.size());
    }
    line(first, 0, 2);
    if (plan_.id > 0) {
      std::string times = "made " + time_text(plan_.made_s, true);
      if (plan_.ended_s) times += ", ended " + time_text(*plan_.ended_s, true);
      line(times, 0, 2);
    }
    if (!plan_.approved_by.empty()) line("approved by " + printable(plan_.approved_by), 0, 2);
    proof();
  }

  void proof() {
    if (!record_) return line("the plan itself cannot be read", 0, 2);
    const PlanRecord& plan = *record_;
    if (plan.best_effort) {
      line(fmt::format("The bounds cannot all be met with the jobs that may move: this brings the "
                       "excess from {} to {}{}.",
                       plan.excess_before, plan.excess_after,
                       plan.excess_lower_bound
                           ? fmt::format(" (no less than {} is possible)", *plan.excess_lower_bound)
                           : std::string(", the least there is")),
           0, 2);
    }
    if (plan.status == PlanStatus::kOptimal) {
      line(fmt::format("The fewest: no plan does this with less than {}, which is proved.",
                       counted(plan.moves, "move")),
           0, 2);
    } else if (plan.lower_bound) {
      line(fmt::format("Not proved to be the fewest: any plan needs at least {}.",
                       counted(*plan.lower_bound, "move")),
           0, 2);
    }
  }

  void racks() {
    const Json& racks = list_at(decision_, "racks_over");
    if (racks.empty()) return;
    title("Why: racks above their bound");
    for (size_t r = 0; r < racks.size() && r < kMostListed; ++r) {
      const Json& rack = racks[r];
      line(
          fmt::format("{}: degree {} over a bound of {}, after the plan {}. These groups leave it:",
                      text_at(rack, "rack"), whole_at(rack, "degree_before"),
                      whole_at(rack, "bound"), whole_at(rack, "degree_after")));
      const Json& groups = list_at(rack, "groups");
      for (size_t g = 0; g < groups.size() && g < kMostListed; ++g) {
        const int64_t rings = whole_at(groups[g], "rings");
        line(fmt::format("job {} group {}: {} of its {} here{}", text_at(groups[g], "job"),
                         whole_at(groups[g], "group"), whole_at(groups[g], "workers_here"),
                         counted(whole_at(groups[g], "workers"), "worker"),
                         rings == 1 ? "" : fmt::format(", counts {} (rings)", rings)),
             4);
      }
      rest(std::min(groups.size(), kMostListed), groups.size(), 4);
    }
    rest(std::min(racks.size(), kMostListed), racks.size());
  }

  void links() {
    const Json& links = list_at(decision_, "links_shared");
    if (links.empty()) return;
    title("Uplinks shared before, under the best routing");
    for (size_t i = 0; i < links.size() && i < kMostListed; ++i) {
      const Json& link = links[i];
      const Json& flows = list_at(link, "flows");
      line(fmt::format("{} {} {}: {}", text_at(link, "rack"),
                       text_at(link, "direction") == "up" ? "up by uplink" : "down by uplink",
                       whole_at(link, "uplink"),
                       counted(static_cast<int64_t>(flows.size()), "flow")));
      for (size_t f = 0; f < flows.size() && f < kMostFlows; ++f) {
        line(fmt::format("job {} group {} ring {}, {} -> {}", text_at(flows[f], "job"),
                         whole_at(flows[f], "group"), whole_at(flows[f], "ring"),
                         text_at(flows[f], "from_rack"), text_at(flows[f], "to_rack")),
             4);
      }
      rest(std::min(flows.size(), kMostFlows), flows.size(), 4);
    }
    rest(std::min(links.size(), kMostListed), links.size());
  }

  void gain() {
    const Json& gain = at(decision_, "gain");
    if (!gain.is_object()) return;
    title("What it gains and costs, estimated");
    const double regained = number_at(gain, "regained_gpu_h");
    const double paused = number_at(gain, "paused_gpu_h");
    line(fmt::format("{} GPU hours regained, {} paused{}", gpu_hours(regained), gpu_hours(paused),
                     paused > 0 ? fmt::format(": {:.1f} times the cost", regained / paused) : ""));
    const Json& jobs = list_at(gain, "jobs");
    for (size_t j = 0; j < jobs.size() && j < kMostListed; ++j) {
      const Json& job = jobs[j];
      std::string text = fmt::format("job {}", text_at(job, "job"));
      if (const std::string user = text_at(job, "user"); !user.empty() && user != "?") {
        text += " of " + user;
      }
      text += fmt::format(": {} on its fullest link, then {}; {} GPU hours",
                          counted(whole_at(job, "flows_on_fullest_link_before"), "flow"),
                          whole_at(job, "flows_on_fullest_link_after"),
                          gpu_hours(number_at(job, "regained_gpu_h")));
      if (const int64_t moves = whole_at(job, "moves"); moves > 0) {
        text += fmt::format(", paused {} for {}", gpu_hours(number_at(job, "paused_gpu_h")),
                            counted(moves, "move"));
      }
      line(text, 4);
    }
    rest(std::min(jobs.size(), kMostListed), jobs.size(), 4);
  }

  void moves() {
    if (!record_ || record_->rounds.empty()) return;
    title("Moves");
    for (size_t r = 0; r < record_->rounds.size(); ++r) {
      if (record_->rounds.size() > 1) line(fmt::format("round {}", r + 1));
      for (const PlanRecord::Step& step : record_->rounds[r]) {
        line(fmt::format("job {} group {} worker {}: {} -> {}", printable(step.job), step.group,
                         step.worker, printable(step.from), printable(step.to)),
             4);
      }
    }
  }

  void not_done() {
    const Json& objections = list_at(decision_, "objections");
    const bool began = !migrations_.empty();
    if (plan_.reason.empty() && objections.empty()) return;
    title(began ? "Remarks" : "Why it was not carried out");
    std::vector<std::string> told;
    for (const Json& objection : objections) {
      if (objection.is_string()) told.push_back(printable(objection.get_ref<const std::string&>()));
    }
    const std::string reason = printable(plan_.reason);
    // The reason is often the objections, joined.
    const bool says_more = std::none_of(told.begin(), told.end(), [&](const std::string& text) {
      return reason.find(text) != std::string::npos;
    });
    if (!reason.empty() && says_more) told.insert(told.begin(), reason);
    for (const std::string& text : told) line(text);
  }

  void held_back() {
    const Json& held = at(decision_, "held_back");
    if (!held.is_object() || held.empty()) return;
    title("Jobs that could not move");
    size_t listed = 0;
    for (const auto& [job, why] : held.items()) {
      if (listed == kMostListed) break;
      ++listed;
      line(fmt::format("job {}: {}", printable(job),
                       why.is_string() ? printable(why.get_ref<const std::string&>()) : "?"));
    }
    rest(listed, held.size());
  }

  void history() {
    if (migrations_.empty()) return;
    std::map<std::string, std::vector<const StepEntry*>> steps;
    for (const StepEntry& step : steps_) steps[step.migration].push_back(&step);
    title("How it went (times are UTC)");
    for (const Migration& migration : migrations_) {
      std::string head = fmt::format("migration {} of job {}: {}", migration.id,
                                     printable(migration.job), name_of(migration.state));
      if (migration.iteration) {
        head += fmt::format(", paused after iteration {}", *migration.iteration);
      }
      if (!migration.reason.empty()) head += ": " + printable(migration.reason);
      line(head);
      for (const WorkerMove& move : migration.moves) {
        line(fmt::format("group {} worker {}: {} -> {}", move.worker.group, move.worker.worker,
                         printable(move.from), printable(move.to)),
             4);
      }
      for (const StepEntry* step : steps[migration.id]) step_line(*step);
    }
  }

  void step_line(const StepEntry& step) {
    std::string text = fmt::format("{}  {:<9}", time_text(step.began_s, false), name_of(step.step));
    if (step.ended_s) {
      text += fmt::format("  {:>8.3f} s", std::max(0.0, *step.ended_s - step.began_s));
    } else {
      text += "  under way when this was last written";
    }
    std::string more;
    if (step.attempt > 1) more += fmt::format("  attempt {}", step.attempt);
    if (step.ended_s && step.outcome != "OK") more += "  " + printable(step.outcome);
    if (4 + width(text) + width(more) <= kColumns) {
      out_ += "    " + text + more + "\n";
      return;
    }
    out_ += "    " + text + "\n";
    line(more, 8, 2);
  }

  const PlanEntry& plan_;
  const std::vector<Migration>& migrations_;
  const std::vector<StepEntry>& steps_;
  const Json decision_;
  std::optional<PlanRecord> record_;
  std::string out_;
};

}  // namespace

std::string explain(const PlanEntry& plan, const std::vector<Migration>& migrations,
                    const std::vector<StepEntry>& steps) {
  return Explanation(plan, migrations, steps).text();
}

}  // namespace monkeytree
