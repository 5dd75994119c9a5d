#include "workload/public_traces.h"

#include <absl/container/flat_hash_map.h>
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "workload/number.h"
#include "workload/table.h"

namespace monkeytree {
namespace {

constexpr int64_t kMaxGpus = 100'000'000;
constexpr int64_t kMaxRun = 1'000'000'000'000'000'000;  ///< µs; sums of it do not overflow

bool is_none(std::string_view text) {
  return text.empty() || text == "None" || text == "nan" || text == "NaT" || text == "Unknown";
}

/// Of Acme and Helios, which share their columns: a row a job.
class JobTable {
 public:
  JobTable(std::string_view file, ImportCounts& counts, Diagnostics& diagnostics)
      : file_(file), counts_(counts), diagnostics_(diagnostics) {}

  std::optional<std::vector<PastJob>> read(std::string_view text) {
    TableReader table(text, ',');
    if (table.next()) {
      const Columns columns(table.cells());
      const std::string missing =
          columns.missing({"gpu_num", "submit_time", "start_time", "end_time"});
      if (!missing.empty()) {
        diagnostics_.error(file_, table.line(), "",
                           fmt::format("no column {}, expected gpu_num, submit_time, start_time "
                                       "and end_time among others",
                                       missing));
        return std::nullopt;
      }
      cell_count_ = columns.count();
      gpus_ = *columns.find({"gpu_num"});
      submit_ = *columns.find({"submit_time"});
      start_ = *columns.find({"start_time"});
      end_ = *columns.find({"end_time"});
    } else if (table.fault().empty()) {
      diagnostics_.error(file_, 0, "", "empty, expected a table with a header");
      return std::nullopt;
    }
    while (table.next()) read_row(table);
    if (!table.fault().empty()) {
      diagnostics_.error(file_, table.line(), "", table.fault());
      return std::nullopt;
    }
    return std::move(jobs_);
  }

 private:
  void read_row(const TableReader& table) {
    ++counts_.rows;
    const int line = table.line();
    const std::vector<std::string>& cells = table.cells();
    if (cells.size() != cell_count_) return counts_.skip("not as many cells as the header", line);
    const std::string_view submit = trimmed(cells[submit_]), start = trimmed(cells[start_]),
                           end = trimmed(cells[end_]);
    const std::optional<int64_t> gpus = whole_number(trimmed(cells[gpus_]));
    if (!gpus || *gpus < 0 || *gpus > kMaxGpus) {
      return counts_.skip("a number of GPUs that is none", line);
    }
    if (*gpus == 0) return counts_.skip("no GPUs", line);
    if (is_none(start)) return counts_.skip("did not start", line);
    if (is_none(end)) return counts_.skip("has no end", line);
    const auto start_us = time_us(start), end_us = time_us(end);
    auto submit_us = time_us(submit);
    if (is_none(submit)) {
      counts_.mend("no time of submission: submitted when it started", line);
      submit_us = start_us;
    }
    if (!start_us || !end_us || !submit_us) return counts_.skip("a time that is none", line);
    jobs_.push_back({*submit_us, *start_us, *end_us - *start_us, *gpus, line});
  }

  std::string_view file_;
  ImportCounts& counts_;
  Diagnostics& diagnostics_;
  size_t cell_count_ = 0, gpus_ = 0, submit_ = 0, start_ = 0, end_ = 0;
  std::vector<PastJob> jobs_;
};

/// Tasks of Alibaba's jobs: a row a task, of `inst_num` instances with `plan_gpu` hundredths of a
/// GPU each. The job's GPUs are those of its tasks together.
class TaskTable {
 public:
  TaskTable(std::string_view file, ImportCounts& counts, Diagnostics& diagnostics)
      : file_(file), counts_(counts), diagnostics_(diagnostics) {}

  std::optional<std::vector<PastJob>> read(std::string_view text) {
    TableReader table(text, ',');
    while (table.next()) {
      const std::vector<std::string>& cells = table.cells();
      if (counts_.rows == 0 && trimmed(cells[0]) == "job_name") continue;
      ++counts_.rows;
      if (cells.size() != kColumns) {
        counts_.skip("not the 10 columns of pai_task_table", table.line());
      } else {
        read_row(cells, table.line());
      }
    }
    if (!table.fault().empty()) {
      diagnostics_.error(file_, table.line(), "", table.fault());
      return std::nullopt;
    }
    if (jobs_.empty()) {
      diagnostics_.error(file_, 0, "",
                         "no task, expected rows job_name,task_name,inst_num,status,start_time,"
                         "end_time,plan_cpu,plan_mem,plan_gpu,gpu_type");
      return std::nullopt;
    }
    return finish();
  }

