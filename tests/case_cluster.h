#pragma once

#include <map>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/snapshot.h"

/// The cluster that a text case (tests/cases/README.md) draws and changes, line by line.
namespace monkeytree::cases {

/// What is wrong with a line of a case, without the place.
struct CaseError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

using Words = std::span<const std::string>;

class CaseCluster {
 public:
  /// `folder` is where files are looked for that a case names.
  explicit CaseCluster(std::string folder) : folder_(std::move(folder)) {}

  /// A row of places: rack, then letters or words. Only before the first directive.
  void add_row(Words words);
  bool has_rows() const { return !rows_.empty(); }
  /// Carries out a line that changes the cluster; false where its first word is not such a one.
  bool change(Words words);

  /// Reading it ends the rows.
  const Snapshot& snapshot();
  void replace(Snapshot next) { snapshot_ = std::move(next); }
  /// Ring orders given by `order`, by group.
  const std::map<GroupId, std::vector<int>>& orders() const { return orders_; }
  const std::optional<std::vector<RackId>>& mend() const { return mend_; }

  RackId rack(std::string_view name);
  GroupId group(std::string_view job);

 private:
  void load(Words arguments);
  void set_uplinks(Words arguments);
  void set_spines(Words arguments);
  void set_failed(Words arguments);
  void set_rings(Words arguments);
  void fix(Words arguments);
  void pin(Words arguments);
  void set_state(Words arguments);
  void set_class(Words arguments);
  void set_workers(Words arguments);
  void set_order(Words arguments);
  void set_mend(Words arguments);
  NodeId node(std::string_view place);

  std::string folder_;
  std::string rows_;
  std::optional<Snapshot> snapshot_;
  std::map<GroupId, std::vector<int>> orders_;
  std::optional<std::vector<RackId>> mend_;
};

/// A whole number, or CaseError.
int number(std::string_view word);
std::vector<int> numbers(Words words);

}  // namespace monkeytree::cases
