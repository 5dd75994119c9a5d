#include "workload/sacct.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/hostlist.h"
#include "workload/number.h"
#include "workload/table.h"

namespace monkeytree {
namespace {

constexpr size_t kMaxNodeMentions = size_t{1} << 27;
constexpr int64_t kMaxCount = 100'000'000;

/// What sacct prints where there is no time.
bool is_none(std::string_view text) {
  return text.empty() || text == "Unknown" || text == "None" || text == "N/A" || text == "INVALID";
}

std::optional<int64_t> moment(std::string_view text) {
  const bool digits = std::all_of(text.begin(), text.end(),
                                  [](char c) { return (c >= '0' && c <= '9') || c == '.'; });
  return digits ? seconds_us(text) : time_us(text);
}

std::optional<int64_t> count_in(std::string_view text) {
  const std::optional<int64_t> value = whole_number(text);
  return value && *value >= 0 && *value <= kMaxCount ? value : std::nullopt;
}

int64_t count_of(std::string_view text) { return count_in(text).value_or(0); }

/// Calls `use(name, count)` for each resource of a list: "gres/gpu", "8".
template <class Use>
void each_resource(std::string_view tres, Use use) {
  while (!tres.empty()) {
    const size_t end = std::min(tres.find(','), tres.size());
    const std::string_view item = tres.substr(0, end);
    tres.remove_prefix(std::min(end + 1, tres.size()));
    const size_t equals = item.find('=');
    if (equals != std::string_view::npos) use(item.substr(0, equals), item.substr(equals + 1));
  }
}

int64_t nodes_in_tres(std::string_view tres) {
  int64_t nodes = 0;
  each_resource(tres, [&](std::string_view name, std::string_view count) {
    if (name == "node") nodes = count_of(count);
  });
  return nodes;
}

class SacctReader {
 public:
  SacctReader(std::string_view text, std::string_view file, ImportCounts& counts,
              Diagnostics& diagnostics)
      : table_(text, '|'), file_(file), counts_(counts), diagnostics_(diagnostics) {}

  std::optional<SacctLog> read() {
    if (!table_.next()) {
      diagnostics_.error(file_, table_.fault().empty() ? 0 : table_.line(), "",
                         table_.fault().empty() ? no_header() : table_.fault());
      return std::nullopt;
    }
    header_ = table_.cells();
    if (const std::string fault = read_header(); !fault.empty()) {
      diagnostics_.error(file_, table_.line(), "", fault);
      return std::nullopt;
    }
    log_.has_node_lists = node_list_.has_value();
    while (table_.next()) {
      line_ = table_.line();
      ++counts_.rows;
      if (!read_row()) return std::nullopt;
    }
    if (!table_.fault().empty()) {
      diagnostics_.error(file_, table_.line(), "", table_.fault());
      return std::nullopt;
    }
    return std::move(log_);
  }

 private:
  static std::string no_header(std::string_view before = "") {
    return fmt::format(
        "{}expected what `sacct --parsable2` prints: a header and rows parted by `|`, with JobID, "
        "Start, and End or Elapsed",
        before);
  }

  /// What is wrong with it; empty where it will do.
  std::string read_header() {
    const Columns columns(header_);
    cell_count_ = columns.count();
    id_ = columns.find({"JobID", "JobIDRaw"});
    submit_ = columns.find({"Submit"});
    start_ = columns.find({"Start"});
    end_ = columns.find({"End"});
    elapsed_ = columns.find({"Elapsed"});
    elapsed_raw_ = columns.find({"ElapsedRaw"});
    state_ = columns.find({"State"});
    tres_ = columns.find({"AllocTRES", "ReqTRES"});
    node_count_ = columns.find({"AllocNodes", "NNodes"});
    node_list_ = columns.find({"NodeList"});
    name_ = columns.find({"JobName"});
    user_ = columns.find({"User"});
    partition_ = columns.find({"Partition"});
    comment_ = columns.find({"Comment"});
    if (!id_ && !start_) return no_header();
    std::string missing;
    const auto need = [&](bool there, const char* name) {
      if (!there) missing += fmt::format("{}{}", missing.empty() ? "no column " : ", no ", name);
    };
    need(id_.has_value(), "JobID");
    need(start_.has_value(), "Start");
    need(end_ || elapsed_ || elapsed_raw_, "End (nor Elapsed)");
    return missing.empty() ? "" : no_header(missing + "; ");
  }

