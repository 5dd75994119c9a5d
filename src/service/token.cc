#include "service/token.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>

#include "base/sha256.h"

namespace monkeytree {

std::string how_to_make_token(std::string_view file) {
  return fmt::format("(umask 077; head -c 32 /dev/urandom | base64 > {})",
                     file.empty() ? "FILE" : file);
}

absl::StatusOr<std::string> read_token(const std::string& file) {
  const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (descriptor < 0) {
    const int error = errno;
    const std::string message =
        fmt::format("token file {}: cannot open: {}", file, std::generic_category().message(error));
    if (error != ENOENT) return absl::FailedPreconditionError(message);
    return absl::NotFoundError(
        fmt::format("{}; make one with: {}", message, how_to_make_token(file)));
  }
  struct stat info {};
  std::array<char, kMaxToken + 2> buffer{};
  const bool known = ::fstat(descriptor, &info) == 0;
  const ssize_t got = ::read(descriptor, buffer.data(), buffer.size());
  ::close(descriptor);
  const auto refused = [&](std::string_view why) {
    return absl::FailedPreconditionError(fmt::format("token file {}: {}", file, why));
  };
  if (!known || !S_ISREG(info.st_mode)) return refused("is not a regular file");
  if ((info.st_mode & 077) != 0) {
    return refused(
        fmt::format("others may read or write it (mode {:03o}); mend it with: chmod 600 "
                    "{}",
                    info.st_mode & 0777U, file));
  }
  if (info.st_uid != ::geteuid() && info.st_uid != 0 && ::geteuid() != 0) {
    return refused("belongs to somebody else, expected us or root");
  }
  if (got < 0) return refused("cannot be read");
  std::string_view token(buffer.data(), static_cast<size_t>(got));
  token = token.substr(0, token.find_first_of("\r\n"));
  if (token.size() < kMinToken || token.size() > kMaxToken) {
    return refused(fmt::format("a token of {} characters, expected {} to {}", token.size(),
                               kMinToken, kMaxToken));
  }
  if (!std::all_of(token.begin(), token.end(), [](char c) { return c > ' ' && c < 0x7f; })) {
    return refused("a token with blanks or other than ASCII");
  }
  return std::string(token);
}

bool same_token(std::string_view one, std::string_view other) {
  // Digests of equal length, so that neither length nor first difference shows in the time.
  const std::string a = sha256(one);
  const std::string b = sha256(other);
  unsigned difference = 0;
  for (size_t i = 0; i < a.size() && i < b.size(); ++i) {
    difference |= static_cast<unsigned>(a[i] ^ b[i]);
  }
  return difference == 0 && a.size() == b.size() && !a.empty();
}

}  // namespace monkeytree
