#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace monkeytree {

/// What a certificate is for. A node's can never pass as a controller's, nor the other way round:
/// its extended key usage says so, and every reader insists on it.
enum class CertificateRole : uint8_t { kAuthority, kController, kNode };

/// What is in a certificate, as far as we care.
struct Certificate {
  std::string name;                     ///< common name, for people
  std::vector<std::string> hosts;       ///< names and numeric addresses it stands for
  std::string issuer;                   ///< common name of the CA that signed it
  int64_t from_s = 0, until_s = 0;      /**< in force; unix time */
  bool authority = false;               ///< may sign others
  bool server = false, client = false;  ///< may be a controller's, a node's
};

/// The first certificate of a PEM text. InvalidArgument where there is none.
absl::StatusOr<Certificate> read_certificate(std::string_view pem);

/// "node n17", "controller head", "CA monkeytree CA 1a2b3c4d": for messages.
std::string describe(const Certificate& certificate);

/// "2027-01-05 14:00 UTC".
std::string utc(int64_t unix_s);

/// Whether the certificate (PEM, further ones of its chain behind it) may be believed: signed by
/// one of `authorities`, in force at `now_s`, of that role. PermissionDenied says what is wrong
/// with it; InvalidArgument: `authorities` holds no certificate. The one judge of all peers; proof
/// that the peer has the key is the handshake's.
absl::Status verify_certificate(std::string_view pem, std::string_view authorities,
                                CertificateRole role, int64_t now_s);

/// Whether it stands for that name or numeric address. PermissionDenied names those it stands for.
absl::Status verify_host(std::string_view pem, std::string_view host);

/// Whether the private key is the certificate's.
bool is_key_of(std::string_view key_pem, std::string_view certificate_pem);

/// Empty where `text` is a name or a numeric address that a certificate may stand for; otherwise
/// what was expected.
std::string why_no_host(std::string_view text);

}  // namespace monkeytree
