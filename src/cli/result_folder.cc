#include "cli/result_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/file.h"
#include "base/json.h"

namespace monkeytree {
namespace {

constexpr size_t kBuffer = size_t{1} << 18;

absl::Status failure(const std::string& name, std::string_view what, int reason) {
  return absl::UnavailableError(
      fmt::format("{}: {}: {}", printable(name), what, std::strerror(reason)));
}

}  // namespace

absl::StatusOr<ResultFolder> ResultFolder::open(const std::string& path, const std::string& log) {
  std::error_code fault;
  std::filesystem::create_directories(path, fault);
  if (!std::filesystem::is_directory(path)) {
    return absl::UnavailableError(
        fmt::format("{}: cannot make this folder: {}", printable(path),
                    fault ? fault.message() : std::string("something else has its name")));
  }
  ResultFolder folder(path, log, -1);
  const std::string part = folder.part();
  folder.descriptor_ = ::open(part.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  if (folder.descriptor_ < 0) return failure(part, "cannot write", errno);
  if (::flock(folder.descriptor_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    return absl::FailedPreconditionError(part + ": another run is writing into this folder");
  }
  if (::ftruncate(folder.descriptor_, 0) != 0 && errno != EINVAL) {
    return failure(part, "cannot write", errno);
  }
  return folder;
}

ResultFolder::ResultFolder(ResultFolder&& other) noexcept
    : path_(std::move(other.path_)),
      log_(std::move(other.log_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      buffer_(std::move(other.buffer_)),
      written_(other.written_),
      status_(std::move(other.status_)) {}

ResultFolder::~ResultFolder() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void ResultFolder::append(std::string_view line) {
  if (!status_.ok()) return;
  buffer_ += line;
  if (buffer_.size() >= kBuffer) flush();
}

void ResultFolder::flush() {
  std::string_view left = buffer_;
  while (!left.empty()) {
    const ssize_t got = ::write(descriptor_, left.data(), left.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      status_ = failure(part(), "cannot write", errno);
      break;
    }
    left.remove_prefix(static_cast<size_t>(got));
  }
  size_t kept = buffer_.size() - left.size();
  if (!left.empty()) {  // down to the end of a line
    const size_t line = std::string_view(buffer_).substr(0, kept).rfind('\n');
    kept = line == std::string_view::npos ? 0 : line + 1;
  }
  written_ += static_cast<int64_t>(kept);
  if (!left.empty() && ::ftruncate(descriptor_, written_) != 0 && status_.ok()) {
    status_ = failure(part(), "cannot cut", errno);
  }
  buffer_.clear();
}

absl::Status ResultFolder::close_log() {
  if (status_.ok()) flush();
  const int descriptor = std::exchange(descriptor_, -1);
  if (descriptor >= 0 && ::close(descriptor) != 0 && status_.ok()) {
    status_ = failure(part(), "cannot write", errno);
  }
  if (std::rename(part().c_str(), name_of(log_).c_str()) != 0 && status_.ok()) {
    status_ = failure(name_of(log_), "cannot be renamed to", errno);
  }
  return status_;
}

absl::Status ResultFolder::write(const std::string& name, std::string_view text) const {
  absl::Status status = write_file(name_of(name), text);
  if (status.ok()) return status;
  return absl::UnavailableError(
      fmt::format("{}: {}", printable(name_of(name)), std::string(status.message())));
}

}  // namespace monkeytree
