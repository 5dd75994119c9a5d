#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostics.h"
#include "cluster/snapshot.h"
#include "inventory/uplinks.h"

namespace monkeytree {

/// Which columns of a table of hosts say what.
struct CsvFabricColumns {
  std::string host;
  std::vector<std::string> rack;  ///< together they name a rack, joined by '/'
};

/// A table of hosts, one row each, as a cluster without jobs: racks in the order in which they
/// first appear, hosts in file order. Errors: a column that is not there, an empty cell among those
/// used, a host that stands there twice. nullopt exactly when there was an error. O(bytes).
std::optional<Snapshot> read_csv_fabric(std::string_view text, std::string_view file,
                                        const CsvFabricColumns& columns, const Uplinks& uplinks,
                                        Diagnostics& diagnostics);

}  // namespace monkeytree
