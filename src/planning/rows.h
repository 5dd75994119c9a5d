#pragma once

#include <string_view>
#include <vector>

#include "cluster/snapshot.h"

namespace monkeytree {

/// A cluster as rows of letters, a row a rack (r1, r2, …), a letter a node with one slot: "AAB." is
/// two workers of job A, one of B and a free node. Workers are numbered along the rows. For tests.
Snapshot snapshot_of_rows(const std::vector<std::string_view>& rows, int bound);

/// The group of the job that a letter names.
GroupId group_of(const Snapshot& snapshot, char letter);

}  // namespace monkeytree
