#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

/// What clients of the API may say. InvalidArgument with what was expected.
namespace monkeytree {

inline constexpr size_t kMaxNote = 200;  ///< bytes of a name or a reason

/// The number of a plan or an event: digits alone, no leading zero, fits 63 bits.
absl::StatusOr<int64_t> parse_number(std::string_view text);

/// The body of a notification: empty, or {"why": TEXT}. Other fields are passed over, a hook of
/// the scheduler may say what it likes.
absl::StatusOr<std::string> parse_notification(std::string_view body);

/// The body of a changing call.
struct Change {
  std::string by;   ///< who asks, as they call themselves; or ""
  std::string why;  ///< or ""
};
/// Empty, or {"by": TEXT, "why": TEXT}; unknown fields are refused.
absl::StatusOr<Change> parse_change(std::string_view body);

/// A Host or Origin header's host without port, in lower case and without brackets; nullopt where
/// it is none. "http://localhost:7460" is localhost as well.
std::optional<std::string> host_in(std::string_view text);

}  // namespace monkeytree
