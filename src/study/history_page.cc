#include "study/history_page.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/hostlist.h"
#include "base/statistics.h"
#include "report/chart.h"
#include "report/text.h"
#include "study/history_moment.h"

namespace monkeytree {
namespace {

constexpr size_t kWorstHours = 3;
constexpr size_t kHoursApart = 6;  ///< neighbours show the same picture
constexpr size_t kMostRows = 10;
constexpr size_t kMostNodesNamed = 20;

double hours(double seconds) { return seconds / 3600; }

/// "1 234", with decimals where it is small, "13.4 million" where it is large.
std::string amount(double value) {
  if (std::abs(value) >= 1e6) return fixed_text(value / 1e6, 1) + " million";
  return grouped_text(value, std::abs(value) < 100 ? 1 : 0);
}

std::string percent(double part, double whole) {
  return whole > 0 ? fixed_text(100 * part / whole, 100 * part / whole < 10 ? 2 : 1) + " %" : "–";
}

std::string moment_text(int64_t us) {
  return fmt::format("{:%Y-%m-%d %H:%M}", fmt::gmtime(static_cast<std::time_t>(us / 1'000'000)));
}

class HistoryPage {
 public:
  HistoryPage(const Snapshot& fabric, const RecordedHistory& history, const HistoryReplay& replay,
              const ReplayOptions& options, const HistoryPageText& text)
      : fabric_(fabric),
        history_(history),
        replay_(replay),
        options_(options),
        text_(text),
        page_("What shared uplinks cost", subtitle()) {
    for (const Rack& rack : fabric.racks) {
      same_bound_ = same_bound_ && rack.bound() == fabric.racks[RackId(0)].bound();
    }
  }

  Page page() {
    key_figures();
    if (replay_.stopped) {
      page_.notice(fmt::format("The replay was ended at {}; what follows stops there.",
                               moment_text(replay_.end_us)));
    }
    page_.notice(assumption());
    over_time();
    savings();
    worst_hours();
    racks_and_jobs();
    what_was_used();
    rules();
    page_.footer(
        "Made by `monkeytree report` from the recorded node lists; nothing was scheduled "
        "anew.");
    return std::move(page_);
  }

 private:
  double span_s() const { return static_cast<double>(replay_.end_us - replay_.begin_us) / 1e6; }
  double saved_s() const {
    return replay_.recorded_total.lost_gpu_s - replay_.monkeytree_total.lost_gpu_s -
           replay_.kept.paused_gpu_s;
  }

  std::string subtitle() const {
    return fmt::format("{} to {}; {} on {} in {}", moment_text(replay_.begin_us),
                       moment_text(replay_.end_us),
                       count_of(static_cast<int64_t>(history_.jobs.size()), "job"),
                       count_of(static_cast<int64_t>(fabric_.nodes.size()), "node"),
                       count_of(static_cast<int64_t>(fabric_.racks.size()), "rack"));
  }

  void key_figures() {
    const ReplayTotals& lost = replay_.recorded_total;
    const double days = std::max(span_s() / 86400, 1e-9);
    page_.key_figures({{amount(hours(lost.over_s)), "hours with a rack above its bound",
                        percent(lost.over_s, span_s()) + " of the time"},
                       {amount(hours(lost.excess_s)), "uplink-hours short",
                        fmt::format("at worst {} at once", count_of(lost.max_excess, "uplink"))},
                       {amount(hours(lost.lost_gpu_s)), "GPU-hours lost, estimated",
                        percent(lost.lost_gpu_s, replay_.busy_gpu_s) + " of all"},
                       {amount(hours(saved_s())), "GPU-hours MonkeyTree would have saved",
                        fmt::format("with {}, {} a day", count_of(replay_.kept.moves, "move"),
                                    amount(static_cast<double>(replay_.kept.moves) / days))}});
  }

  std::string assumption() const {
    return fmt::format(
        "GPU-hours lost are an estimate. Routing is taken to be perfect: a rack with more flows "
        "than uplinks spreads them evenly. A job whose fullest link carries k flows is taken to "
        "have its communication stretched k times, and communication to be {:.0f} % of an "
        "iteration (`--communication {}`); so it loses 1 − 1 ÷ (1 + {} × (k − 1)) of its time. "
        "With real, hashed routing more flows meet. Hours above the bound and uplink-hours short "
        "need no such assumption.",
        100 * options_.communication, short_text(options_.communication),
        short_text(options_.communication));
  }

