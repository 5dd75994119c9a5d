#include "identity/openssl.h"

#include <openssl/err.h>
#include <openssl/pem.h>

namespace monkeytree {
namespace {

constexpr size_t kMostInChain = 16;  // certificates read of one text

BioPointer bio_of(std::string_view text) {
  return BioPointer(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

}  // namespace

std::vector<X509Pointer> certificates_in(std::string_view pem) {
  std::vector<X509Pointer> out;
  const BioPointer bio = bio_of(pem);
  while (bio && out.size() < kMostInChain) {
    X509Pointer one(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
    if (!one) {
      // The end of the text is an error too; any other spoils all of it.
      const bool end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
      ERR_clear_error();
      if (!end) out.clear();
      break;
    }
    out.push_back(std::move(one));
  }
  return out;
}

std::string pem_of(X509* certificate) {
  const BioPointer bio(BIO_new(BIO_s_mem()));
  return bio && PEM_write_bio_X509(bio.get(), certificate) == 1 ? text_of(bio.get()) : "";
}

std::string pem_of(EVP_PKEY* key) {
  const BioPointer bio(BIO_new(BIO_s_mem()));
  const bool written = bio && PEM_write_bio_PKCS8PrivateKey(bio.get(), key, nullptr, nullptr, 0,
                                                            nullptr, nullptr) == 1;
  return written ? text_of(bio.get()) : "";
}

KeyPointer key_in(std::string_view pem) {
  const BioPointer bio = bio_of(pem);
  const auto no_password = [](char*, int, int, void*) { return 0; };
  KeyPointer key(bio ? PEM_read_bio_PrivateKey(bio.get(), nullptr, no_password, nullptr) : nullptr);
  ERR_clear_error();
  return key;
}

std::string text_of(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  return {data, static_cast<size_t>(size)};
}

std::string common_name(const X509_NAME* name) {
  const int at = X509_NAME_get_index_by_NID(name, NID_commonName, -1);
  if (at < 0) return "";
  unsigned char* text = nullptr;
  const int size =
      ASN1_STRING_to_UTF8(&text, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(name, at)));
  if (size < 0) return "";
  std::string out(reinterpret_cast<const char*>(text), static_cast<size_t>(size));
  OPENSSL_free(text);
  return out;
}

bool use_certificate(SSL_CTX* context, std::string_view certificate, std::string_view key) {
  const std::vector<X509Pointer> chain = certificates_in(certificate);
  const KeyPointer private_key = key_in(key);
  bool good = !chain.empty() && private_key &&
              SSL_CTX_use_certificate(context, chain.front().get()) == 1 &&
              SSL_CTX_use_PrivateKey(context, private_key.get()) == 1;
  for (size_t i = 1; good && i < chain.size(); ++i) {
    good = SSL_CTX_add1_chain_cert(context, chain[i].get()) == 1;
  }
  ERR_clear_error();
  return good;
}

std::string peer_certificates(const SSL* ssl) {
  std::string all;
  const X509Pointer leaf(SSL_get1_peer_certificate(ssl));
  if (leaf) all += pem_of(leaf.get());
  const STACK_OF(X509)* chain = SSL_get_peer_cert_chain(ssl);
  for (int i = 0; chain != nullptr && i < sk_X509_num(chain); ++i) {
    X509* one = sk_X509_value(chain, i);
    // Of the side that was called the chain begins without the leaf, of the other one with it.
    if (!leaf || X509_cmp(one, leaf.get()) != 0) all += pem_of(one);
  }
  return all;
}

}  // namespace monkeytree
