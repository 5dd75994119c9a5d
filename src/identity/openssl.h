#pragma once

#include <openssl/bio.h>
#include <openssl/evp.h>
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

/// Certificates in PEM, in order; empty where the text holds none, or one that cannot be read.
std::vector<X509Pointer> certificates_in(std::string_view pem);
/// Null where the text holds no private key that can be read. Never asks for a password.
KeyPointer key_in(std::string_view pem);
/// All that was written to a memory BIO.
std::string text_of(BIO* bio);
/// The common name; empty where there is none.
std::string common_name(const X509_NAME* name);

}  // namespace monkeytree
