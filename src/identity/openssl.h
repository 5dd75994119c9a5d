#pragma once

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

/// OpenSSL's things, each freed by its owner.
namespace monkeytree {

template <auto kFree>
struct FreeBy {
  template <class T>
  void operator()(T* thing) const {
    kFree(thing);
  }
};

using X509Pointer = std::unique_ptr<X509, FreeBy<X509_free>>;
using KeyPointer = std::unique_ptr<EVP_PKEY, FreeBy<EVP_PKEY_free>>;
using BioPointer = std::unique_ptr<BIO, FreeBy<BIO_free>>;
using SslPointer = std::unique_ptr<SSL, FreeBy<SSL_free>>;
using SslContextPointer = std::unique_ptr<SSL_CTX, FreeBy<SSL_CTX_free>>;

/// Certificates in PEM, in order; empty where the text holds none, or one that cannot be read.
std::vector<X509Pointer> certificates_in(std::string_view pem);
/// In PEM; empty where it cannot be written.
std::string pem_of(X509* certificate);
std::string pem_of(EVP_PKEY* key);
/// Null where the text holds no private key that can be read. Never asks for a password.
KeyPointer key_in(std::string_view pem);
/// All that was written to a memory BIO.
std::string text_of(BIO* bio);
/// The common name; empty where there is none.
std::string common_name(const X509_NAME* name);

/// What this side shows: its certificate and those it descends from, and its key; all in PEM. False
/// where they cannot be read or do not belong together.
bool use_certificate(SSL_CTX* context, std::string_view certificate, std::string_view key);
/// What the other side has shown, in PEM, its own first; empty where it has shown none.
std::string peer_certificates(const SSL* ssl);

}  // namespace monkeytree
