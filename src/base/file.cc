#include "base/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>

namespace monkeytree {
namespace {

constexpr size_t kPiece = size_t{1} << 20;

std::string reason(int error) { return std::generic_category().message(error); }

std::string in_mebibytes(uint64_t bytes) {
  return bytes % (1 << 20) == 0 ? fmt::format("{} MiB", bytes >> 20)
                                : fmt::format("{} bytes", bytes);
}

absl::Status too_large(uint64_t limit) {
  return absl::ResourceExhaustedError(
      fmt::format("too large: expected at most {}", in_mebibytes(limit)));
}

absl::Status write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      if (errno == EPIPE) return absl::CancelledError("the reader has gone away");
      return absl::UnavailableError(fmt::format("cannot write: {}", reason(errno)));
    }
    text.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

/// Writes a descriptor that is closed here, whatever happens.
absl::Status write_and_close(int descriptor, std::string_view text, bool sync) {
  absl::Status status = write_all(descriptor, text);
  if (status.ok() && sync && ::fsync(descriptor) != 0 && errno != EINVAL && errno != EROFS) {
    status = absl::UnavailableError(fmt::format("cannot write: {}", reason(errno)));
  }
  if (::close(descriptor) != 0 && status.ok()) {
    status = absl::UnavailableError(fmt::format("cannot write: {}", reason(errno)));
  }
  return status;
}

/// `before`: the file that is replaced; null where there is none.
absl::Status set_rights(int descriptor, const FileRights& rights, mode_t mode,
                        const struct stat* before) {
  constexpr auto kSame = static_cast<uid_t>(-1);
  if (rights.keep_owner && before != nullptr &&
      ::fchown(descriptor, before->st_uid, before->st_gid) != 0 && errno != EPERM) {
    return absl::UnavailableError(fmt::format("cannot keep its owner: {}", reason(errno)));
  }
  if (rights.group && ::fchown(descriptor, kSame, *rights.group) != 0) {
    return absl::UnavailableError(fmt::format("cannot keep its group: {}", reason(errno)));
  }
  if (::fchmod(descriptor, mode) != 0 && rights.mode) {
    return absl::UnavailableError(fmt::format("cannot set its mode: {}", reason(errno)));
  }
  return absl::OkStatus();
}

absl::Status write_beside_and_rename(const std::string& name, std::string_view text,
                                     const FileRights& rights, mode_t mode,
                                     const struct stat* before) {
  std::string beside = name + ".XXXXXX";
  const int descriptor = ::mkstemp(beside.data());
  if (descriptor < 0) {
    return absl::UnavailableError(fmt::format("cannot create a file beside it: {}", reason(errno)));
  }
  absl::Status status = set_rights(descriptor, rights, mode, before);
  status.Update(write_and_close(descriptor, status.ok() ? text : "", /*sync=*/true));
  if (status.ok() && std::rename(beside.c_str(), name.c_str()) != 0) {
    status = absl::UnavailableError(fmt::format("cannot replace: {}", reason(errno)));
  }
  if (!status.ok()) ::unlink(beside.c_str());
  return status;
}

mode_t mode_of_new_files() {
  const mode_t mask = ::umask(0);
  ::umask(mask);
  return 0666 & ~mask;
}

}  // namespace

absl::StatusOr<InputFile> InputFile::open(const std::string& name, uint64_t limit) {
  const int descriptor = name == "-" ? ::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0)
                                     : ::open(name.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) {
    const int error = errno;
    const std::string message = fmt::format("cannot open: {}", reason(error));
    return error == ENOENT ? absl::NotFoundError(message) : absl::UnavailableError(message);
  }
  InputFile file(descriptor, limit, 0);
  struct stat info {};
  if (::fstat(descriptor, &info) != 0) {
    return absl::UnavailableError(fmt::format("cannot look at it: {}", reason(errno)));
  }
  if (S_ISDIR(info.st_mode)) {
    return absl::InvalidArgumentError("is a directory, expected a file");
  }
  if (S_ISREG(info.st_mode)) {
    file.size_hint_ = static_cast<uint64_t>(info.st_size);
    if (file.size_hint_ > limit) return too_large(limit);
  }
  return file;
}

InputFile::InputFile(InputFile&& other) noexcept { *this = std::move(other); }

InputFile& InputFile::operator=(InputFile&& other) noexcept {
  if (this == &other) return *this;
  close();
  descriptor_ = std::exchange(other.descriptor_, -1);
  limit_ = other.limit_;
  size_hint_ = other.size_hint_;
  consumed_ = other.consumed_;
  return *this;
}

InputFile::~InputFile() { close(); }

void InputFile::close() {
  if (descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = -1;
}

absl::StatusOr<size_t> InputFile::read(char* buffer, size_t bytes) {
  while (true) {
    const ssize_t got = ::read(descriptor_, buffer, bytes);
    if (got < 0) {
      if (errno == EINTR) continue;
      return absl::UnavailableError(fmt::format("cannot read: {}", reason(errno)));
    }
    consumed_ += static_cast<uint64_t>(got);
    if (consumed_ > limit_) return too_large(limit_);
    return static_cast<size_t>(got);
  }
}

absl::StatusOr<std::string> read_file(const std::string& name, uint64_t limit) {
  absl::StatusOr<InputFile> file = InputFile::open(name, limit);
  if (!file.ok()) return file.status();
  std::string text;
  text.reserve(static_cast<size_t>(std::min(file->size_hint(), limit)) + 1);
  while (true) {
    const size_t before = text.size();
    text.resize(before + std::clamp(text.capacity() - before, size_t{4096}, kPiece));
    absl::StatusOr<size_t> got = file->read(text.data() + before, text.size() - before);
    if (!got.ok()) return got.status();
    text.resize(before + *got);
    if (*got == 0) return text;
  }
}

absl::Status write_file(const std::string& name, std::string_view text, const FileRights& rights) {
  if (name == "-") return write_stdout(text);
  struct stat info {};
  if (::stat(name.c_str(), &info) != 0) {
    return write_beside_and_rename(name, text, rights, rights.mode.value_or(mode_of_new_files()),
                                   nullptr);
  }
  if (S_ISDIR(info.st_mode)) {
    return absl::InvalidArgumentError("is a directory, expected a file");
  }
  if (S_ISREG(info.st_mode)) {
    return write_beside_and_rename(name, text, rights, rights.mode.value_or(info.st_mode & 0777),
                                   &info);
  }
  const int descriptor = ::open(name.c_str(), O_WRONLY | O_CLOEXEC);
  if (descriptor < 0) {
    return absl::UnavailableError(fmt::format("cannot open: {}", reason(errno)));
  }
  return write_and_close(descriptor, text, /*sync=*/false);
}

absl::Status write_stdout(std::string_view text) { return write_all(STDOUT_FILENO, text); }

std::string folder_of(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? std::string() : std::string(path.substr(0, slash + 1));
}

}  // namespace monkeytree
