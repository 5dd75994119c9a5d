#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// Who may do what by the API: a file of names, roles and digests of secrets, a line each:
///
///     # name role sha256 made
///     ann approve 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08 2026-11-30
///
/// The secrets themselves are nowhere but with those who have them. They are drawn here, 256 bits
/// each, so that a plain digest keeps them: there is nothing to guess.
namespace monkeytree {

/// Each may also do what those before it may.
enum class Role : uint8_t {
  kRead,     ///< look
  kApprove,  ///< approve and cancel plans
  kOperate,  ///< pause and resume
};
std::string_view name_of(Role role);  ///< "read", "approve", "operate"
std::optional<Role> role_named(std::string_view name);

struct TokenEntry {
  std::string name;
  Role role = Role::kRead;
  std::string digest;  ///< SHA-256 of the secret, 64 hexadecimal digits
  std::string made;    ///< a day, "2026-11-30"
  friend bool operator==(const TokenEntry&, const TokenEntry&) = default;
};

/// Letters, digits and "._@-", at most 64 of them.
bool is_token_name(std::string_view name);

/// InvalidArgument with the line's number and what was expected.
absl::StatusOr<std::vector<TokenEntry>> parse_tokens(std::string_view text);
std::string write_tokens(const std::vector<TokenEntry>& tokens);

/// The file's entries. NotFound where there is none; FailedPrecondition where others may write it,
/// where it belongs to neither us nor root, or where it is not well written, with how to mend it.
absl::StatusOr<std::vector<TokenEntry>> read_tokens(const std::string& file);

/// The entry whose secret this is; null where there is none. The time it takes does not depend on
/// which, nor on where digests differ.
const TokenEntry* find_token(const std::vector<TokenEntry>& tokens, std::string_view secret);

/// A new secret; "" where the system gives no random numbers.
std::string draw_secret();
std::string digest_of(std::string_view secret);

}  // namespace monkeytree
