#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace monkeytree {

/// A line that a stand-in worker (tests/worker) writes after each iteration.
struct WorkerLogLine {
  int64_t iteration = 0;
  int64_t process = 0;  ///< that took the step
  std::string node;
  std::string sum;  ///< of the state after it
};

/// The lines that are complete; none where there is no such file yet.
std::vector<WorkerLogLine> read_worker_log(const std::string& file);

}  // namespace monkeytree
