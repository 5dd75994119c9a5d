#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/diagnostics.h"
#include "cluster/snapshot.h"
#include "inventory/uplinks.h"

/// From files to a snapshot; the only part of the inventory that touches files. docs/slurm.md.
namespace monkeytree {

/// squeue's output may be this large; all else is bounded by kMaxInputBytes.
inline constexpr uint64_t kMaxSqueueBytes = uint64_t{2} << 30;

/// File names; "-" is standard input, for one of them.
struct SlurmFiles {
  std::string topology;
  std::string jobs;
  std::string nodes;          ///< "" for none
  std::string uplinks;        ///< a number, a file, or "" for none
  std::string topology_name;  ///< of a topology.yaml; "" for its default
};

/// Reads all files, whatever is wrong with one of them, so that all findings come in one run.
/// nullopt exactly when there was an error.
std::optional<Snapshot> import_slurm(const SlurmFiles& files, Diagnostics& diagnostics);

/// The racks and nodes of a topology, without jobs, a slot each; `jobs` and `nodes` are not read.
std::optional<Snapshot> import_slurm_fabric(const SlurmFiles& files, Diagnostics& diagnostics);

/// `--uplinks`: a number, a file, or "" for none. nullopt exactly when there was an error.
std::optional<Uplinks> read_uplinks(const std::string& option, Diagnostics& diagnostics);

struct CsvFiles {
  std::string fabric;
  std::string host;               ///< column
  std::vector<std::string> rack;  ///< columns
  std::string uplinks;
};

std::optional<Snapshot> import_csv(const CsvFiles& files, Diagnostics& diagnostics);

}  // namespace monkeytree
