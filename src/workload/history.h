#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "workload/catalogue.h"
#include "workload/generate.h"
#include "workload/trace.h"

/// What clusters recorded about their jobs, as traces. A record tells no model, so a job gets one.
namespace monkeytree {

/// A job that ran, as far as a trace needs it.
struct PastJob {
  int64_t submit_us = 0, start_us = 0;  ///< of any clock, the same for all jobs
  int64_t run_us = 0;
  int64_t gpus = 0;
  int line = 0;  ///< where it stands in the record; 0 where lines say nothing
};

/// What was left out or mended, and why: part of every page that shows an imported trace.
class ImportCounts {
 public:
  struct Tally {
    int64_t count = 0;
    int first_line = 0;
  };

  int64_t rows = 0;  ///< of the record, without its header
  int64_t jobs = 0;  ///< in the trace

  void skip(const std::string& reason, int line) { add(skipped_, reason, line); }
  void mend(const std::string& what, int line) { add(mended_, what, line); }
  const std::map<std::string, Tally>& skipped() const { return skipped_; }
  const std::map<std::string, Tally>& mended() const { return mended_; }
  int64_t skipped_count() const;

  /// "880 rows, 31 jobs; skipped: 12 no GPUs (line 4 first), …; mended: …", a reason a line.
  std::string text() const;

 private:
  static void add(std::map<std::string, Tally>& tallies, const std::string& reason, int line);

  std::map<std::string, Tally> skipped_, mended_;
};

struct ImportOptions {
  const Catalogue* catalogue = &Catalogue::standard();
  IterationTime iteration_us;  ///< of a job alone; required
  int64_t cluster_gpus = 1024;
  int gpus_per_node = 8;
  uint64_t seed = 1;
};

struct ImportedTrace {
  Trace trace;
  ImportCounts counts;
};

/// Jobs in the order of their submission, the first at 0; those of one moment in the record's
/// order. Sizes are rounded up to whole nodes. Each gets a model by a seeded draw, by weight, among
/// those that list its size; where none does, among those without an all-to-all that can run on so
/// many GPUs. Its iterations are its run time ÷ the ideal iteration, rounded, at least 1. Left out,
/// and counted: jobs without GPUs, smaller than a node (they send nothing over the fabric), larger
/// than the cluster, that ran for no time, or that no model fits.
Trace trace_of(std::vector<PastJob> jobs, const ImportOptions& options, ImportCounts& counts);

/// `2023-03-01 00:18:22`, with T for the blank, without seconds, with a fraction, with `Z` or an
/// offset (`+08:00`, `+0800`): µs since 1970. Without an offset the clock is taken for UTC: only
/// differences matter, and an hour that a summer time inserts or drops stays in them.
std::optional<int64_t> time_us(std::string_view text);

/// `[days-]hours:minutes:seconds[.fraction]` or `minutes:seconds[.fraction]`.
std::optional<int64_t> duration_us(std::string_view text);

/// A decimal number of seconds, −10^12 … 10^12.
std::optional<int64_t> seconds_us(std::string_view text);

}  // namespace monkeytree