  StepSeries series(const std::string& name, const std::vector<ReplayHour>& of, int style,
                    double (*value)(const ReplayHour&)) const {
    StepSeries out{.name = name, .style = style, .strong = style == 1};
    const double first = static_cast<double>(replay_.first_hour_us) / 1e6;
    for (size_t h = 0; h < of.size(); ++h) {
      out.points.push_back({first + 3600.0 * static_cast<double>(h), value(of[h])});
    }
    out.end = first + 3600.0 * static_cast<double>(of.size());
    return out;
  }

  void over_time() {
    page_.heading("Over time");
    if (replay_.recorded_total.max_excess == 0) {
      page_.paragraph(
          "No rack was ever above its bound: an uplink of its own was there for every flow.");
    }
    const Axis time{.label = "Time of the cluster's clock", .kind = AxisKind::kTime};
    const auto excess = [](const ReplayHour& hour) { return hour.excess_s / 3600; };
    StepChart short_of{
        .title = "Uplinks short",
        .caption = "Σ over the racks of flows beyond the uplinks, mean of each hour.",
        .x = time,
        .y = {.label = "Uplinks short", .low = 0}};
    short_of.series = {series("as recorded", replay_.recorded, 0, excess),
                       series("with MonkeyTree", replay_.monkeytree, 1, excess)};
    page_.add(draw(short_of));
    const auto degree = [](const ReplayHour& hour) { return static_cast<double>(hour.max_degree); };
    StepChart degrees{.title = "Highest fragmentation degree of any rack",
                      .caption = "Rings that leave the rack, the most in each hour.",
                      .x = time,
                      .y = {.label = "Degree", .low = 0}};
    degrees.series = {series("as recorded", replay_.recorded, 0, degree),
                      series("with MonkeyTree", replay_.monkeytree, 1, degree)};
    if (same_bound_) {
      degrees.references = {{static_cast<double>(fabric_.racks[RackId(0)].bound()), "bound"}};
    }
    page_.add(draw(degrees));
    page_.add(draw(lost_chart(time)));
  }

  LineChart lost_chart(const Axis& time) const {
    LineChart chart{.title = "GPU-hours lost since the beginning",
                    .caption = "By the estimate above; MonkeyTree's with the pauses of its moves.",
                    .x = time,
                    .y = {.label = "GPU-hours lost", .low = 0}};
    LineSeries recorded{.name = "as recorded", .style = 0};
    LineSeries kept{.name = "with MonkeyTree", .style = 1, .strong = true};
    const size_t step = std::max<size_t>(1, replay_.recorded.size() / 400);
    double recorded_s = 0, kept_s = 0;
    const double first = static_cast<double>(replay_.first_hour_us) / 1e6;
    for (size_t h = 0; h < replay_.recorded.size(); ++h) {
      recorded_s += replay_.recorded[h].lost_gpu_s;
      kept_s += replay_.monkeytree[h].lost_gpu_s + replay_.paused_gpu_s_by_hour[h];
      if ((h + 1) % step != 0 && h + 1 != replay_.recorded.size()) continue;
      const double at = first + 3600.0 * static_cast<double>(h + 1);
      recorded.points.push_back({at, hours(recorded_s)});
      kept.points.push_back({at, hours(kept_s)});
    }
    chart.series = {std::move(recorded), std::move(kept)};
    return chart;
  }

