#pragma once

#include <string>
#include <vector>

#include "cluster/analysis.h"
#include "cluster/snapshot.h"

/// A rack as a row of cells, a letter for each job, as in `AAAAABB.`: what analyze draws, and what
/// letters.h reads and writes.
namespace monkeytree {

/// A slot of a node, or a whole node where slots are too many to draw.
struct Cell {
  JobId job;  ///< whose worker holds it; not valid where it is free
  GroupId group;
  int worker = 0;
  NodeId node;
  bool mixed = false;  ///< a whole node that is held in part, or by several jobs
};

/// What is drawn in one cell.
enum class CellOf { kSlot, kNode };

/// Draws racks. Takes O(nodes + workers) once, then O(slots) or O(nodes) a rack.
class Picture {
 public:
  explicit Picture(const Snapshot& snapshot);

  /// The cells of a rack in node order; workers of a node in the order of their groups, then free
  /// slots.
  std::vector<Cell> cells(RackId rack, CellOf what) const;
  /// Slots of a rack, or nodes.
  size_t cell_count(RackId rack, CellOf what) const;

 private:
  struct Holder {
    GroupId group;
    int worker;
  };
  std::vector<Holder> holders_of(NodeId node) const;

  const Snapshot& snapshot_;
  IdVector<NodeId, int> first_;  ///< in holders_; the end of a node is the start of the next
  std::vector<Holder> holders_;  ///< by node
};

inline constexpr char kNoLetter = '+';  ///< a job for which no letter was left

/// A letter or digit for each of `jobs`, in their order: its own where its id is one, otherwise the
/// next free of A-Z, a-z, 0-9, kNoLetter when all are taken and for jobs not asked for.
IdVector<JobId, char> letters_for(const Snapshot& snapshot, const std::vector<JobId>& jobs);

/// Letters for the jobs in these racks, fragmented ones before the others, as they are met: of a
/// node the first job. The dashboard gives the same (web/src/dashboard/looks.ts).
IdVector<JobId, char> letters_of(const Snapshot& snapshot, const Analysis& analysis,
                                 const std::vector<RackId>& racks);

/// A free cell by the state of its node: "." up, "-" drain, "!" down, "=" reserved.
char free_cell(NodeState state);

}  // namespace monkeytree
