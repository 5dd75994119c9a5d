#pragma once

#include <absl/status/statusor.h>

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostics.h"

/// The syntax of Slurm's configuration files, read as slurmctld reads it.
///
/// Of each physical line, a NUL byte and what follows it is lost; a '#' that no backslash escapes
/// ends it; then an odd number of backslashes at its end (blanks may follow) continues it on the
/// next, whose indent is kept. In the joined line a backslash makes the next character literal.
/// A line that begins with `Include` and a blank, with no indent, stands for another file.
namespace monkeytree {

/// Gives the text of a file; tests and fuzzers give a made-up one.
using ReadText = std::function<absl::StatusOr<std::string>(const std::string& name)>;

/// A logical line, where it starts, and what is left of it after comments and escapes.
struct ConfLine {
  std::string file;
  int line = 0;
  std::string text;
};

/// All logical lines of `file` that hold anything, those of included files in their place. Files
/// are named relative to the file that includes them. A file that cannot be read, includes itself,
/// or uses `%c` is an error. O(bytes).
std::vector<ConfLine> read_conf_lines(const std::string& file, const ReadText& read,
                                      Diagnostics& diagnostics);

/// `Key=Value`, `Key+=Value`, `Key="a value"`.
struct ConfPair {
  std::string_view key;
  std::string_view value;
};

/// Takes the pair at the front of `rest`; nullopt, and `rest` untouched, where none stands there.
/// Blanks may surround the '='; a quoted value ends at its second quote, if a blank follows, and
/// any other at the first blank.
std::optional<ConfPair> take_pair(std::string_view& rest);

/// Keys are compared without regard to case.
bool same_key(std::string_view a, std::string_view b);

/// Blank, as C's isspace().
bool is_blank(char c);

}  // namespace monkeytree
