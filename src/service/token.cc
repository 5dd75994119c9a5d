#include "service/token.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>

namespace monkeytree {

absl::StatusOr<std::string> read_token(const std::string& file) {
  const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (descriptor < 0) {
    const int error = errno;
    const std::string message =
        fmt::format("token file {}: cannot open: {}", file, std::generic_category().message(error));
    if (error != ENOENT) return absl::FailedPreconditionError(message);
    return absl::NotFoundError(
        fmt::format("{}; make one with: monkeytree token add NAME --out {}", message, file));
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

}  // namespace monkeytree
