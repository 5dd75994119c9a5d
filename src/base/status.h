#pragma once

#include <absl/status/status.h>
#include <fmt/format.h>

#include <string>
#include <string_view>

namespace monkeytree {

/// A status' message as what fmt can print.
inline std::string_view message_of(const absl::Status& status) {
  return {status.message().data(), status.message().size()};
}

/// "OK", or code and message: "UNAVAILABLE: no answer from slurmctld".
inline std::string text_of(const absl::Status& status) {
  if (status.ok()) return "OK";
  return fmt::format("{}: {}", absl::StatusCodeToString(status.code()), message_of(status));
}

/// The same failure, with what it happened to before its message.
inline absl::Status with_context(const absl::Status& status, std::string_view what) {
  if (status.ok()) return status;
  return {status.code(), fmt::format("{}: {}", what, message_of(status))};
}

}  // namespace monkeytree
