#include "inventory/uplinks.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "base/hostlist.h"
#include "base/json.h"
#include "inventory/csv.h"

namespace monkeytree {
namespace {

bool all_digits(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

/// Spines 0 … n−1 by their numbers, parted by blanks; nullopt: it is something else.
std::optional<std::vector<int>> parse_failed(std::string_view text, int n) {
  std::set<int> spines;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(text.size(), word.size() + 1));
    if (word.empty()) continue;
    const std::optional<int> spine = parse_uplink_count(word);
    if (!spine || *spine >= n) return std::nullopt;
    spines.insert(*spine);
  }
  return std::vector<int>(spines.begin(), spines.end());
}

}  // namespace

std::optional<int> parse_uplink_count(std::string_view text) {
  int n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (!all_digits(text) || error != std::errc() || n > kMaxUplinks) return std::nullopt;
  return n;
}

std::string uplinks_fault(std::string_view found, UplinksForm form) {
  return fmt::format("expected a number from 0 to {}{}, found {}", kMaxUplinks,
                     form == UplinksForm::kNumber ? "" : " or a file", quote(found));
}

bool is_uplink_count(std::string_view option) {
  return all_digits(option) || (option[0] == '-' && option.size() > 1);
}

std::optional<Uplinks> parse_uplinks(std::string_view text, std::string_view file,
                                     Diagnostics& diagnostics) {
  const std::optional<CsvTable> table = parse_csv(text, file, diagnostics);
  if (!table) return std::nullopt;
  const std::optional<size_t> rack = table->column("rack");
  const std::optional<size_t> count = table->column("uplinks");
  const std::optional<size_t> failed = table->column("failed");
  if (!rack || !count) {
    diagnostics.error(file, 1, "", "expected the columns `rack` and `uplinks`");
    return std::nullopt;
  }
  const size_t before = diagnostics.error_count();
  Uplinks uplinks{true, kDefaultUplinks, {}, {}, std::string(file)};
  for (const CsvTable::Row& row : table->rows) {
    const std::string& name = row.cells[*rack];
    const std::string& cell = row.cells[*count];
    const std::optional<int> n = parse_uplink_count(cell);
    if (!n) {
      diagnostics.error(file, row.line, "",
                        "uplinks: " + uplinks_fault(cell, UplinksForm::kNumber));
    } else if (!uplinks.by_rack.emplace(name, *n).second) {
      diagnostics.error(file, row.line, "",
                        fmt::format("the rack {} stands there twice", quote(name)));
    } else if (failed) {
      const std::string& spines = row.cells[*failed];
      std::optional<std::vector<int>> numbers = parse_failed(spines, *n);
      if (!numbers) {
        diagnostics.error(file, row.line, "",
                          fmt::format("failed: expected numbers of its {} spines, from 0, parted "
                                      "by blanks, found {}",
                                      *n, quote(spines)));
      } else if (!numbers->empty()) {
        uplinks.failed.emplace(name, *std::move(numbers));
      }
    }
  }
  if (diagnostics.error_count() > before) return std::nullopt;
  return uplinks;
}

void set_uplinks(Rack& rack, int n) {
  rack.uplinks = n;
  rack.spines.resize(static_cast<size_t>(n));
  std::iota(rack.spines.begin(), rack.spines.end(), 0);
  rack.failed.clear();
}

void apply_uplinks(const Uplinks& uplinks, std::string_view file, Snapshot& snapshot,
                   Diagnostics& diagnostics) {
  if (!uplinks.given) {
    diagnostics.warning(file, 0, "",
                        fmt::format("nothing says how many uplinks the racks have; each is taken "
                                    "to have {} (--uplinks N or FILE.csv)",
                                    kDefaultUplinks));
  }
  std::vector<std::string> without_row;
  std::set<std::string_view> racks;
  for (Rack& rack : snapshot.racks) {
    racks.insert(rack.name);
    const auto row = uplinks.by_rack.find(rack.name);
    set_uplinks(rack, row == uplinks.by_rack.end() ? uplinks.everywhere : row->second);
    if (row == uplinks.by_rack.end()) without_row.push_back(rack.name);
    const auto failed = uplinks.failed.find(rack.name);
    if (failed == uplinks.failed.end()) continue;
    rack.failed = failed->second;
    for (const int spine : rack.failed) std::erase(rack.spines, spine);
  }
  if (uplinks.file.empty()) return;
  std::vector<std::string> without_rack;
  for (const auto& [name, n] : uplinks.by_rack) {
    if (!racks.contains(name)) without_rack.push_back(name);
  }
  if (!without_row.empty()) {
    diagnostics.warning(uplinks.file, 0, "",
                        fmt::format("no row for the racks {}, which are taken to have {} uplinks",
                                    printable(compress_hostlist(without_row)), kDefaultUplinks));
  }
  if (!without_rack.empty()) {
    diagnostics.warning(uplinks.file, 0, "",
                        fmt::format("rows for racks that are not there: {}",
                                    printable(compress_hostlist(without_rack))));
  }
}

}  // namespace monkeytree