  void savings() {
    page_.heading("What MonkeyTree would have saved");
    const KeptPlacement::Counters& kept = replay_.kept;
    const ReplayTotals &was = replay_.recorded_total, &is = replay_.monkeytree_total;
    DataTable table{.title = "The record and MonkeyTree's placement",
                    .columns = {{""}, {"as recorded"}, {"with MonkeyTree"}}};
    const auto row = [&](const char* name, double a, double b, int decimals) {
      table.rows.push_back({name, DataCell(a, decimals), DataCell(b, decimals)});
    };
    row("Hours with a rack above its bound", hours(was.over_s), hours(is.over_s), 1);
    row("Uplink-hours short", hours(was.excess_s), hours(is.excess_s), 1);
    row("Most uplinks short at once", was.max_excess, is.max_excess, 0);
    row("Highest degree", was.max_degree, is.max_degree, 0);
    row("GPU-hours lost to shared uplinks", hours(was.lost_gpu_s), hours(is.lost_gpu_s), 1);
    row("GPU-hours lost to pauses", 0, hours(kept.paused_gpu_s), 1);
    page_.add(table);
    std::vector<double> held = kept.held_s;
    std::sort(held.begin(), held.end());
    page_.paragraph(fmt::format(
        "From the first moment at which a rack was above its bound MonkeyTree would have planned "
        "at every start or end that left one so: {} with {}, each with a pause of {} s for the "
        "moved job. {}{}",
        count_of(kept.plans, "plan"), count_of(kept.moves, "move"), short_text(options_.pause_s),
        kept.short_plans == 0
            ? "Every plan met all bounds."
            : fmt::format("{} left a rack above its bound: no placement that meets them all was "
                          "found.",
                          count_of(kept.short_plans, "plan")),
        held.empty() ? std::string()
                     : fmt::format(" Where all bounds were met they held for {} h in the median "
                                   "({} h in the mean) until the next job broke one.",
                                   amount(hours(quantile_of_sorted(held, 0.5))),
                                   amount(hours(mean_of(held))))));
    page_.paragraph(fmt::format(
        "Jobs arrive on their recorded nodes, though a scheduler would have answered to the moved "
        "ones. Of {} {} came to another free node of the recorded rack, which changes no degree, "
        "{} (of {}) had to go to another rack, a conflict, and {} stayed as recorded for want of "
        "free nodes. MonkeyTree's placement had fewer uplinks short than the record for {} h, and "
        "more for {} h.",
        count_of(kept.workers, "worker"), grouped_text(static_cast<double>(kept.replaced), 0),
        grouped_text(static_cast<double>(kept.conflicts), 0), count_of(kept.conflict_jobs, "job"),
        count_of(kept.left_as_recorded, "job"), amount(hours(replay_.ahead_s)),
        amount(hours(replay_.behind_s))));
    if (kept.conflicts * 10 > kept.workers) {
      page_.notice(fmt::format(
          "{} of the workers went to another rack than the record's: the placement has drifted "
          "far from it, so take the savings for rough. The plans below the pictures of the worst "
          "hours start from the record itself.",
          percent(static_cast<double>(kept.conflicts), static_cast<double>(kept.workers))));
    }
  }

  /// Hours with the most lost, apart from each other; by time.
  std::vector<size_t> choose_hours() const {
    std::vector<size_t> order(replay_.recorded.size());
    std::iota(order.begin(), order.end(), size_t{0});
    const auto key = [&](size_t h) {
      return std::pair(replay_.recorded[h].lost_gpu_s, replay_.recorded[h].excess_s);
    };
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return key(a) > key(b); });
    std::vector<size_t> chosen;
    for (size_t h : order) {
      if (chosen.size() == kWorstHours || replay_.recorded[h].excess_s <= 0) break;
      const bool near = std::any_of(chosen.begin(), chosen.end(), [&](size_t other) {
        return std::max(h, other) - std::min(h, other) < kHoursApart;
      });
      if (!near) chosen.push_back(h);
    }
    return chosen;
  }

  void worst_hours() {
    const std::vector<size_t> chosen = choose_hours();
    if (chosen.empty()) return;
    page_.heading("The worst hours");
    page_.paragraph(fmt::format(
        "The hours in which most was lost, at least {} h apart, each at its worst moment. A row is "
        "a rack, a cell a node; a letter and a colour are a job that crosses racks, grey is one "
        "that does not. Below each picture the plan that mends it.",
        kHoursApart));
    for (size_t hour : chosen) worst_hour(hour);
  }

