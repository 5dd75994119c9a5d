#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace monkeytree {

/// A study as a Slurm job array.
struct SlurmArray {
  std::string name;                  ///< of the study
  std::string folder;                ///< absolute; the nodes must see it
  std::vector<std::string> command;  ///< what each task runs; `--cell K/TASKS` is added
  size_t tasks = 1;
  std::vector<std::string> options = {};  ///< more for sbatch: "--partition=batch"
};

/// Most tasks of one array: Slurm's MaxArraySize is 1001 unless configured otherwise. With more
/// cells a task runs several.
inline constexpr size_t kMostArrayTasks = 1000;

/// The batch script. Task K runs cells K, K + TASKS, K + 2·TASKS, …; each takes one core.
std::string slurm_script(const SlurmArray& array);

/// Text as one word of a shell.
std::string shell_word(const std::string& text);

}  // namespace monkeytree
