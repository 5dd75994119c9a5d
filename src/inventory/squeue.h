#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostics.h"
#include "inventory/json_stream.h"

namespace monkeytree {

/// A job that holds nodes, as `squeue --json` tells (Slurm 21.08 to 25.x).
struct SlurmJob {
  int64_t number = 0;  ///< Slurm's own number, unique
  std::string id;      ///< what people call it: "123", "123_4" of an array, "123+1" of a het job
  std::string name, user, partition, comment, admin_comment, cluster;
  std::string account, qos, reservation;
  std::optional<int64_t> user_id, group_id;
  std::optional<int64_t> limit_min;  ///< nullopt: may run for ever
  std::optional<double> start_s, end_s;
  std::string batch_host;  ///< where its batch script runs; "" where it has none
  bool running = false;    ///< false: suspended, completing or the like, but holding nodes
  bool completing = false;
  std::vector<std::string> nodes;  ///< in Slurm's order
  std::vector<int> gpus;           ///< that it holds on each node
  std::string path;                ///< where it stands: "/jobs/3"
  int line = 0;
};

struct SlurmQueue {
  std::vector<SlurmJob> jobs;  ///< in file order; those that hold no nodes are left out
  std::optional<double> time_s;
  std::vector<std::string> errors;  ///< that Slurm reports: the list of jobs may then be short
};

/// Nodes that all jobs of a file may hold together.
inline constexpr size_t kMaxJobNodes = size_t{1} << 22;

/// nullopt exactly when there was an error, which has been reported as all others of the file.
std::optional<SlurmQueue> read_squeue(const ReadBytes& read, std::string_view file,
                                      Diagnostics& diagnostics);

}  // namespace monkeytree
