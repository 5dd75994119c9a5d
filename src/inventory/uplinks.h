#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostics.h"
#include "cluster/snapshot.h"

namespace monkeytree {

/// How many uplinks a rack is taken to have where nobody says.
inline constexpr int kDefaultUplinks = 2;

/// Slurm does not know uplinks: the user does.
struct Uplinks {
  bool given = false;  ///< false: the default everywhere, worth a warning
  int everywhere = kDefaultUplinks;
  std::map<std::string, int> by_rack;
  std::map<std::string, std::vector<int>> failed;  ///< spines whose uplink does not work, ascending
  std::string file;  ///< of by_rack; "" where one number serves all racks
};

/// A number of uplinks, 0 … kMaxUplinks, in digits and nothing else.
std::optional<int> parse_uplink_count(std::string_view text);

/// The one sentence of every refusal: "expected a number from 0 to 65536, found "two"".
enum class UplinksForm { kNumber, kNumberOrFile };
std::string uplinks_fault(std::string_view found, UplinksForm form);

/// True where `--uplinks` of an import is meant as a number, whether or not it is a good one;
/// otherwise it names a file.
bool is_uplink_count(std::string_view option);

/// A table with the columns `rack` and `uplinks`, and perhaps `failed`: numbers of spines, parted
/// by blanks. nullopt exactly when there was an error.
std::optional<Uplinks> parse_uplinks(std::string_view text, std::string_view file,
                                     Diagnostics& diagnostics);

/// Gives each rack its uplinks, spines 0 … n−1, less those that failed. Warns of racks without a
/// row, which get the default, of rows without a rack, and of uplinks that were never given; `file`
/// names the fabric.
void apply_uplinks(const Uplinks& uplinks, std::string_view file, Snapshot& snapshot,
                   Diagnostics& diagnostics);

/// One rack's uplinks: spines 0 … n−1, none failed.
void set_uplinks(Rack& rack, int n);

}  // namespace monkeytree
