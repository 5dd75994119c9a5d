#include "workload/history.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <tuple>
#include <utility>
#include <variant>

#include "base/random.h"

namespace monkeytree {
namespace {

constexpr int64_t kMaxIterations = 1'000'000'000;
/// From the first job's submission on, 31 years: as much as a trace may span.
constexpr int64_t kMaxSpanUs = 1'000'000'000'000'000;
constexpr int64_t kMaxRunUs = int64_t{10} * 365 * 86'400 * 1'000'000;

bool has_all_to_all(const Model& model) {
  return std::any_of(model.phases.begin(), model.phases.end(), [](const Phase& phase) {
    return std::holds_alternative<AllToAllRing>(phase);
  });
}

/// Draws models and counts iterations.
class ModelDraw {
 public:
  explicit ModelDraw(const ImportOptions& options) : options_(options), random_(options.seed) {}

  /// Null where no model fits.
  const Model* model_for(int gpus) {
    const auto [found, fresh] = fitting_.try_emplace(gpus);
    if (fresh) found->second = fitting(gpus);
    const std::vector<const Model*>& models = found->second;
    uint64_t weights = 0;
    for (const Model* model : models) weights += static_cast<uint64_t>(model->weight);
    if (weights == 0) return nullptr;
    uint64_t at = random_.below(weights);
    for (const Model* model : models) {
      if (at < static_cast<uint64_t>(model->weight)) return model;
      at -= static_cast<uint64_t>(model->weight);
    }
    return nullptr;
  }

  int64_t iterations(const Model& model, int gpus, int64_t run_us) {
    const auto [found, fresh] = iteration_us_.try_emplace({&model, gpus});
    if (fresh) found->second = std::max<int64_t>(1, options_.iteration_us(model, gpus));
    const int64_t once = found->second;
    return std::clamp<int64_t>((run_us + once / 2) / once, 1, kMaxIterations);
  }

 private:
  std::vector<const Model*> fitting(int gpus) const {
    std::vector<const Model*> listed, able;
    for (const Model& model : options_.catalogue->models()) {
      if (model.weight == 0 || !misfit(model, gpus).empty()) continue;
      if (std::find(model.gpus.begin(), model.gpus.end(), gpus) != model.gpus.end()) {
        listed.push_back(&model);
      }
      if (!has_all_to_all(model)) able.push_back(&model);
    }
    return listed.empty() ? able : listed;
  }

  const ImportOptions& options_;
  RandomSequence random_;
  std::map<int, std::vector<const Model*>> fitting_;
  std::map<std::pair<const Model*, int>, int64_t> iteration_us_;  ///< looked up, never walked
};

void append_tallies(std::string& out, const char* what,
                    const std::map<std::string, ImportCounts::Tally>& tallies) {
  for (const auto& [reason, tally] : tallies) {
    out += fmt::format("{} {}: {}", what, tally.count, reason);
    if (tally.first_line > 0) out += fmt::format(" (first at line {})", tally.first_line);
    out += '\n';
  }
}

}  // namespace

void ImportCounts::add(std::map<std::string, Tally>& tallies, const std::string& reason, int line) {
  Tally& tally = tallies[reason];
  if (tally.count++ == 0) tally.first_line = line;
}

int64_t ImportCounts::skipped_count() const {
  int64_t sum = 0;
  for (const auto& [reason, tally] : skipped_) sum += tally.count;
  return sum;
}

std::string ImportCounts::text() const {
  std::string out =
      fmt::format("{} row{}, {} job{}\n", rows, rows == 1 ? "" : "s", jobs, jobs == 1 ? "" : "s");
  append_tallies(out, "skipped", skipped_);
  append_tallies(out, "mended", mended_);
  return out;
}

Trace trace_of(std::vector<PastJob> jobs, const ImportOptions& options, ImportCounts& counts) {
  assert(options.iteration_us);
  const int64_t node = options.gpus_per_node;
  const auto usable = [&](PastJob& job) {
    if (job.start_us < job.submit_us) {
      counts.mend("started before it was submitted: submitted when it started", job.line);
      job.submit_us = job.start_us;
    }
    std::string reason;
    if (job.gpus <= 0) {
      reason = "no GPUs";
    } else if (job.gpus < node) {
      reason = fmt::format("smaller than a node of {} GPUs", node);
    } else if (job.gpus > options.cluster_gpus) {
      reason = fmt::format("larger than the cluster of {} GPUs", options.cluster_gpus);
    } else if (job.run_us <= 0) {
      reason = job.run_us < 0 ? "ended before it started" : "ran for no time";
    } else if (job.run_us > kMaxRunUs) {
      reason = "ran for more than ten years";
    }
    if (!reason.empty()) counts.skip(reason, job.line);
    return reason.empty();
  };
  std::erase_if(jobs, [&](PastJob& job) { return !usable(job); });
  std::stable_sort(jobs.begin(), jobs.end(),
                   [](const PastJob& a, const PastJob& b) { return a.submit_us < b.submit_us; });

  ModelDraw draw(options);
  Trace trace;
  int64_t first_us = 0;
  for (const PastJob& job : jobs) {
    if (!trace.empty() && job.submit_us - first_us > kMaxSpanUs) {
      counts.skip("submitted more than 31 years after the first job", job.line);
      continue;
    }
    const int gpus = static_cast<int>((job.gpus + node - 1) / node * node);
    const Model* model = gpus > options.cluster_gpus ? nullptr : draw.model_for(gpus);
    if (model == nullptr) {
      counts.skip(fmt::format("no model of the catalogue fits {} GPUs", gpus), job.line);
      continue;
    }
    if (gpus != job.gpus) counts.mend("rounded up to whole nodes", job.line);
    if (trace.empty()) first_us = job.submit_us;
    trace.push_back(
        {job.submit_us - first_us, model->name, gpus, draw.iterations(*model, gpus, job.run_us)});
  }
  counts.jobs = static_cast<int64_t>(trace.size());
  return trace;
}

}  // namespace monkeytree
