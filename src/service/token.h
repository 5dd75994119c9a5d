#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <string>
#include <string_view>

namespace monkeytree {

inline constexpr size_t kMinToken = 16;
inline constexpr size_t kMaxToken = 1024;

/// The secret of a token (tokens.h) in its owner's file: its first line, visible ASCII. The file
/// must be a regular one that only its owner may read or write, and its owner must be us or root,
/// unless we are root. FailedPrecondition says what is wrong and how to mend it; NotFound where
/// there is no file.
absl::StatusOr<std::string> read_token(const std::string& file);

}  // namespace monkeytree
