#include "service/http_certificate.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <array>
#include <utility>

#include "base/status.h"

namespace monkeytree {
namespace {

constexpr unsigned kMostInChain = 16;

/// The library's callback brings nothing of ours; it serves all clients of a server on one thread.
thread_local HttpCertificate* of_this_thread = nullptr;

gnutls_datum_t datum_of(const std::string& text) {
  return {reinterpret_cast<unsigned char*>(const_cast<char*>(text.data())),
          static_cast<unsigned>(text.size())};
}

}  // namespace

struct HttpCertificate::Generation {
  std::array<gnutls_pcert_st, kMostInChain> chain{};
  unsigned length = 0;
  gnutls_privkey_t key = nullptr;

  Generation() = default;
  Generation(const Generation&) = delete;
  Generation& operator=(const Generation&) = delete;
  ~Generation() {
    for (unsigned i = 0; i < length; ++i) gnutls_pcert_deinit(&chain[i]);
    if (key != nullptr) gnutls_privkey_deinit(key);
  }
};

HttpCertificate::HttpCertificate(TlsFiles files, Report report)
    : files_(std::move(files)), report_(std::move(report)) {}

HttpCertificate::~HttpCertificate() = default;

absl::StatusOr<std::unique_ptr<HttpCertificate>> HttpCertificate::load(TlsFiles files,
                                                                       Report report) {
  std::unique_ptr<HttpCertificate> out(new HttpCertificate(std::move(files), std::move(report)));
  out->seen_ = out->stamps();
  if (absl::Status status = out->load_now(); !status.ok()) return status;
  return out;
}

HttpCertificate::Stamps HttpCertificate::stamps() const {
  const auto stamp_of = [](const std::string& file) {
    struct stat info {};
    if (stat(file.c_str(), &info) != 0) return Stamp{};
    return Stamp{static_cast<int64_t>(info.st_ino), info.st_mtim.tv_sec, info.st_mtim.tv_nsec,
                 info.st_size};
  };
  return {stamp_of(files_.certificate), stamp_of(files_.key)};
}

absl::Status HttpCertificate::load_now() {
  const absl::StatusOr<TlsIdentity> identity =
      read_identity(files_, CertificateRole::kController, unix_now_s());
  if (!identity.ok()) return identity.status();
  auto next = std::make_unique<Generation>();
  unsigned length = kMostInChain;
  const gnutls_datum_t certificate = datum_of(identity->own.certificate);
  const gnutls_datum_t key = datum_of(identity->own.key);
  int fault = gnutls_pcert_list_import_x509_raw(next->chain.data(), &length, &certificate,
                                                GNUTLS_X509_FMT_PEM, 0);
  if (fault >= 0) next->length = length;
  if (fault >= 0) fault = gnutls_privkey_init(&next->key);
  if (fault >= 0) {
    fault = gnutls_privkey_import_x509_raw(next->key, &key, GNUTLS_X509_FMT_PEM, nullptr, 0);
  }
  if (fault < 0) {
    return absl::FailedPreconditionError(
        fmt::format("{}: {}", files_.certificate, gnutls_strerror(fault)));
  }
  generations_.push_back(std::move(next));
  return absl::OkStatus();
}

void HttpCertificate::look_again() {
  const Stamps now = stamps();
  if (now == seen_) return;
  seen_ = now;
  // Between the new key and its certificate the two do not fit: the certificate is yet to come.
  if (const absl::Status status = load_now(); !status.ok() && report_) {
    report_(fmt::format("the certificate stays the old one: {}", message_of(status)));
  }
}

void HttpCertificate::serve_this_thread() { of_this_thread = this; }

int HttpCertificate::show(gnutls_session_t /*session*/, const gnutls_datum_t* /*authorities*/,
                          int /*authority_count*/, const gnutls_pk_algorithm_t* /*algorithms*/,
                          int /*algorithm_count*/, gnutls_pcert_st** chain, unsigned* chain_length,
                          gnutls_privkey_t* key) {
  if (of_this_thread == nullptr) return -1;
  of_this_thread->look_again();
  Generation& now = *of_this_thread->generations_.back();
  *chain = now.chain.data();
  *chain_length = now.length;
  *key = now.key;
  return 0;
}

}  // namespace monkeytree
