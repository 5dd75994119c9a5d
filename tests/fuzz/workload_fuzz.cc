// Models, traces and logs of any bytes; the first byte picks the reader. Each refuses with a reason
// or gives what holds: models whose steps end, traces that are read back as they were.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <variant>

#include "workload/idle.h"
#include "workload/public_traces.h"
#include "workload/sacct.h"
#include "workload/swf.h"

using namespace monkeytree;  // NOLINT: a program of one function

namespace {

constexpr int64_t kClusterGpus = 1024;

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "does not hold: %s\n", what);
  std::abort();
}

int64_t iteration_us(const Model& model, int gpus) {
  return idle_iteration_us(rank_steps(model, gpus, PipelineSchedule::kOneForwardOneBackward),
                           50'000, 8, false);
}

void check_model(const Model& model) {
  for (int gpus : model.gpus) {
    require(misfit(model, gpus).empty(), "a listed size fits");
    require(state_bytes(model, gpus, gpus - 1, StateRule::kShard) >= 0, "state is not negative");
    require(state_bytes(model, gpus, 0, StateRule::kPaper) >= 0, "state is not negative");
    require(compute_us(model, gpus) >= 0, "computing takes time");
    int ranks = 0;
    for (const RankGroup& group : rank_groups(model, gpus, 8)) ranks += group.ranks;
    require(ranks == gpus, "groups hold every rank");
    if (gpus > 32 || model.phases.size() > 100) continue;  // slow, and nothing new
    int64_t steps = 0;
    for (const Phase& phase : model.phases) {
      if (const auto* p = std::get_if<Pipeline>(&phase)) steps += p->microbatches;
    }
    if (steps <= 1000) require(iteration_us(model, gpus) >= 0, "an iteration ends");
  }
}

void check_trace(const Trace& trace) {
  Diagnostics diagnostics;
  const auto again =
      parse_trace(trace_csv(trace), "t", Catalogue::standard(), kClusterGpus, diagnostics);
  if (!again) std::fprintf(stderr, "%s", diagnostics.text().c_str());
  require(again == trace, "a trace is read back as it was");
}

void check_import(const std::optional<ImportedTrace>& imported, bool row_is_job) {
  if (!imported) return;
  check_trace(imported->trace);
  const ImportCounts& counts = imported->counts;
  require(!row_is_job || counts.skipped_count() + counts.jobs == counts.rows,
          "every row is a job or is counted");
  require(!counts.text().empty(), "counts have a text");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  static const ImportOptions options = [] {
    ImportOptions out;
    out.iteration_us = iteration_us;
    return out;
  }();
  Diagnostics diagnostics;
  bool good = false;
  if (data[0] == 'c') {
    const auto catalogue = Catalogue::parse(text, "c", diagnostics);
    good = catalogue.has_value();
    if (good) {
      for (const Model& model : catalogue->models()) check_model(model);
    }
  } else if (data[0] == 't') {
    const auto trace = parse_trace(text, "t", Catalogue::standard(), kClusterGpus, diagnostics);
    good = trace.has_value();
    if (good) check_trace(*trace);
  } else if (data[0] == 's') {
    const auto imported = import_swf(text, "s", options, diagnostics);
    good = imported.has_value();
    check_import(imported, true);
  } else if (data[0] == 'l') {
    const auto imported = import_sacct(text, "l", options, diagnostics);
    good = imported.has_value();
    check_import(imported, true);
  } else if (data[0] >= '0' && data[0] <= '3') {
    const auto kind = static_cast<PublicTrace>(data[0] - '0');
    const auto imported = import_public(kind, text, "p", options, diagnostics);
    good = imported.has_value();
    check_import(imported, kind != PublicTrace::kAlibaba);
  } else {
    return -1;  // no reader: not kept
  }
  require(good != diagnostics.has_errors(), "what is refused has a reason");
  return 0;
}
