#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/snapshot.h"
#include "control/gain.h"
#include "control/journal.h"
#include "planning/plan.h"

namespace monkeytree {

/// A time of the week, in the machine's own time zone: "Mon-Fri 20:00-06:00", "Sun 00:00-24:00".
/// A window that ends before it begins reaches into the next day.
struct Window {
  bool days[7] = {};  ///< on which it begins; Sunday first
  int from_min = 0, to_min = 24 * 60;
};
/// nullopt where the text is none.
std::optional<Window> parse_window(std::string_view text);

/// What an operator allows. docs/operating.md says what each is for.
struct PolicyRules {
  std::string opt_out = "monkeytree=off";  ///< a word of the job's comment
  std::vector<std::string> only_partitions, never_partitions;
  std::vector<std::string> only_users, never_users;
  int moves_per_job = 8;        ///< in 24 hours
  int moves_per_hour = 60;      ///< of the whole cluster
  double cool_down_s = 900;     ///< after a job's last move
  double min_age_s = 300;       ///< a younger job is left alone
  double min_left_s = 900;      ///< as is one nearer its end
  double loop_s = 3600;         ///< a worker does not go back to a rack it left so recently
  double pay_back = 2;          ///< GPU hours regained ≥ this × GPU hours paused
  std::vector<Window> windows;  ///< moves begin only in these; none: always
  GainRules gain;
};

/// A time in one of the windows, or there are none.
bool in_window(const std::vector<Window>& windows, double wall_s);

/// Ids of jobs of the snapshot that must not move now, with the reason. `unmovable`: those whose
/// books could not follow; `unhooked`: those of which no agent knows some worker. Jobs that the
/// snapshot itself calls immovable are left out.
std::map<std::string, std::string> held_back(const Snapshot& snapshot, const PolicyRules& rules,
                                             const std::map<std::string, std::string>& unmovable,
                                             const std::map<std::string, std::string>& unhooked,
                                             const std::vector<Journal::PastMove>& past,
                                             double now_s);

/// Why the plan must not be carried out now: a line for each reason, none where it may.
std::vector<std::string> objections(const Snapshot& snapshot, const Plan& plan, const Gain& gain,
                                    const PolicyRules& rules,
                                    const std::vector<Journal::PastMove>& past, double now_s);

}  // namespace monkeytree
