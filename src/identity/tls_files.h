#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <string>

#include "identity/authority.h"
#include "identity/certificate.h"

namespace monkeytree {

/// Where a process finds who it is and whom it believes, all PEM.
struct TlsFiles {
  std::string ca;           ///< certificates of the CAs that it believes, several while they change
  std::string certificate;  ///< its own
  std::string key;          ///< of its own certificate; only its owner (and group) may read it
  bool configured() const { return !ca.empty(); }
  friend bool operator==(const TlsFiles&, const TlsFiles&) = default;
};

/// What the files hold.
struct TlsIdentity {
  std::string ca;
  Credential own;
  Certificate certificate;  ///< own's, read
};

/// Reads all three, as they are now. FailedPrecondition names the file, and what is wrong: not
/// there, not PEM, a key that others may read or that is not the certificate's, a certificate that
/// the peers would not believe (verify_certificate() in that role).
absl::StatusOr<TlsIdentity> read_identity(const TlsFiles& files, CertificateRole role,
                                          int64_t now_s);

/// The certificates of the CAs that are believed. FailedPrecondition where there are none.
absl::StatusOr<std::string> read_authorities(const std::string& file);

/// The private key of the file. FailedPrecondition where others may read or write it.
absl::StatusOr<std::string> read_key(const std::string& file);

int64_t unix_now_s();

/// A certificate with less than so many days left is worth a warning.
inline constexpr int kDaysToWarn = 14;
/// "the certificate of node n17 expires on ...: renew it with monkeytree certs renew"; empty where
/// it has more than kDaysToWarn left.
std::string expiry_warning(const Certificate& certificate, int64_t now_s);

}  // namespace monkeytree
