#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace monkeytree {

/// Containers inside containers that our formats accept; none of them needs more than ten.
inline constexpr size_t kMaxJsonDepth = 100;

/// The first place where a text stops being JSON, or being what we can read.
struct JsonSyntaxError {
  size_t offset = 0;      ///< in bytes
  std::string message;    ///< what was found there, and what was expected
  std::string path = {};  ///< JSON path of the value there; only find_unfit_number() gives it
};

/// Where and why `text` is not JSON (RFC 8259, nested at most kMaxJsonDepth deep); nullopt when it
/// is. Slower than the parser, which says that something is wrong but not where. No recursion;
/// O(bytes).
std::optional<JsonSyntaxError> find_json_syntax_error(std::string_view text);

/// The first number of a text that is JSON which neither 64 bits as a whole number nor a double
/// takes, which RFC 8259 allows and the parser refuses. O(bytes).
std::optional<JsonSyntaxError> find_unfit_number(std::string_view text);

/// Whether a text that may be JSON holds more than `most` values, by its commas, colons and
/// brackets outside strings: before it is parsed, as a value of one byte takes the parser and its
/// readers a hundred. Stops as soon as it is known; O(bytes), no memory.
bool has_more_values(std::string_view text, size_t most);

/// One step of a JSON path (RFC 6901), safe on a terminal.
std::string pointer_step(std::string_view key);

/// Length of the longest prefix that is well-formed UTF-8. O(bytes).
size_t valid_utf8_prefix(std::string_view text);

}  // namespace monkeytree