  std::string_view cell(std::optional<size_t> column) const {
    return column ? trimmed(table_.cells()[*column]) : std::string_view();
  }

  /// False where the whole log has to be given up.
  bool read_row() {
    const auto skip = [&](const std::string& reason) {
      counts_.skip(reason, line_);
      return true;
    };
    if (table_.cells().size() != cell_count_) return skip("not as many cells as the header");
    if (table_.cells() == header_) return skip("the header again");
    SacctJob job;
    job.id = cell(id_);
    job.line = line_;
    if (job.id.empty()) return skip("no JobID");
    if (job.id.find('.') != std::string::npos) return skip("a step of a job");
    const std::string_view start = cell(start_), end = cell(end_);
    if (is_none(start)) return skip("has not started");
    if (job.id.find('[') != std::string::npos) return skip("tasks of an array not started yet");
    const std::optional<int64_t> start_us = moment(start);
    if (!start_us) return skip("a start that is no time");
    job.start_us = *start_us;
    if (!is_none(end)) {
      job.end_us = moment(end);
      if (!job.end_us) return skip("an end that is no time");
    }
    if (!read_times(job)) return skip("a submission that is no time");
    if (job.run_us < 0) return skip("ended before it started");
    job.state = cell(state_).substr(0, cell(state_).find(' '));
    job.name = cell(name_);
    job.user = cell(user_);
    job.partition = cell(partition_);
    job.comment = cell(comment_);
    if (tres_) {
      const std::optional<int64_t> gpus = gpus_in_tres(cell(tres_));
      if (!gpus) return skip("a number of GPUs that is none");
      job.gpus = *gpus;
    }
    job.node_count = count_of(cell(node_count_));
    if (job.node_count == 0) job.node_count = nodes_in_tres(cell(tres_));
    if (!read_nodes(job)) return false;
    add(std::move(job));
    return true;
  }

  /// A job and a start stand there once.
  void add(SacctJob job) {
    const auto [at, fresh] = runs_.try_emplace({job.id, job.start_us}, log_.jobs.size());
    if (fresh) return log_.jobs.push_back(std::move(job));
    SacctJob& other = log_.jobs[at->second];
    const bool newer = !other.end_us && job.end_us;
    counts_.skip("a job that stands there twice with the same start",
                 newer ? other.line : job.line);
    if (newer) other = std::move(job);
  }

  /// Submission and run time, with what the log has of them; false where the submission is told,
  /// but not as a time.
  bool read_times(SacctJob& job) {
    job.submit_us = job.start_us;
    if (!is_none(cell(submit_))) {
      const std::optional<int64_t> submit = moment(cell(submit_));
      if (!submit) return false;
      job.submit_us = *submit;
    }
    std::optional<int64_t> run = seconds_us(cell(elapsed_raw_));
    if (!run) run = duration_us(cell(elapsed_));
    if (job.end_us) {
      job.run_us = *job.end_us - job.start_us;
    } else {
      job.run_us = run.value_or(0);
      if (!end_ && run) job.end_us = job.start_us + *run;
    }
    return true;
  }

