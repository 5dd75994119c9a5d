#include "cli/tls_stream.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <climits>

#include "identity/openssl.h"
#include "identity/tls_files.h"

namespace monkeytree {
struct TlsStream::Parts {
  SslContextPointer context;
  SslPointer ssl;
};

TlsStream::TlsStream(int socket) : parts_(std::make_unique<Parts>()) {
  parts_->context.reset(SSL_CTX_new(TLS_client_method()));
  if (!parts_->context) return;
  SSL_CTX* context = parts_->context.get();
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  SSL_CTX_set_verify(context, SSL_VERIFY_NONE, nullptr);  // judge() does, and says why
  // An answer that is cut short is known by its announced length.
  SSL_CTX_set_options(context, SSL_OP_IGNORE_UNEXPECTED_EOF);
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  parts_->ssl.reset(SSL_new(context));
  if (parts_->ssl) SSL_set_fd(parts_->ssl.get(), socket);
}

TlsStream::~TlsStream() = default;

TlsStream::Progress TlsStream::progress(int result, size_t bytes) {
  if (result > 0) return {State::kDone, bytes};
  switch (SSL_get_error(parts_->ssl.get(), result)) {
    case SSL_ERROR_WANT_READ:
      return {State::kWantsRead};
    case SSL_ERROR_WANT_WRITE:
      return {State::kWantsWrite};
    case SSL_ERROR_ZERO_RETURN:
      return {State::kEnded};
    default:
      break;
  }
  const char* reason = ERR_reason_error_string(ERR_get_error());
  fault_ = reason != nullptr ? reason : "the connection was cut";
  ERR_clear_error();
  return {State::kFailed};
}

TlsStream::Progress TlsStream::shake_hands() {
  if (!parts_->ssl) return {State::kFailed};
  ERR_clear_error();
  return progress(SSL_connect(parts_->ssl.get()), 0);
}

TlsStream::Progress TlsStream::read(char* to, size_t most) {
  ERR_clear_error();
  const int got =
      SSL_read(parts_->ssl.get(), to, static_cast<int>(std::min<size_t>(most, INT_MAX)));
  return progress(got, static_cast<size_t>(std::max(got, 0)));
}

TlsStream::Progress TlsStream::write(std::string_view bytes) {
  ERR_clear_error();
  const int put = SSL_write(parts_->ssl.get(), bytes.data(),
                            static_cast<int>(std::min<size_t>(bytes.size(), INT_MAX)));
  return progress(put, static_cast<size_t>(std::max(put, 0)));
}

absl::Status TlsStream::judge(const std::string& authorities, const std::string& host) const {
  const std::string chain = peer_certificates(parts_->ssl.get());
  absl::Status status =
      verify_certificate(chain, authorities, CertificateRole::kController, unix_now_s());
  return status.ok() ? verify_host(chain, host) : status;
}

}  // namespace monkeytree