 private:
  static constexpr size_t kColumns = 10;
  struct TaskedJob {
    int64_t submit_us = -1;                ///< the first start of any task
    int64_t start_us = -1, end_us = -1;    ///< of tasks with GPUs
    int64_t gpu_us = 0;                    ///< millionths of a GPU
    bool unfinished = false, bad = false;  ///< a task with GPUs without an end; with bad numbers
    int line = 0;
  };

  void read_row(const std::vector<std::string>& cells, int line) {
    const auto [found, fresh] = numbers_.try_emplace(cells[0], jobs_.size());
    if (fresh) jobs_.emplace_back().line = line;
    TaskedJob& job = jobs_[found->second];
    const auto start = seconds_us(cells[4]), end = seconds_us(cells[5]);
    if (start && (job.submit_us < 0 || *start < job.submit_us)) job.submit_us = *start;
    if (trimmed(cells[8]).empty()) return;  // of CPUs only
    const auto percent = seconds_us(cells[8]);
    const auto instances = whole_number(trimmed(cells[2]));
    if (!percent || !instances || *percent < 0 || *percent > int64_t{1'000'000} * 100'000 ||
        *instances < 0 || *instances > 1'000'000) {
      job.bad = true;
      return;
    }
    if (*percent == 0) return;
    job.gpu_us = std::min(job.gpu_us + *percent / 100 * *instances, kMaxGpus * 1'000'000);
    if (start && (job.start_us < 0 || *start < job.start_us)) job.start_us = *start;
    if (!start || !end || *end <= 0) {
      job.unfinished = true;
    } else {
      job.end_us = std::max(job.end_us, *end);
    }
  }

  std::vector<PastJob> finish() {
    std::vector<PastJob> out;
    for (const TaskedJob& job : jobs_) {
      if (job.bad) {
        counts_.skip("a task with numbers that are none", job.line);
      } else if (job.gpu_us == 0) {
        counts_.skip("no GPUs", job.line);
      } else if (job.unfinished) {
        counts_.skip("a task without a start or an end", job.line);
      } else {
        const int64_t gpus = (job.gpu_us + 999'999) / 1'000'000;
        out.push_back({job.submit_us, job.start_us, job.end_us - job.start_us, gpus, job.line});
      }
    }
    return out;
  }

  std::string_view file_;
  ImportCounts& counts_;
  Diagnostics& diagnostics_;
  absl::flat_hash_map<std::string, size_t> numbers_;  ///< looked up, never walked
  std::vector<TaskedJob> jobs_;                       ///< in the order of their first task
};

/// Philly's jobs, each with its attempts; an attempt lists its servers and their GPUs.
class PhillyLog {
 public:
  explicit PhillyLog(ImportCounts& counts) : counts_(counts) {}

  /// nullopt where a fault was reported.
  std::optional<std::vector<PastJob>> read(JsonValue root) {
    const std::optional<std::vector<JsonValue>> list = root.array();
    if (!list) return std::nullopt;
    for (const JsonValue& item : *list) {
      std::optional<JsonObject> job = item.object();
      if (!job) return std::nullopt;
      ++counts_.rows;
      if (!read_job(*job)) return std::nullopt;
    }
    return std::move(jobs_);
  }

 private:
  /// A time, or nothing where it is null, "None" or not there; reports what is no text.
  struct Moment {
    bool good = true;
    std::optional<int64_t> us;
  };
  static Moment moment(JsonObject& object, std::string_view key) {
    const std::optional<JsonValue> value = object.find(key);
    if (!value || value->is_null()) return {};
    const std::optional<std::string_view> text = value->string();
    if (!text) return {false, std::nullopt};
    if (is_none(*text)) return {};
    const std::optional<int64_t> us = time_us(*text);
    if (!us)
      value->error(fmt::format("{}, expected a time such as 2017-10-07 01:12:09", quote(*text)));
    return {us.has_value(), us};
  }

