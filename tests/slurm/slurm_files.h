#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace monkeytree {

/// How the books of the cluster under test follow a move; see docs/slurm.md.
enum class SlurmFlavour {
  kCompanion,       ///< select/cons_tres, 8 GPUs a node as GRES
  kMerge,           ///< select/linear, whole nodes, no GRES
  kMergeExclusive,  ///< select/cons_tres, a partition of whole nodes, no GRES
};

/// As the command line of slurm_test_cluster has it.
std::string_view name_of(SlurmFlavour flavour);
std::optional<SlurmFlavour> flavour_of(std::string_view name);

/// A real Slurm cluster on this machine: racks "leaf0", "leaf1", … of nodes "r0n0", "r0n1", …
struct SlurmClusterOptions {
  int racks = 4, nodes = 4;  ///< nodes of each rack
  SlurmFlavour flavour = SlurmFlavour::kCompanion;
  bool database = true;               ///< slurmdbd over MariaDB
  bool rest = false;                  ///< slurmrestd at FOLDER/rest/socket
  std::vector<std::string> settings;  ///< lines for slurm.conf; they replace those of the same key
  std::string address = "127.0.0.1";  ///< where the nodes reach slurmctld
  /// Networks of their own for the nodes, in the order of node_names(); empty: all share ours.
  struct Host {
    std::string address, space;  ///< where slurmctld reaches it; a path for nsenter --net
  };
  std::vector<Host> hosts;
};

/// Ports that the daemons listen on.
struct SlurmPorts {
  int controller = 0, database = 0;
  std::vector<int> nodes;  ///< one each
};

inline constexpr int kGpusPerNode = 8;

/// Names of all nodes, rack by rack.
std::vector<std::string> node_names(const SlurmClusterOptions& options);

/// Writes slurm.conf, topology.conf, gres.conf and slurmdbd.conf into `folder`/etc and makes the
/// folders that they name. False where something could not be written.
bool write_slurm_files(const SlurmClusterOptions& options, const SlurmPorts& ports,
                       const std::string& folder);

}  // namespace monkeytree
