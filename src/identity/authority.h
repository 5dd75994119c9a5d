#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "identity/certificate.h"

/// Making certificates: ECDSA on P-256, signed with SHA-256.
namespace monkeytree {

/// A certificate and its private key, both PEM.
struct Credential {
  std::string certificate, key;
};

/// In force from an hour before `now_s` (clocks differ) until so many days after it.
struct Lifetime {
  int64_t now_s = 0;
  int days = 0;
};

/// A CA with a key of its own, named after the key.
absl::StatusOr<Credential> make_authority(const Lifetime& lifetime);

/// The CA's certificate anew, with the same name and key: what it has signed stays good.
/// FailedPrecondition as for issue(), but an expired CA is renewed.
absl::StatusOr<std::string> renew_authority(const Credential& authority, const Lifetime& lifetime);

/// A new key, and its certificate for all of `hosts` (of a node: its name) in that role, in force
/// no longer than the CA. FailedPrecondition: `authority` is no CA, has expired, or its key is not
/// its certificate's. InvalidArgument: no host, or one that is none (why_no_host()).
absl::StatusOr<Credential> issue(const Credential& authority, CertificateRole role,
                                 const std::vector<std::string>& hosts, const Lifetime& lifetime);

}  // namespace monkeytree
