#include "workload/sacct.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
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

int64_t count_of(std::string_view text) {
  const std::optional<int64_t> value = whole_number(text);
  return value && *value >= 0 && *value <= kMaxCount ? *value : 0;
}

/// The value of one resource of a list: "gres/gpu" → "8".
std::optional<int64_t> resource(std::string_view tres, std::string_view wanted) {
  while (!tres.empty()) {
    const size_t end = std::min(tres.find(','), tres.size());
    const std::string_view item = tres.substr(0, end);
    tres.remove_prefix(std::min(end + 1, tres.size()));
    const size_t equals = item.find('=');
    if (equals != std::string_view::npos && item.substr(0, equals) == wanted) {
      return count_of(item.substr(equals + 1));
    }
  }
  return std::nullopt;
}

class SacctReader {
 public:
  SacctReader(std::string_view text, std::string_view file, ImportCounts& counts,
              Diagnostics& diagnostics)
      : table_(text, '|'), file_(file), counts_(counts), diagnostics_(diagnostics) {}

  std::optional<SacctLog> read() {
    if (!table_.next() || !read_header()) {
      diagnostics_.error(file_, table_.fault().empty() ? 0 : table_.line(), "",
                         table_.fault().empty()
                             ? "expected what `sacct --parsable2` prints: a header and rows parted "
                               "by `|`, with JobID, Start, and End or Elapsed"
                             : table_.fault());
      return std::nullopt;
    }
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
  bool read_header() {
    const Columns columns(table_.cells());
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
    return id_ && start_ && (end_ || elapsed_ || elapsed_raw_);
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
    if (tres_) job.gpus = gpus_in_tres(cell(tres_));
    job.node_count = count_of(cell(node_count_));
    if (job.node_count == 0) job.node_count = resource(cell(tres_), "node").value_or(0);
    if (!read_nodes(job)) return false;
    log_.jobs.push_back(std::move(job));
    return true;
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
        for (std::string& name : *names) found->second.push_back(number_of(std::move(name)));
      }
    }
    job.nodes = found->second;
    if (job.nodes.empty()) counts_.mend("a node list that is none: its nodes unknown", line_);
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
  int line_ = 0;
  size_t cell_count_ = 0, mentions_ = 0;
  std::optional<size_t> id_, submit_, start_, end_, elapsed_, elapsed_raw_, state_, tres_,
      node_count_, node_list_, name_, user_, partition_, comment_;
  std::map<std::string, std::vector<int32_t>, std::less<>> lists_;
  std::map<std::string, int32_t, std::less<>> numbers_;
};

}  // namespace

int64_t gpus_in_tres(std::string_view tres) {
  if (const std::optional<int64_t> total = resource(tres, "gres/gpu")) return *total;
  constexpr std::string_view kTyped = "gres/gpu:";
  int64_t sum = 0;
  while (!tres.empty()) {
    const size_t end = std::min(tres.find(','), tres.size());
    const std::string_view item = tres.substr(0, end);
    tres.remove_prefix(std::min(end + 1, tres.size()));
    if (item.starts_with(kTyped))
      sum += count_of(item.substr(std::min(item.find('='), item.size() - 1) + 1));
  }
  return std::min(sum, kMaxCount);
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
