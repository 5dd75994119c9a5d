#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostics.h"
#include "workload/history.h"

namespace monkeytree {

/// A job as Slurm's accounting tells it. Times are µs of the cluster's local clock (see time_us()).
struct SacctJob {
  std::string id;  ///< "4711", "4711_3" of an array, "4711+1" of a heterogeneous job
  std::string name, user, partition, comment;
  std::string state;  ///< its first word: "COMPLETED", "CANCELLED", "RUNNING"
  int64_t submit_us = 0, start_us = 0;
  std::optional<int64_t> end_us;  ///< none while it runs
  int64_t run_us = 0;             ///< so far, for one that runs; 0 where not even that is told
  int64_t gpus = -1;              ///< -1 where the columns do not tell
  bool bad_node_list = false;     ///< a node list that is none
  int64_t node_count = 0;         ///< 0 where unknown
  std::vector<int32_t> nodes;  ///< into SacctLog::node_names, in the order of its list, once each
  int line = 0;
};

struct SacctLog {
  std::vector<SacctJob> jobs;           ///< in the log's order
  std::vector<std::string> node_names;  ///< in the order of their first mention
  bool has_node_lists = false;          ///< there is a column NodeList
};

/// Reads `sacct --parsable2` (or `--parsable`) with its header; columns by name, others unused:
/// JobID; Start; End or Elapsed or ElapsedRaw; and where they are there Submit, State, AllocTRES
/// (else ReqTRES), AllocNodes or NNodes, NodeList, JobName, User, Partition, Comment. Times are ISO
/// or, with SLURM_TIME_FORMAT=%s, seconds. Errors: no such header, the columns it lacks named, or
/// node lists of more than 2^27 nodes in all. Left out and counted: steps of jobs, jobs that have
/// not started, rows that make no sense, and those of a job and start that stand there already: of
/// two logs put together, the row that tells the end counts. With `--duplicates` each run of a
/// requeued job is a job.
std::optional<SacctLog> read_sacct(std::string_view text, std::string_view file,
                                   ImportCounts& counts, Diagnostics& diagnostics);

/// The jobs of a log as a trace. A job that still runs counts with its time so far; one whose GPUs
/// are not told with all GPUs of its nodes.
ImportedTrace trace_of_sacct(const SacctLog& log, ImportCounts counts,
                             const ImportOptions& options);

/// Both.
std::optional<ImportedTrace> import_sacct(std::string_view text, std::string_view file,
                                          const ImportOptions& options, Diagnostics& diagnostics);

/// GPUs in Slurm's list of resources: `cpu=64,gres/gpu=8,gres/gpu:h100=8,node=1`. The sum of the
/// types where no total is given; 0 where there are none; nullopt where a count is no whole number
/// from 0 to 10^8.
std::optional<int64_t> gpus_in_tres(std::string_view tres);

}  // namespace monkeytree
