#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/diagnostics.h"
#include "cluster/snapshot.h"
#include "workload/history.h"
#include "workload/sacct.h"

namespace monkeytree {

/// A job as a cluster recorded it, on the nodes of a fabric. Times are µs of any one clock.
struct RecordedJob {
  std::string id;
  int64_t start_us = 0, end_us = 0;  ///< start < end
  int64_t gpus = 0;
  int rings = 1;              ///< parallel rings of each group
  int stages = 1;             ///< groups: equal parts of `nodes`, in order
  bool movable = true;        ///< false with `monkeytree=off` in the comment
  bool whole = true;          ///< it holds all GPUs of its nodes
  std::vector<NodeId> nodes;  ///< in logical order, each once
};

struct RecordedHistory {
  std::vector<RecordedJob> jobs;  ///< by start; those of one moment in the log's order
  ImportCounts counts;            ///< what was left out or mended, and why
  std::vector<std::string>
      unknown_nodes;          ///< that jobs held and the fabric lacks, in the log's order
  int64_t gpus_per_node = 0;  ///< the most that a job held on a node; 8 where none are told
  bool comments = false;      ///< some comment told a job's parallelism
};

/// The jobs of a log on the nodes of `fabric`, which has no jobs. `counts` are the reader's.
///
/// A comment's dp=, tp=, pp=, rings= and monkeytree=off are obeyed as for a running job, but that
/// stages which share a node make one group. A job that still runs ends at the last moment that the
/// log tells of. Left out and counted: jobs without GPUs or with more than 1,024 on a node, without
/// a node list, that ran for no time or for more than ten years, that started more than ten years
/// from the median start, on no node of the fabric, or on islands that nothing connects. Errors: no
/// column of node lists, no job left over.
std::optional<RecordedHistory> recorded_history(const SacctLog& log, const Snapshot& fabric,
                                                ImportCounts counts, std::string_view file,
                                                Diagnostics& diagnostics);

}  // namespace monkeytree
