#pragma once

#include <absl/status/statusor.h>
#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>

#include "identity/tls_files.h"

namespace monkeytree {

/// The certificate and key that an HTTP server shows, from files that are looked at for each
/// client: new ones hold from the next connection on. For one thread.
class HttpCertificate {
 public:
  using Report = std::function<void(const std::string&)>;

  /// FailedPrecondition where the files are no controller's. `report` is told of new files that do
  /// not do; the old ones then stay.
  static absl::StatusOr<std::unique_ptr<HttpCertificate>> load(TlsFiles files, Report report);
  ~HttpCertificate();
  HttpCertificate(const HttpCertificate&) = delete;
  HttpCertificate& operator=(const HttpCertificate&) = delete;

  /// Has the library ask this one for the clients that it serves on the calling thread.
  void serve_this_thread();
  /// For the library: what it shows the next client. 0, or -1 where there is nothing.
  static int show(gnutls_session_t session, const gnutls_datum_t* authorities, int authority_count,
                  const gnutls_pk_algorithm_t* algorithms, int algorithm_count,
                  gnutls_pcert_st** chain, unsigned* chain_length, gnutls_privkey_t* key);

 private:
  struct Generation;
  /// What tells a file from the one that stood there before.
  struct Stamp {
    int64_t inode = 0, seconds = 0, nanoseconds = 0, size = 0;
    friend bool operator==(const Stamp&, const Stamp&) = default;
  };
  struct Stamps {
    Stamp certificate, key;
    friend bool operator==(const Stamps&, const Stamps&) = default;
  };

  HttpCertificate(TlsFiles files, Report report);
  Stamps stamps() const;
  absl::Status load_now();
  void look_again();

  const TlsFiles files_;
  const Report report_;
  Stamps seen_;
  /// All there were: a handshake under way may still use an old one.
  std::list<std::unique_ptr<Generation>> generations_;
};

}  // namespace monkeytree
