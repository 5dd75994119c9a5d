#include "identity/tls_files.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <ctime>

#include "base/file.h"
#include "base/json.h"
#include "base/status.h"

namespace monkeytree {
namespace {

constexpr uint64_t kMaxPem = uint64_t{1} << 20;
constexpr int64_t kDay_s = 86400;
/// Others: nothing. The group may read: a key of root's that the controller's user may use.
constexpr mode_t kForbidden = 0037;

absl::Status refused(std::string_view file, std::string_view why) {
  return absl::FailedPreconditionError(fmt::format("{}: {}", printable(file), why));
}

absl::StatusOr<std::string> read_pem(const std::string& file) {
  absl::StatusOr<std::string> text = read_file(file, kMaxPem);
  if (!text.ok()) return refused(file, message_of(text.status()));
  return text;
}

}  // namespace

absl::StatusOr<std::string> read_authorities(const std::string& file) {
  absl::StatusOr<std::string> text = read_pem(file);
  if (!text.ok()) return text;
  const absl::StatusOr<Certificate> first = read_certificate(*text);
  if (!first.ok()) return refused(file, message_of(first.status()));
  if (!first->authority) {
    return refused(file,
                   fmt::format("is the certificate of {}, expected a CA's", describe(*first)));
  }
  return text;
}

absl::StatusOr<std::string> read_key(const std::string& file) {
  absl::StatusOr<std::string> text = read_pem(file);
  if (!text.ok()) return text;
  struct stat info {};
  if (stat(file.c_str(), &info) != 0 || (info.st_mode & kForbidden) != 0) {
    return refused(file, fmt::format("others may read or write it (mode {:03o}); mend it with: "
                                     "chmod 600 {}",
                                     info.st_mode & 0777U, printable(file)));
  }
  return text;
}

absl::StatusOr<TlsIdentity> read_identity(const TlsFiles& files, CertificateRole role,
                                          int64_t now_s) {
  absl::StatusOr<std::string> ca = read_authorities(files.ca);
  if (!ca.ok()) return ca.status();
  absl::StatusOr<std::string> certificate = read_pem(files.certificate);
  if (!certificate.ok()) return certificate.status();
  absl::StatusOr<std::string> key = read_key(files.key);
  if (!key.ok()) return key.status();
  absl::StatusOr<Certificate> contents = read_certificate(*certificate);
  if (!contents.ok()) return refused(files.certificate, message_of(contents.status()));
  if (!is_key_of(*key, *certificate)) {
    return refused(files.key, fmt::format("is not the key of {}", printable(files.certificate)));
  }
  if (const absl::Status sound = verify_certificate(*certificate, *ca, role, now_s); !sound.ok()) {
    return refused(files.certificate, message_of(sound));
  }
  return TlsIdentity{
      *std::move(ca), {*std::move(certificate), *std::move(key)}, *std::move(contents)};
}

int64_t unix_now_s() { return static_cast<int64_t>(std::time(nullptr)); }

std::string expiry_warning(const Certificate& certificate, int64_t now_s) {
  if (certificate.until_s - now_s > kDaysToWarn * kDay_s) return "";
  return fmt::format("the certificate of {} {} on {}: monkeytree certs renew makes a new one",
                     describe(certificate), certificate.until_s > now_s ? "expires" : "has expired",
                     utc(certificate.until_s));
}

}  // namespace monkeytree
