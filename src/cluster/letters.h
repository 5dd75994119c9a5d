#pragma once

#include <absl/status/statusor.h>

#include <map>
#include <string>
#include <string_view>

#include "cluster/snapshot.h"

/// Small clusters drawn by hand, as in tests, talks and bug reports:
///
///     R1 AAAAABB.
///     R2 AAACCCD.
namespace monkeytree {

struct LetterOptions {
  int uplinks = 2;                   ///< of every rack
  std::map<std::string, int> rings;  ///< of the jobs named; 1 for the others
};

/// One rack a line: its name and its places. A letter or digit is a worker of the job of that name;
/// a place without a worker is `.`, or `-`, `!`, `=` where the node is drained, down or reserved.
/// With more jobs than letters, blanks stand between the places, and any word names a job:
/// `r1 A1 A1 B7 .`. Each job is one group, its workers numbered line by line, left to right; each
/// node has one slot and is called by its place, `R1/1` the first of R1. Jobs are numbered by first
/// appearance. Blank lines are skipped. kInvalidArgument names the line that is wrong.
absl::StatusOr<Snapshot> parse_letters(std::string_view rows, const LetterOptions& options = {});

/// The racks as such rows, a cell for each slot. parse_letters() gives the placement back where all
/// jobs have one group with one slot a worker and an id of one letter, and occupied nodes are up.
std::string write_letters(const Snapshot& snapshot);

}  // namespace monkeytree