  bool read_job(JsonObject& object) {
    const Moment submit = moment(object, "submitted_time");
    const std::optional<JsonValue> value = object.require("attempts");
    if (!value || !submit.good) return false;
    const std::optional<std::vector<JsonValue>> attempts = value->array();
    if (!attempts) return false;
    PastJob job;
    bool started = false, ended = true;
    for (const JsonValue& item : *attempts) {
      std::optional<JsonObject> attempt = item.object();
      if (!attempt) return false;
      const Moment start = moment(*attempt, "start_time"), end = moment(*attempt, "end_time");
      const std::optional<int64_t> gpus = gpus_of(*attempt);
      if (!start.good || !end.good || !gpus) return false;
      if (*gpus > 0) job.gpus = *gpus;
      if (!start.us) continue;
      if (!started) job.start_us = *start.us;
      started = true;
      ended = end.us.has_value();
      if (ended) job.run_us = std::clamp(job.run_us + (*end.us - *start.us), -kMaxRun, kMaxRun);
    }
    add(job, submit.us, started, ended, attempts->empty());
    return true;
  }

  void add(PastJob job, std::optional<int64_t> submit_us, bool started, bool ended, bool never) {
    if (never) return counts_.skip("no attempt recorded", 0);
    if (!started) return counts_.skip("did not start", 0);
    if (!ended) return counts_.skip("still running when the log was taken", 0);
    if (job.gpus == 0) return counts_.skip("no servers recorded, or no GPUs", 0);
    if (!submit_us) counts_.mend("no time of submission: submitted when it started", 0);
    job.submit_us = submit_us.value_or(job.start_us);
    jobs_.push_back(job);
  }

  /// Of an attempt; 0 where it lists no server.
  static std::optional<int64_t> gpus_of(JsonObject& attempt) {
    const std::optional<JsonValue> detail = attempt.find("detail");
    if (!detail || detail->is_null()) return 0;
    const std::optional<std::vector<JsonValue>> servers = detail->array();
    if (!servers) return std::nullopt;
    int64_t sum = 0;
    for (const JsonValue& server : *servers) {
      std::optional<JsonObject> object = server.object();
      if (!object) return std::nullopt;
      const std::optional<JsonValue> gpus = object->find("gpus");
      if (!gpus || gpus->is_null()) continue;
      const std::optional<std::vector<JsonValue>> list = gpus->array();
      if (!list) return std::nullopt;
      sum += static_cast<int64_t>(list->size());
    }
    return sum;
  }

  ImportCounts& counts_;
  std::vector<PastJob> jobs_;
};

std::optional<std::vector<PastJob>> read_philly(std::string_view text, std::string_view file,
                                                ImportCounts& counts, Diagnostics& diagnostics) {
  const size_t before = diagnostics.error_count();
  const std::unique_ptr<JsonDocument> document = JsonDocument::parse(text, file, diagnostics);
  if (document == nullptr || diagnostics.error_count() > before) return std::nullopt;
  return PhillyLog(counts).read(document->root());
}

}  // namespace

std::optional<PublicTrace> public_trace(std::string_view name) {
  if (name == "acme") return PublicTrace::kAcme;
  if (name == "helios") return PublicTrace::kHelios;
  if (name == "philly") return PublicTrace::kPhilly;
  if (name == "alibaba") return PublicTrace::kAlibaba;
  return std::nullopt;
}

std::optional<ImportedTrace> import_public(PublicTrace kind, std::string_view text,
                                           std::string_view file, const ImportOptions& options,
                                           Diagnostics& diagnostics) {
  ImportedTrace out;
  std::optional<std::vector<PastJob>> jobs;
  switch (kind) {
    case PublicTrace::kAcme:
    case PublicTrace::kHelios:
      jobs = JobTable(file, out.counts, diagnostics).read(text);
      break;
    case PublicTrace::kPhilly:
      jobs = read_philly(text, file, out.counts, diagnostics);
      break;
    case PublicTrace::kAlibaba:
      jobs = TaskTable(file, out.counts, diagnostics).read(text);
      break;
  }
  if (!jobs) return std::nullopt;
  out.trace = trace_of(*std::move(jobs), options, out.counts);
  return out;
}

}  // namespace monkeytree