  bool read_nodes(SacctJob& job) {
    const std::string_view text = cell(node_list_);
    if (text.empty() || text == "None assigned" || text == "None" || text == "(null)") return true;
    const auto [found, fresh] = lists_.try_emplace(std::string(text));
    if (fresh) {
      absl::StatusOr<std::vector<std::string>> names = expand_hostlist(text);
      if (names.ok()) {
        std::set<int32_t> seen;
        for (std::string& name : *names) {
          const int32_t node = number_of(std::move(name));
          if (seen.insert(node).second) found->second.nodes.push_back(node);
        }
        found->second.repeats = seen.size() < names->size();
      }
    }
    job.nodes = found->second.nodes;
    job.bad_node_list = job.nodes.empty();
    if (found->second.repeats) counts_.mend("a node named twice in its list: once taken", line_);
    if (job.node_count == 0) job.node_count = static_cast<int64_t>(job.nodes.size());
    mentions_ += job.nodes.size() + (fresh ? job.nodes.size() : 0);
    if (mentions_ <= kMaxNodeMentions) return true;
    diagnostics_.error(
        file_, line_, "",
        fmt::format("the node lists name more than {} nodes in all", kMaxNodeMentions));
    return false;
  }

  int32_t number_of(std::string name) {
    const auto [found, fresh] =
        numbers_.try_emplace(name, static_cast<int32_t>(log_.node_names.size()));
    if (fresh) log_.node_names.push_back(std::move(name));
    return found->second;
  }

  TableReader table_;
  std::string_view file_;
  ImportCounts& counts_;
  Diagnostics& diagnostics_;
  SacctLog log_;
  std::vector<std::string> header_;
  int line_ = 0;
  size_t cell_count_ = 0, mentions_ = 0;
  std::optional<size_t> id_, submit_, start_, end_, elapsed_, elapsed_raw_, state_, tres_,
      node_count_, node_list_, name_, user_, partition_, comment_;
  struct NodeList {
    std::vector<int32_t> nodes;
    bool repeats = false;  ///< it names a node twice
  };
  std::map<std::string, NodeList, std::less<>> lists_;
  std::map<std::pair<std::string, int64_t>, size_t> runs_;  ///< places in the log; never walked
  std::map<std::string, int32_t, std::less<>> numbers_;
};

}  // namespace

std::optional<int64_t> gpus_in_tres(std::string_view tres) {
  std::optional<int64_t> total;
  int64_t sum = 0;
  bool good = true;
  each_resource(tres, [&](std::string_view name, std::string_view text) {
    if (name != "gres/gpu" && !name.starts_with("gres/gpu:")) return;
    const std::optional<int64_t> count = count_in(text);
    good = good && count;
    if (!count) return;
    if (name == "gres/gpu") {
      total = count;
    } else {
      sum = std::min(sum + *count, kMaxCount);
    }
  });
  if (!good) return std::nullopt;
  return total.value_or(sum);
}

std::optional<SacctLog> read_sacct(std::string_view text, std::string_view file,
                                   ImportCounts& counts, Diagnostics& diagnostics) {
  return SacctReader(text, file, counts, diagnostics).read();
}

ImportedTrace trace_of_sacct(const SacctLog& log, ImportCounts counts,
                             const ImportOptions& options) {
  ImportedTrace out;
  out.counts = std::move(counts);
  std::vector<PastJob> jobs;
  jobs.reserve(log.jobs.size());
  for (const SacctJob& job : log.jobs) {
    int64_t gpus = job.gpus;
    if (job.bad_node_list) {
      out.counts.mend("a node list that is none: its nodes unknown", job.line);
    }
    if (gpus < 0 && job.node_count > 0) {
      gpus = job.node_count * options.gpus_per_node;
      out.counts.mend("GPUs not told: all of its nodes taken", job.line);
    }
    if (!job.end_us) out.counts.mend("still running: its time so far taken", job.line);
    jobs.push_back({job.submit_us, job.start_us, job.run_us, gpus, job.line});
  }
  out.trace = trace_of(std::move(jobs), options, out.counts);
  return out;
}

std::optional<ImportedTrace> import_sacct(std::string_view text, std::string_view file,
                                          const ImportOptions& options, Diagnostics& diagnostics) {
  ImportCounts counts;
  const std::optional<SacctLog> log = read_sacct(text, file, counts, diagnostics);
  if (!log) return std::nullopt;
  return trace_of_sacct(*log, std::move(counts), options);
}

}  // namespace monkeytree
