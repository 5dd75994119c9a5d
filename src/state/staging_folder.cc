#include "state/staging_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "base/json.h"

namespace monkeytree {
namespace {

constexpr std::string_view kSuffix = ".state";
constexpr std::string_view kDamaged = ".damaged";
constexpr size_t kMaxName = 240;

absl::Status system_error(const std::string& what, int error) {
  return absl::Status(absl::ErrnoToStatusCode(error),
                      fmt::format("{}: {}", what, std::strerror(error)));
}

/// All but letters, digits and "-_." as %XX, so that each key is one name and back.
std::string name_of(std::string_view key) {
  std::string out;
  for (const char c : key) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '_' || c == '.';
    out += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

std::optional<std::string> key_of(std::string_view name) {
  std::string out;
  const auto digit = [](char c) {
    constexpr std::string_view kDigits = "0123456789ABCDEF";
    return kDigits.find(c);
  };
  for (size_t i = 0; i < name.size(); ++i) {
    if (name[i] != '%') {
      out += name[i];
      continue;
    }
    if (i + 2 >= name.size()) return std::nullopt;
    const size_t high = digit(name[i + 1]), low = digit(name[i + 2]);
    if (high == std::string_view::npos || low == std::string_view::npos) return std::nullopt;
    out += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return name_of(out) == name ? std::optional(out) : std::nullopt;
}

absl::StatusOr<std::vector<std::string>> names_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    names.push_back(it->path().filename());
  }
  if (error) return system_error(folder, error.value());
  std::sort(names.begin(), names.end());
  return names;
}

/// Whether anything was ever written at its start: the header of an arena is.
absl::StatusOr<bool> has_header(int fd, const std::string& file) {
  std::array<char, 64> start{};
  const ssize_t got = pread(fd, start.data(), start.size(), 0);
  if (got < 0) return system_error(file, errno);
  return std::any_of(start.begin(), start.begin() + got, [](char c) { return c != 0; });
}

absl::Status check_folder(const std::string& folder, int fd, uint64_t quota_bytes) {
  struct stat info {};
  if (fstat(fd, &info) != 0) return system_error(folder, errno);
  if (info.st_uid != geteuid() || (info.st_mode & 0077) != 0) {
    return absl::FailedPreconditionError(fmt::format(
        "{}: expected a folder that is this user's alone (chmod 700); others could change what is "
        "staged",
        folder));
  }
  struct statvfs system {};
  if (fstatvfs(fd, &system) != 0) return system_error(folder, errno);
  const uint64_t room = uint64_t{system.f_blocks} * system.f_frsize;
  if (quota_bytes <= room) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("the staging quota of {} bytes is more than the {} bytes that {} may take: lower "
                  "it, or mount -o remount,size=... its file system",
                  quota_bytes, room, folder));
}

}  // namespace

absl::StatusOr<std::unique_ptr<StagingFolder>> StagingFolder::open(const std::string& folder,
                                                                   uint64_t quota_bytes) {
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return system_error(folder, errno);
  Fd lock(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  if (!lock.valid()) return system_error(folder, errno);
  if (absl::Status status = check_folder(folder, lock.get(), quota_bytes); !status.ok()) {
    return status;
  }
  if (flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    return absl::AlreadyExistsError(fmt::format("{}: another agent stages there", folder));
  }
  return std::unique_ptr<StagingFolder>(new StagingFolder(folder, std::move(lock)));
}

StagingFolder::~StagingFolder() { rmdir(folder_.c_str()); }

absl::StatusOr<std::string> StagingFolder::file_of(std::string_view key) const {
  const std::string name = name_of(key);
  if (name.size() > kMaxName) return absl::InvalidArgumentError("the key is too long");
  return fmt::format("{}/{}{}", folder_, name, kSuffix);
}

void StagingFolder::remove(std::string_view key) const {
  const absl::StatusOr<std::string> file = file_of(key);
  if (file.ok()) unlink(file->c_str());
}

absl::StatusOr<std::vector<StagingFolder::Kept>> StagingFolder::recover(
    std::vector<FoundState>& found) const {
  const absl::StatusOr<std::vector<std::string>> names = names_in(folder_);
  if (!names.ok()) return names.status();
  std::vector<Kept> kept;
  for (const std::string& name : *names) {
    if (!name.ends_with(kSuffix)) continue;
    const std::optional<std::string> key = key_of(name.substr(0, name.size() - kSuffix.size()));
    if (!key) continue;
    const std::string file = folder_ + "/" + name;
    Fd fd(::open(file.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
    if (!fd.valid()) return system_error(file, errno);
    FoundState state{*key, 0, absl::OkStatus()};
    const absl::StatusOr<bool> begun = has_header(fd.get(), file);
    if (!begun.ok()) return begun.status();
    std::optional<Arena> arena;
    if (*begun) {
      absl::StatusOr<Arena> opened = Arena::open(std::move(fd), {.own_file = true});
      if (!opened.ok() && !absl::IsInvalidArgument(opened.status())) return opened.status();
      if (opened.ok()) {
        arena.emplace(*std::move(opened));
      } else {
        state.status = absl::DataLossError(opened.status().message());
      }
    }
    if (!*begun || (arena && !arena->was_committed())) {
      // Its sender was never told that it is here.
      state.status = absl::UnavailableError("it had not become whole");
      unlink(file.c_str());
    } else if (arena) {
      state.bytes = arena->bytes();
      state.status = arena->committed_epoch() ? arena->verify()
                                              : absl::DataLossError("its commit word is damaged");
    }
    if (state.status.ok()) {
      kept.push_back({*key, std::make_unique<Arena>(*std::move(arena))});
    } else if (*begun && !absl::IsUnavailable(state.status)) {
      rename(file.c_str(), (file + std::string(kDamaged)).c_str());
    }
    found.push_back(std::move(state));
  }
  return kept;
}

}  // namespace monkeytree
