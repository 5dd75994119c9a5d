#include "inventory/csv_fabric.h"

#include <absl/container/flat_hash_map.h>
#include <fmt/format.h>

#include <utility>

#include "base/json.h"
#include "inventory/csv.h"

namespace monkeytree {
namespace {

/// The column of that name; an error names those there are.
std::optional<size_t> find_column(const CsvTable& table, std::string_view name,
                                  std::string_view file, Diagnostics& diagnostics) {
  const std::optional<size_t> column = table.column(name);
  if (column) return column;
  std::string names;
  for (size_t i = 0; i < table.columns.size() && i < 20; ++i) {
    names += (i == 0 ? "" : ", ") + quote(table.columns[i]);
  }
  diagnostics.error(file, 1, "",
                    fmt::format("no column {}, expected one of {}", quote(name), names));
  return std::nullopt;
}

}  // namespace

std::optional<Snapshot> read_csv_fabric(std::string_view text, std::string_view file,
                                        const CsvFabricColumns& columns, const Uplinks& uplinks,
                                        Diagnostics& diagnostics) {
  const size_t before = diagnostics.error_count();
  const std::optional<CsvTable> table = parse_csv(text, file, diagnostics);
  if (!table) return std::nullopt;
  std::vector<size_t> used;
  for (const std::string& name : columns.rack) {
    if (const auto column = find_column(*table, name, file, diagnostics)) used.push_back(*column);
  }
  const std::optional<size_t> host = find_column(*table, columns.host, file, diagnostics);
  if (diagnostics.error_count() > before) return std::nullopt;

  Snapshot snapshot;
  snapshot.classes.push_back("default");
  snapshot.islands.push_back("");
  absl::flat_hash_map<std::string, RackId> racks;
  absl::flat_hash_map<std::string, int> lines;
  for (const CsvTable::Row& row : table->rows) {
    const auto fault = [&](std::string message) {
      diagnostics.error(file, row.line, "", std::move(message));
    };
    std::string rack_name;
    bool empty = row.cells[*host].empty();
    for (size_t column : used) {
      empty = empty || row.cells[column].empty();
      rack_name += (column == used[0] ? "" : "/") + row.cells[column];
    }
    if (empty) {
      fault("an empty cell where a host or a rack is named");
      continue;
    }
    const auto [line, is_new_host] = lines.emplace(row.cells[*host], row.line);
    if (!is_new_host) {
      fault(fmt::format("the host {} already stands at line {}", quote(row.cells[*host]),
                        line->second));
      continue;
    }
    const auto [rack, is_new] = racks.emplace(rack_name, RackId(snapshot.racks.size()));
    if (is_new) {
      snapshot.racks.push_back({});
      snapshot.racks.back().name = rack_name;
    }
    Node node;
    node.name = row.cells[*host];
    node.rack = rack->second;
    snapshot.racks[rack->second].nodes.push_back(snapshot.nodes.push_back(std::move(node)));
  }
  if (diagnostics.error_count() > before) return std::nullopt;
  apply_uplinks(uplinks, file, snapshot, diagnostics);
  return snapshot;
}

}  // namespace monkeytree
