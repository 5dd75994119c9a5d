#include "workload/trace.h"

#include <fmt/format.h>

#include <map>
#include <utility>

#include "base/json.h"
#include "workload/number.h"
#include "workload/table.h"

namespace monkeytree {
namespace {

/// 31 years. A job may compute and send for as long, at 400 Gb/s.
constexpr int64_t kMaxTime = 1'000'000'000'000'000;
constexpr int64_t kMaxIterations = 1'000'000'000;
constexpr double kBytesPerUs = 50'000;

class TraceReader {
 public:
  TraceReader(std::string_view file, const Catalogue& catalogue, int64_t max_gpus,
              Diagnostics& diagnostics)
      : file_(file), catalogue_(catalogue), max_gpus_(max_gpus), diagnostics_(diagnostics) {}

  Trace read(std::string_view text) {
    Trace trace;
    TableReader table(text, ',');
    if (!read_header(table)) return trace;
    int last_line = 0;
    while (table.next()) {
      line_ = table.line();
      const std::vector<std::string>& cells = table.cells();
      if (cells.size() != columns_) {
        error(fmt::format("{} cells, expected {} as in the header", cells.size(), columns_));
        continue;
      }
      TraceJob job;
      job.submit_us = number(cells[submit_], "submit_us", 0, kMaxTime);
      job.model = trimmed(cells[model_]);
      job.gpus = static_cast<int>(number(cells[gpus_], "gpus", 1, kMaxGpus));
      job.iterations = number(cells[iterations_], "iterations", 1, kMaxIterations);
      check(job);
      if (!trace.empty() && job.submit_us < trace.back().submit_us) {
        error(
            fmt::format("submitted at {} µs, before the job of line {} at {} µs; expected the "
                        "jobs in the order of their submission",
                        job.submit_us, last_line, trace.back().submit_us));
        continue;  // the rows below are compared with the one above
      }
      last_line = line_;
      trace.push_back(std::move(job));
    }
    line_ = table.line();
    if (!table.fault().empty()) error(table.fault());
    return trace;
  }

 private:
  static constexpr int64_t kMaxGpus = int64_t{1} << 20;

  void error(std::string message) { diagnostics_.error(file_, line_, "", std::move(message)); }

  bool read_header(TableReader& table) {
    if (!table.next()) {
      line_ = table.fault().empty() ? 0 : table.line();
      error(table.fault().empty() ? "empty, expected the header submit_us,model,gpus,iterations"
                                  : table.fault());
      return false;
    }
    line_ = table.line();
    const Columns columns(table.cells());
    const std::string missing = columns.missing({"submit_us", "model", "gpus", "iterations"});
    if (!missing.empty()) {
      error(fmt::format("no column {}, expected the header submit_us,model,gpus,iterations",
                        missing));
      return false;
    }
    columns_ = columns.count();
    if (columns_ > 4) {
      diagnostics_.warning(file_, line_, "",
                           "columns besides submit_us, model, gpus and iterations are not used");
    }
    submit_ = *columns.find({"submit_us"});
    model_ = *columns.find({"model"});
    gpus_ = *columns.find({"gpus"});
    iterations_ = *columns.find({"iterations"});
    return true;
  }

  int64_t number(const std::string& text, const char* column, int64_t low, int64_t high) {
    const std::optional<int64_t> value = whole_number(trimmed(text));
    if (value && *value >= low && *value <= high) return *value;
    error(fmt::format("{} is {}, expected a whole number from {} to {}", column, quote(text), low,
                      high));
    return low;
  }

  void check(const TraceJob& job) {
    const Model* model = catalogue_.find(job.model);
    if (model == nullptr) {
      error(fmt::format("unknown model {}, expected one of the catalogue{}", quote(job.model),
                        similar(job.model)));
      return;
    }
    if (job.gpus > max_gpus_) {
      error(fmt::format("the job needs {} GPUs, the cluster has {}", job.gpus, max_gpus_));
      return;
    }
    const std::string& reason = misfit_of(*model, job.gpus);
    if (!reason.empty()) {
      error(fmt::format("{} cannot run on {} GPUs: {}", job.model, job.gpus, reason));
      return;
    }
    const double once =
        static_cast<double>(compute_us(*model, job.gpus)) +
        static_cast<double>(state_bytes(*model, job.gpus, 0, StateRule::kPaper)) / kBytesPerUs;
    if (once * static_cast<double>(job.iterations) > static_cast<double>(kMaxTime)) {
      error(fmt::format("{} iterations of {} take more than 31 years", job.iterations, job.model));
    }
  }

  /// The catalogue where it is short enough to be told.
  std::string similar(std::string_view name) const {
    for (const Model& model : catalogue_.models()) {
      if (!name.empty() && model.name.starts_with(name.substr(0, name.size() / 2 + 1))) {
        return fmt::format(", such as {}", model.name);
      }
    }
    return "";
  }

  const std::string& misfit_of(const Model& model, int gpus) {
    const auto [found, fresh] = misfits_.try_emplace({&model, gpus});
    if (fresh) found->second = misfit(model, gpus);
    return found->second;
  }

  std::string_view file_;
  const Catalogue& catalogue_;
  int64_t max_gpus_;
  Diagnostics& diagnostics_;
  int line_ = 0;
  size_t columns_ = 0, submit_ = 0, model_ = 0, gpus_ = 0, iterations_ = 0;
  std::map<std::pair<const Model*, int>, std::string> misfits_;  ///< looked up, never walked
};

}  // namespace

std::optional<Trace> parse_trace(std::string_view text, std::string_view file,
                                 const Catalogue& catalogue, int64_t max_gpus,
                                 Diagnostics& diagnostics) {
  const size_t before = diagnostics.error_count();
  Trace trace = TraceReader(file, catalogue, max_gpus, diagnostics).read(text);
  if (diagnostics.error_count() > before) return std::nullopt;
  return trace;
}

std::string trace_csv(const Trace& trace) {
  std::string out = "submit_us,model,gpus,iterations\n";
  for (const TraceJob& job : trace) {
    out += fmt::format("{},{},{},{}\n", job.submit_us, job.model, job.gpus, job.iterations);
  }
  return out;
}

}  // namespace monkeytree
