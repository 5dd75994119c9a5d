#pragma once

#include <absl/status/statusor.h>
#include <simdjson.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "base/diagnostics.h"

/// Slurm's `--json` outputs are one object of few fields, of which one is a list of many jobs or
/// nodes. Such a text is read piece by piece, so that memory holds one job at a time and not the
/// gigabyte that surrounds it.
namespace monkeytree {

/// Fills a buffer with up to so many bytes; 0 is the end.
using ReadBytes = std::function<absl::StatusOr<size_t>(char* buffer, size_t bytes)>;

/// Reads from a text in memory.
ReadBytes bytes_of(std::string_view text);

/// Largest job, node or other value below the top level.
inline constexpr size_t kMaxPieceBytes = size_t{256} << 20;

/// A field of the top-level object, or one element where the field is a list.
struct JsonPiece {
  std::string_view key;
  int64_t index = -1;  ///< within the list; -1 where the field is none
  int line = 1;        ///< on which the piece starts
  simdjson::dom::element value;

  std::string path() const;  ///< "/jobs/3"
};

/// Hands each piece to `take`, in file order, and returns the names of all fields, those of empty
/// lists among them. nullopt after an error, which has been reported: not JSON, not UTF-8, cut
/// short, a NUL byte, a field that stands there twice. Pieces before the fault have been handed on.
/// NaN and Infinity, which Slurm's printer lets through, are read as 0 and null. O(bytes) time;
/// memory for the largest piece.
std::optional<std::set<std::string>> read_json_pieces(
    const ReadBytes& read, std::string_view file, Diagnostics& diagnostics,
    const std::function<void(const JsonPiece&)>& take);

/// Length of the JSON value at the front of `text` as its brackets and quotes tell, or npos where
/// it is not complete. `*resume` holds how far an earlier call for the same value got; start with
/// a default one. Several GB/s.
struct ScanState {
  size_t at = 0;
  int64_t depth = 0;
  bool in_string = false;
  bool escaped = false;
};
size_t value_length(std::string_view text, ScanState* resume);

}  // namespace monkeytree