  void worst_hour(size_t hour) {
    const ReplayMoment& worst = replay_.worst_by_hour[hour];
    add_moment(
        page_, placement_at(fabric_, history_.jobs, worst.time_us), moment_text(worst.time_us),
        fmt::format("{} GPUs as good as idle in that moment, {} GPU-hours in that hour",
                    amount(worst.gpus_lost), amount(hours(replay_.recorded[hour].lost_gpu_s))),
        options_.work_limit);
  }

  void racks_and_jobs() {
    page_.heading("Racks and jobs");
    std::vector<RackId> racks;
    for (RackId rack : replay_.racks.keys()) {
      if (replay_.racks[rack].over_s > 0) racks.push_back(rack);
    }
    if (racks.empty()) {
      page_.paragraph("No rack was above its bound, and no job shared an uplink.");
      return;
    }
    std::stable_sort(racks.begin(), racks.end(), [&](RackId a, RackId b) {
      return replay_.racks[a].excess_s > replay_.racks[b].excess_s;
    });
    DataTable worst{.title = fmt::format("{} were above their bound at some time",
                                         count_of(static_cast<int64_t>(racks.size()), "rack")),
                    .columns = {{"rack"},
                                {.name = "bound"},
                                {.name = "highest degree"},
                                {.name = "above the bound", .unit = "h"},
                                {.name = "uplink-hours short"}}};
    for (size_t i = 0; i < std::min(kMostRows, racks.size()); ++i) {
      const ReplayRack& rack = replay_.racks[racks[i]];
      worst.rows.push_back({fabric_.racks[racks[i]].name, fabric_.racks[racks[i]].bound(),
                            rack.max_degree, DataCell(hours(rack.over_s), 1),
                            DataCell(hours(rack.excess_s), 1)});
    }
    page_.add(worst);
    std::vector<size_t> jobs;
    for (size_t j = 0; j < history_.jobs.size(); ++j) {
      if (replay_.lost_gpu_s_by_job[j] > 0) jobs.push_back(j);
    }
    std::stable_sort(jobs.begin(), jobs.end(), [&](size_t a, size_t b) {
      return replay_.lost_gpu_s_by_job[a] > replay_.lost_gpu_s_by_job[b];
    });
    DataTable lost{.title = fmt::format("{} shared an uplink at some time",
                                        count_of(static_cast<int64_t>(jobs.size()), "job")),
                   .columns = {{"job"},
                               {.name = "GPUs"},
                               {.name = "start"},
                               {.name = "run time", .unit = "h"},
                               {.name = "GPU-hours lost"},
                               {.name = "of its own", .unit = "%"}}};
    for (size_t i = 0; i < std::min(kMostRows, jobs.size()); ++i) {
      const RecordedJob& job = history_.jobs[jobs[i]];
      const double run_s = static_cast<double>(job.end_us - job.start_us) / 1e6;
      const double lost_s = replay_.lost_gpu_s_by_job[jobs[i]];
      lost.rows.push_back({job.id, job.gpus, moment_text(job.start_us), DataCell(hours(run_s), 1),
                           DataCell(hours(lost_s), 1),
                           DataCell(100 * lost_s / (run_s * static_cast<double>(job.gpus)), 1)});
    }
    page_.add(lost);
  }

