#include "state/staging_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
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

std::vector<StagingFolder::Kept> StagingFolder::recover(std::vector<FoundState>& found) const {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder_, ignored)) {
    names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  std::vector<Kept> kept;
  for (const std::string& name : names) {
    if (!name.ends_with(kSuffix)) continue;
    const std::optional<std::string> key = key_of(name.substr(0, name.size() - kSuffix.size()));
    if (!key) continue;
    const std::string file = folder_ + "/" + name;
    FoundState& state = found.emplace_back();
    state.key = *key;
    absl::StatusOr<Arena> arena =
        Arena::open(Fd(::open(file.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW)));
    if (!arena.ok() || !arena->committed_epoch()) {
      // Its sender was never told that it is here.
      state.status = absl::UnavailableError("it had not become whole");
      unlink(file.c_str());
      continue;
    }
    state.bytes = arena->bytes();
    state.status = arena->verify();
    if (state.status.ok()) {
      kept.push_back({*key, std::make_unique<Arena>(*std::move(arena))});
    } else {
      rename(file.c_str(), (file + std::string(kDamaged)).c_str());
    }
  }
  return kept;
}

}  // namespace monkeytree
