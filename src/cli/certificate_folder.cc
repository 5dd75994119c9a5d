#include "cli/certificate_folder.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "base/file.h"
#include "base/json.h"
#include "base/status.h"
#include "identity/tls_files.h"

namespace monkeytree {
namespace {

namespace fs = std::filesystem;

constexpr mode_t kKeyMode = 0600, kCertificateMode = 0644;
constexpr int64_t kDay_s = 86400;

/// `text` in the place of the file, with its rights from the first byte on. A key that the group
/// could read stays so.
absl::Status replace(const std::string& file, std::string_view text, mode_t mode) {
  struct stat old {};
  const bool replaces = ::stat(file.c_str(), &old) == 0 && S_ISREG(old.st_mode);
  if (replaces && mode == kKeyMode) mode |= old.st_mode & 0040;
  return with_context(write_file(file, text, {.mode = mode, .keep_owner = true, .group = {}}),
                      printable(file));
}

absl::Status make_folder_of(const std::string& file) {
  std::error_code error;
  fs::create_directories(folder_of(file), error);
  if (!error) return absl::OkStatus();
  return absl::UnavailableError(
      fmt::format("{}: cannot be made: {}", printable(folder_of(file)), error.message()));
}

void add_names(const std::string& folder, const std::string& prefix,
               std::vector<std::string>& names) {
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const fs::path file = at->path();
    if (file.extension() == ".crt") names.push_back(prefix + file.stem().string());
  }
}

}  // namespace

bool CertificateFolder::has(const std::string& name) const {
  std::error_code error;
  return fs::exists(certificate_file(name), error) || fs::exists(key_file(name), error);
}

std::vector<std::string> CertificateFolder::list() const {
  std::vector<std::string> names;
  add_names(path_, "", names);
  add_names(path_ + "/nodes", "nodes/", names);
  std::sort(names.begin(), names.end());
  return names;
}

absl::StatusOr<Certificate> CertificateFolder::certificate(const std::string& name) const {
  const std::string file = certificate_file(name);
  const absl::StatusOr<std::string> pem = read_file(file);
  if (!pem.ok()) return with_context(pem.status(), printable(file));
  absl::StatusOr<Certificate> contents = read_certificate(*pem);
  if (!contents.ok()) return with_context(contents.status(), printable(file));
  return contents;
}

absl::StatusOr<Credential> CertificateFolder::read(const std::string& name) const {
  const std::string file = certificate_file(name);
  absl::StatusOr<std::string> pem = read_file(file);
  if (!pem.ok()) {
    return absl::FailedPreconditionError(
        fmt::format("{}: {}", printable(file), message_of(pem.status())));
  }
  absl::StatusOr<std::string> key = read_key(key_file(name));
  if (!key.ok()) return key.status();
  return Credential{*std::move(pem), *std::move(key)};
}

std::string CertificateFolder::remark(const std::string& name, int64_t now_s) const {
  const absl::StatusOr<std::string> pem = read_file(certificate_file(name));
  const absl::StatusOr<Certificate> contents = read_certificate(pem.ok() ? *pem : "");
  if (!contents.ok()) return "is no certificate";
  const absl::StatusOr<std::string> ca = read_file(certificate_file(authority_name()));
  if (contents->until_s <= now_s) return "has expired";
  if (name != authority_name() && ca.ok()) {
    const CertificateRole role = contents->authority ? CertificateRole::kAuthority
                                 : contents->server  ? CertificateRole::kController
                                                     : CertificateRole::kNode;
    if (!verify_certificate(*pem, *ca, role, contents->until_s - 1).ok()) {
      return "is not signed by ca.crt";
    }
  }
  const absl::StatusOr<std::string> key = read_file(key_file(name));
  if (absl::IsNotFound(key.status())) return contents->authority ? "" : "its key is not here";
  if (!key.ok()) return "its key cannot be read";
  if (!is_key_of(*key, *pem)) return "its key is another's";
  if (!read_key(key_file(name)).ok()) return "others may read its key";
  return contents->until_s - now_s < kDaysToWarn * kDay_s ? "expires soon" : "";
}

absl::Status CertificateFolder::write(const std::string& name, const Credential& credential) const {
  if (absl::Status status = make_folder_of(key_file(name)); !status.ok()) return status;
  if (absl::Status status = replace(key_file(name), credential.key, kKeyMode); !status.ok()) {
    return status;
  }
  return write_certificate(name, credential.certificate);
}

absl::Status CertificateFolder::write_certificate(const std::string& name,
                                                  const std::string& pem) const {
  return replace(certificate_file(name), pem, kCertificateMode);
}

}  // namespace monkeytree
