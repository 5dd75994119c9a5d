#include "state/tls_session.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <string>

#include "identity/openssl.h"

namespace monkeytree {
namespace {

constexpr size_t kReadAhead = size_t{256} << 10;

int fd_of(BIO* bio) { return *static_cast<const int*>(BIO_get_data(bio)); }

/// Notes whether the socket would have to be waited for, which a blocking one says at its timeout.
int settle(BIO* bio, ssize_t moved) {
  BIO_clear_retry_flags(bio);
  if (moved < 0 && (errno == EINTR || errno == EAGAIN)) BIO_set_flags(bio, BIO_FLAGS_SHOULD_RETRY);
  return static_cast<int>(moved);
}

int bio_write(BIO* bio, const char* data, int size) {
  const auto bytes = static_cast<size_t>(size);
  BIO_set_flags(bio, BIO_FLAGS_WRITE);
  return settle(bio, ::send(fd_of(bio), data, bytes, MSG_NOSIGNAL));
}

int bio_read(BIO* bio, char* data, int size) {
  return settle(bio, ::recv(fd_of(bio), data, static_cast<size_t>(size), 0));
}

long bio_control(BIO* /*bio*/, int command, long /*number*/, void* /*pointer*/) {
  return command == BIO_CTRL_FLUSH ? 1 : 0;
}

/// OpenSSL's own writes with write(), which a closed peer answers with SIGPIPE.
BIO_METHOD* socket_method() {
  static BIO_METHOD* const method = [] {
    BIO_METHOD* made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "socket");
    BIO_meth_set_write(made, bio_write);
    BIO_meth_set_read(made, bio_read);
    BIO_meth_set_ctrl(made, bio_control);
    return made;
  }();
  return method;
}

/// Every certificate passes the handshake, which proves that the peer has its key; the judge comes
/// right after.
int accept_for_now(X509_STORE_CTX* /*context*/, void* /*nothing*/) { return 1; }

absl::StatusOr<SslContextPointer> context_of(const TlsIdentity& identity) {
  SslContextPointer context(SSL_CTX_new(TLS_method()));
  if (!context || SSL_CTX_set_min_proto_version(context.get(), TLS1_3_VERSION) != 1 ||
      !use_certificate(context.get(), identity.own.certificate, identity.own.key)) {
    return absl::FailedPreconditionError("TLS does not start with this certificate");
  }
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
  SSL_CTX_set_cert_verify_callback(context.get(), accept_for_now, nullptr);
  SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(context.get(), 0);
  // All are good enough, the first is the fastest where the processor knows AES.
  SSL_CTX_set_ciphersuites(context.get(),
                           "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:"
                           "TLS_CHACHA20_POLY1305_SHA256");
  SSL_CTX_set_read_ahead(context.get(), 1);
  SSL_CTX_set_default_read_buffer_len(context.get(), kReadAhead);
  return context;
}

class TlsSessionOfSsl : public TlsSession {
 public:
  TlsSessionOfSsl(std::unique_ptr<int> socket, SslContextPointer context, SslPointer ssl,
                  absl::Status peer)
      : socket_(std::move(socket)),
        context_(std::move(context)),
        ssl_(std::move(ssl)),
        peer_(std::move(peer)) {}

  absl::Status peer() const override { return peer_; }

  ssize_t read(std::span<std::byte> bytes) override {
    ERR_clear_error();
    return outcome(SSL_read(ssl_.get(), bytes.data(), length_of(bytes.size())));
  }

  ssize_t write(std::span<const std::byte> bytes) override {
    ERR_clear_error();
    return outcome(SSL_write(ssl_.get(), bytes.data(), length_of(bytes.size())));
  }

 private:
  static int length_of(size_t bytes) { return static_cast<int>(std::min<size_t>(bytes, INT_MAX)); }

  ssize_t outcome(int moved) {
    if (moved > 0) return moved;
    const int before = errno;
    switch (SSL_get_error(ssl_.get(), moved)) {
      case SSL_ERROR_WANT_READ:
      case SSL_ERROR_WANT_WRITE:
        errno = before == EINTR ? EINTR : EAGAIN;
        return -1;
      case SSL_ERROR_ZERO_RETURN:
        return 0;
      case SSL_ERROR_SYSCALL:
        errno = before == 0 ? ECONNRESET : before;
        return -1;
      default:  // a damaged record, or an alert
        errno = EPROTO;
        return -1;
    }
  }

  std::unique_ptr<int> socket_;
  SslContextPointer context_;
  SslPointer ssl_;
  absl::Status peer_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<TlsSession>> TlsSession::start(int fd, const TlsFiles& files,
                                                              Side side) {
  const absl::StatusOr<TlsIdentity> own =
      read_identity(files, CertificateRole::kNode, unix_now_s());
  if (!own.ok()) return own.status();
  absl::StatusOr<SslContextPointer> context = context_of(*own);
  if (!context.ok()) return context.status();
  SslPointer ssl(SSL_new(context->get()));
  BIO* bio = BIO_new(socket_method());
  if (!ssl || bio == nullptr) return absl::ResourceExhaustedError("no memory for TLS");
  auto socket = std::make_unique<int>(fd);  // stays where it is
  BIO_set_data(bio, socket.get());
  BIO_set_init(bio, 1);
  SSL_set_bio(ssl.get(), bio, bio);
  errno = 0;
  ERR_clear_error();
  const int done = side == Side::kCalls ? SSL_connect(ssl.get()) : SSL_accept(ssl.get());
  if (done != 1) {
    const bool plain = ERR_GET_REASON(ERR_peek_error()) == SSL_R_WRONG_VERSION_NUMBER;
    ERR_clear_error();
    if (plain) return absl::UnauthenticatedError("the peer speaks no TLS, which is expected here");
    return absl::UnavailableError("no TLS came about with the peer");
  }
  absl::Status peer = verify_certificate(peer_certificates(ssl.get()), own->ca,
                                         CertificateRole::kNode, unix_now_s());
  return std::make_unique<TlsSessionOfSsl>(std::move(socket), *std::move(context), std::move(ssl),
                                           std::move(peer));
}

}  // namespace monkeytree
