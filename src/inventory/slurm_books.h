#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "inventory/job_layout.h"
#include "inventory/slurm_nodes.h"

/// Whether, and how, the books of a Slurm cluster can follow a worker that moves. docs/slurm.md has
/// the failures behind each refusal.
namespace monkeytree {

enum class SlurmBooks : uint8_t {
  kNone,        ///< not at all: read-only
  kCompanions,  ///< a companion job holds the new node, the job gives back the old one
  kMerge,  ///< a job for the new node is merged into the job, which then gives back the old one
};

std::string_view name_of(SlurmBooks books);  ///< "none", "companions", "merge"

/// What `scontrol show config` and `scontrol --oneliner show partition` say.
struct SlurmConfig {
  std::map<std::string, std::string> values;         ///< of the configuration, "(null)" as ""
  std::map<std::string, std::string> oversubscribe;  ///< by partition: "NO", "EXCLUSIVE", "YES:4"

  /// "" where there is none.
  std::string value(const std::string& key) const;
};

SlurmConfig read_slurm_config(std::string_view config, std::string_view partitions);

/// The records of an output of `scontrol --oneliner`: one a line, words of `Key=Value`; a word
/// without '=' belongs to the value before it.
std::vector<std::map<std::string, std::string>> read_one_liners(std::string_view text);

struct BooksChoice {
  SlurmBooks books = SlurmBooks::kNone;
  std::string why_not;  ///< where none
};

/// `wanted` is "auto", "companions" or "merge".
BooksChoice choose_books(const SlurmConfig& config, std::string_view wanted);

/// Why the books could not follow a move of the job's workers; "" where they can. `gpus` of each
/// node, where known.
std::string why_unmovable(const JobLayout& job, SlurmBooks books, const SlurmConfig& config,
                          const std::map<std::string, int>& gpus);

/// The nodes that the job itself cannot give back: that of its batch script and, with companions,
/// the last that it has.
std::vector<std::string> kept_nodes(const SlurmJob& job, SlurmBooks books);

}  // namespace monkeytree
