#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace monkeytree {

/// What a job's comment says of it: `dp=4,tp=8,pp=2`, `rings=16`, `monkeytree=off`, and, of a
/// companion, `companion-of=4711,group=0,worker=3`. Other words are left alone.
struct CommentFacts {
  std::optional<int> dp, tp, pp, rings;
  bool movable = true;  ///< false with `monkeytree=off`
  std::optional<std::string> companion_of;
  std::optional<int> group, worker;

  bool any_parallelism() const { return dp || tp || pp; }
};

/// Words are parted by commas, semicolons or blanks; keys are compared without regard to case. A
/// key of ours with a value that makes no sense, or given twice with different values, is put into
/// `faults`, one sentence each; the facts of the whole comment then leave parallelism out.
CommentFacts parse_comment(std::string_view comment, std::vector<std::string>& faults);

/// Stands in `monkeytree-ranks` for a worker that is on no node: its state is staged.
inline constexpr std::string_view kStagedWorker = "-";

/// `monkeytree-ranks=<host list>` of an admin comment; nullopt where there is none. The list ends
/// at the first blank or semicolon.
std::optional<std::string> ranks_of_admin_comment(std::string_view comment);

/// A node that a job holds besides those of its workers, for a worker that is about to come.
struct HeldNode {
  int group = 0, worker = 0;
  std::string node;
  friend bool operator==(const HeldNode&, const HeldNode&) = default;
};

/// `monkeytree-held=<group>/<worker>@<node>,…` of an admin comment, without what makes no sense.
std::vector<HeldNode> held_of_admin_comment(std::string_view comment);

/// The admin comment with this order of nodes ("" for a worker that is staged) and these held
/// nodes in place of those it had; an empty list takes the word out. Other words stay.
std::string with_ranks(std::string_view comment, const std::vector<std::string>& order,
                       const std::vector<HeldNode>& held);

/// A group's share of one node.
struct Share {
  size_t node = 0;  ///< position in the job's list of nodes
  int ranks = 0;
};

/// The ranks of one pipeline stage on each node that holds any, in order.
using Stage = std::vector<Share>;

/// Spreads dp·tp·pp ranks over nodes of `ranks_on` ranks each, in order: rank = t + tp·(d + dp·p),
/// so stage p holds the tp·dp ranks from p·tp·dp on. The ranks of all nodes must be dp·tp·pp.
/// O(nodes + stages).
std::vector<Stage> spread_stages(int64_t ranks_per_stage, int64_t stages,
                                 const std::vector<int>& ranks_on);

}  // namespace monkeytree
