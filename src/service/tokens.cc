#include "service/tokens.h"

#include <absl/strings/str_split.h>
#include <fmt/format.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <set>

#include "base/file.h"
#include "base/json.h"
#include "base/sha256.h"
#include "base/status.h"

namespace monkeytree {
namespace {

constexpr std::array<std::string_view, 3> kRoles = {"read", "approve", "operate"};
constexpr size_t kMaxFile = 1 << 20;
constexpr size_t kMaxName = 64;
constexpr size_t kDigestDigits = 64;
constexpr std::string_view kHexadecimal = "0123456789abcdef";

bool is_digest(std::string_view text) {
  return text.size() == kDigestDigits &&
         text.find_first_not_of(kHexadecimal) == std::string_view::npos;
}

/// In time that does not depend on where they differ. Both of the same length.
bool same_digest(std::string_view one, std::string_view other) {
  unsigned difference = 0;
  for (size_t i = 0; i < one.size(); ++i) {
    difference |= static_cast<unsigned char>(one[i]) ^ static_cast<unsigned char>(other[i]);
  }
  return difference == 0;
}

}  // namespace

std::string_view name_of(Role role) { return kRoles[static_cast<size_t>(role)]; }

std::optional<Role> role_named(std::string_view name) {
  const auto* found = std::find(kRoles.begin(), kRoles.end(), name);
  if (found == kRoles.end()) return std::nullopt;
  return static_cast<Role>(found - kRoles.begin());
}

bool is_token_name(std::string_view name) {
  return !name.empty() && name.size() <= kMaxName &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  std::string_view("._@-").find(c) != std::string_view::npos;
         });
}

absl::StatusOr<std::vector<TokenEntry>> parse_tokens(std::string_view text) {
  std::vector<TokenEntry> tokens;
  std::set<std::string> names;
  int number = 0;
  for (const absl::string_view line :
       absl::StrSplit(absl::string_view(text.data(), text.size()), '\n')) {
    ++number;
    const std::vector<std::string> words =
        absl::StrSplit(line, absl::ByAnyChar(" \t\r"), absl::SkipEmpty());
    if (words.empty() || words[0].front() == '#') continue;
    const auto fault = [&](std::string_view what) {
      return absl::InvalidArgumentError(fmt::format("line {}: {}", number, what));
    };
    if (words.size() != 4) return fault("expected NAME ROLE SHA256 DAY");
    if (!is_token_name(words[0])) {
      return fault(fmt::format("{} is no name: expected letters, digits and ._@-, at most {}",
                               quote(words[0]), kMaxName));
    }
    const std::optional<Role> role = role_named(words[1]);
    if (!role) {
      return fault(
          fmt::format("{} is no role: expected read, approve or operate", quote(words[1])));
    }
    if (!is_digest(words[2])) return fault("expected 64 hexadecimal digits in lower case");
    if (!names.insert(words[0]).second) return fault(words[0] + " has a line already");
    if (const auto at = std::find_if(tokens.begin(), tokens.end(),
                                     [&](const TokenEntry& t) { return t.digest == words[2]; });
        at != tokens.end()) {
      return fault(
          fmt::format("{} has the secret of {}, expected one of its own", words[0], at->name));
    }
    tokens.push_back({words[0], *role, words[2], words[3]});
  }
  return tokens;
}

std::string write_tokens(const std::vector<TokenEntry>& tokens) {
  std::string text =
      "# Who may do what by the API: name, role, SHA-256 of the secret, day it was made.\n"
      "# Made by: monkeytree token add. The controller reads it anew for each call.\n";
  for (const TokenEntry& token : tokens) {
    text += fmt::format("{} {} {} {}\n", token.name, name_of(token.role), token.digest, token.made);
  }
  return text;
}

absl::StatusOr<std::vector<TokenEntry>> read_tokens(const std::string& file) {
  const auto refused = [&](std::string_view why) {
    return absl::FailedPreconditionError(fmt::format("{}: {}", file, why));
  };
  struct stat info {};
  if (stat(file.c_str(), &info) != 0 && errno == ENOENT) {
    return absl::NotFoundError(fmt::format(
        "{}: no such file; make one with: monkeytree token add NAME --tokens {}", file, file));
  }
  if (!S_ISREG(info.st_mode)) return refused("is not a regular file");
  if ((info.st_mode & 022) != 0) {
    return refused(fmt::format("others may write it (mode {:03o}); mend it with: chmod 640 {}",
                               info.st_mode & 0777U, file));
  }
  if (info.st_uid != geteuid() && info.st_uid != 0) {
    return refused("belongs to somebody else, expected us or root");
  }
  const absl::StatusOr<std::string> text = read_file(file, kMaxFile);
  if (!text.ok()) return refused(message_of(text.status()));
  absl::StatusOr<std::vector<TokenEntry>> tokens = parse_tokens(*text);
  if (!tokens.ok()) return refused(message_of(tokens.status()));
  return tokens;
}

const TokenEntry* find_token(const std::vector<TokenEntry>& tokens, std::string_view secret) {
  const std::string digest = digest_of(secret);
  const TokenEntry* found = nullptr;
  if (digest.empty()) return nullptr;  // a machine that does not hash
  for (const TokenEntry& token : tokens) {
    if (same_digest(token.digest, digest)) found = &token;
  }
  return found;
}

std::string draw_secret() {
  std::array<unsigned char, 32> bytes{};
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) return "";
  std::string secret = "mt-";
  for (const unsigned char byte : bytes) {
    secret += kHexadecimal[byte >> 4U];
    secret += kHexadecimal[byte & 15U];
  }
  return secret;
}

std::string digest_of(std::string_view secret) { return sha256(secret); }

}  // namespace monkeytree