  void what_was_used() {
    page_.heading("What of the log was used");
    DataTable table{.title = "Rows of the log",
                    .columns = {{"what"}, {.name = "rows"}, {.name = "first in line"}}};
    table.rows.push_back({"in all", history_.counts.rows, ""});
    table.rows.push_back({"jobs replayed", history_.counts.jobs, ""});
    for (const auto& [reason, tally] : history_.counts.skipped()) {
      table.rows.push_back({"left out: " + reason, tally.count, tally.first_line});
    }
    for (const auto& [what, tally] : history_.counts.mended()) {
      table.rows.push_back({"taken, but " + what, tally.count, tally.first_line});
    }
    page_.add(table);
    const auto share = [&](double part) { return percent(part, replay_.busy_gpu_s); };
    page_.paragraph(fmt::format(
        "Of the jobs replayed {} ran on a single node and send nothing over the fabric; {}, with "
        "{} of the GPU-hours, had a ring that left its rack.",
        count_of(replay_.single_node_jobs, "job"), count_of(replay_.crossing_jobs, "job"),
        share(replay_.crossing_gpu_s)));
    if (replay_.overlapping_jobs > 0) {
      page_.notice(fmt::format(
          "{} began on a node that another job held, one of the two on several nodes. In the "
          "record both count with their rings; in MonkeyTree's placement the later one takes "
          "another node.",
          count_of(replay_.overlapping_jobs, "job")));
    }
    if (replay_.sharing_jobs > 0) {
      page_.paragraph(fmt::format("{} of a single node shared it with another.",
                                  count_of(replay_.sharing_jobs, "job")));
    }
    if (!history_.unknown_nodes.empty()) {
      std::vector<std::string> named = history_.unknown_nodes;
      named.resize(std::min(named.size(), kMostNodesNamed));
      page_.notice(
          fmt::format("The topology lacks {} that jobs held: {}{}.",
                      count_of(static_cast<int64_t>(history_.unknown_nodes.size()), "node"),
                      compress_hostlist(named),
                      named.size() < history_.unknown_nodes.size() ? " and others" : ""));
    }
  }

  void rules() {
    page_.heading("How it was computed");
    page_.list({
        fmt::format("Log: `{}`; topology: `{}`. Times are those of the cluster's own clock.",
                    text_.log_file, text_.topology_file),
        bound_text(),
        history_.comments
            ? "A job is one group with a worker on each node, or as many as its comment's `pp=` "
              "says, with `tp=` or `rings=` parallel rings."
            : "No comment told a job's parallelism (`dp=`, `tp=`, `pp=`, `rings=`): each job is "
              "one "
              "group with a worker on each node and one ring.",
        "A rack's fragmentation degree is the number of rings that have workers in it and outside; "
        "above the number of its uplinks flows must share. `monkeytree analyze` shows it for a "
        "cluster as it is now.",
        "Jobs start and end as recorded, whatever they lose: run times are not changed, and a job "
        "that would have ended sooner does not make room for another.",
        "At one moment ends come before starts, and plans after both. A plan moves the fewest "
        "workers that bring every rack within its bound, or as near as it can; jobs of a part of a "
        "node and jobs with `monkeytree=off` stay.",
    });
  }

  std::string bound_text() const {
    if (!same_bound_) return "The uplinks of each rack are those of the table given.";
    return fmt::format("Each rack has {}{}.", count_of(fabric_.racks[RackId(0)].bound(), "uplink"),
                       text_.uplinks_given ? "" : ", which nobody said: `--uplinks` was not given");
  }

  const Snapshot& fabric_;
  const RecordedHistory& history_;
  const HistoryReplay& replay_;
  const ReplayOptions& options_;
  const HistoryPageText& text_;
  Page page_;
  bool same_bound_ = true;
};

}  // namespace

Page history_page(const Snapshot& fabric, const RecordedHistory& history,
                  const HistoryReplay& replay, const ReplayOptions& options,
                  const HistoryPageText& text) {
  return HistoryPage(fabric, history, replay, options, text).page();
}

std::string history_summary(const Snapshot& fabric, const RecordedHistory& history,
                            const HistoryReplay& replay) {
  const ReplayTotals &was = replay.recorded_total, &is = replay.monkeytree_total;
  const double saved = was.lost_gpu_s - is.lost_gpu_s - replay.kept.paused_gpu_s;
  return fmt::format(
      "{} to {}: {} on {}, {} left out\n"
      "above a bound for {:.1f} h, {:.1f} uplink-hours short\n"
      "lost to shared uplinks, estimated: {:.1f} of {:.1f} GPU-hours\n"
      "MonkeyTree would have saved {:.1f} GPU-hours with {}\n",
      moment_text(replay.begin_us), moment_text(replay.end_us),
      count_text(history.jobs.size(), "job"), count_text(fabric.racks.size(), "rack"),
      count_text(static_cast<size_t>(history.counts.skipped_count()), "row"), hours(was.over_s),
      hours(was.excess_s), hours(was.lost_gpu_s), hours(replay.busy_gpu_s), hours(saved),
      count_text(static_cast<size_t>(replay.kept.moves), "move"));
}

}  // namespace monkeytree
