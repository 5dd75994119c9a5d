// Any bytes are a snapshot or are refused, and a snapshot survives being written.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "bytes.h"
#include "cluster/analysis.h"
#include "cluster/letters.h"
#include "cluster/snapshot_json.h"

using monkeytree::Diagnostics;
using monkeytree::require;
using monkeytree::Snapshot;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  Diagnostics diagnostics;
  const std::optional<Snapshot> snapshot = monkeytree::parse_snapshot(text, "fuzz", diagnostics);
  require(snapshot.has_value() == !diagnostics.has_errors());
  if (!snapshot) {
    require(!diagnostics.text().empty());
    return 0;
  }
  Diagnostics again;
  const std::optional<Snapshot> back =
      monkeytree::parse_snapshot(monkeytree::write_snapshot(*snapshot), "again", again);
  require(back.has_value() && *back == *snapshot);
  int64_t slots = 0;
  for (const monkeytree::Node& node : snapshot->nodes) slots += node.slots;
  if (slots < 100000) monkeytree::write_letters(*snapshot);
  monkeytree::analyze(*snapshot);
  return 0;
}
