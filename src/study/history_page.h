#pragma once

#include <string>

#include "cluster/snapshot.h"
#include "report/page.h"
#include "study/history_jobs.h"
#include "study/history_replay.h"

namespace monkeytree {

/// What the page says of its origin.
struct HistoryPageText {
  std::string log_file, topology_file;
  bool uplinks_given = true;  ///< false: the default was taken
};

/// A replayed history as a page: what was lost, what MonkeyTree would have saved with how many
/// moves, the worst hours as pictures of the racks, and what of the log was not used and why.
/// Plans for those pictures are made here. Deterministic.
Page history_page(const Snapshot& fabric, const RecordedHistory& history,
                  const HistoryReplay& replay, const ReplayOptions& options,
                  const HistoryPageText& text);

/// The same in a few lines, for a terminal.
std::string history_summary(const Snapshot& fabric, const RecordedHistory& history,
                            const HistoryReplay& replay);

}  // namespace monkeytree
