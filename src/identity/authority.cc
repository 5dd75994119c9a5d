#include "identity/authority.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/rand.h>

#include <algorithm>
#include <array>

#include "base/json.h"
#include "base/sha256.h"
#include "identity/openssl.h"

namespace monkeytree {
namespace {

constexpr int64_t kHour_s = 3600, kDay_s = 86400;
constexpr size_t kMostCommonName = 64;  // the standard's limit

absl::Status failed(std::string_view what) {
  std::array<char, 256> why{};
  ERR_error_string_n(ERR_get_error(), why.data(), why.size());
  ERR_clear_error();
  return absl::InternalError(fmt::format("{}: {}", what, why.data()));
}

KeyPointer new_key() { return KeyPointer(EVP_EC_gen("P-256")); }

/// 127 random bits: no two certificates of a CA have the same.
bool set_serial(X509* certificate) {
  std::array<unsigned char, 16> bytes{};
  if (RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) != 1) return false;
  bytes[0] &= 0x7f;
  const std::unique_ptr<BIGNUM, FreeBy<BN_free>> number(
      BN_bin2bn(bytes.data(), static_cast<int>(bytes.size()), nullptr));
  return number && BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(certificate)) != nullptr;
}

bool add_extension(X509* certificate, X509* issuer, int which, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const std::unique_ptr<X509_EXTENSION, FreeBy<X509_EXTENSION_free>> extension(
      X509V3_EXT_conf_nid(nullptr, &context, which, value.c_str()));
  return extension && X509_add_ext(certificate, extension.get(), -1) == 1;
}

bool set_common_name(X509* certificate, const std::string& name) {
  return X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_UTF8,
                                    reinterpret_cast<const unsigned char*>(name.data()),
                                    static_cast<int>(name.size()), -1, 0) == 1;
}

/// All but names, extensions and signature.
X509Pointer blank(EVP_PKEY* key, int64_t from_s, int64_t until_s) {
  X509Pointer out(X509_new());
  const bool made = out && X509_set_version(out.get(), X509_VERSION_3) == 1 &&
                    set_serial(out.get()) && X509_set_pubkey(out.get(), key) == 1 &&
                    ASN1_TIME_set(X509_getm_notBefore(out.get()), from_s) != nullptr &&
                    ASN1_TIME_set(X509_getm_notAfter(out.get()), until_s) != nullptr;
  if (!made) out.reset();
  return out;
}

absl::StatusOr<std::string> sign_authority(EVP_PKEY* key, const std::string& name,
                                           const Lifetime& lifetime) {
  const X509Pointer out =
      blank(key, lifetime.now_s - kHour_s, lifetime.now_s + lifetime.days * kDay_s);
  const bool made =
      out && set_common_name(out.get(), name) &&
      X509_set_issuer_name(out.get(), X509_get_subject_name(out.get())) == 1 &&
      add_extension(out.get(), out.get(), NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
      add_extension(out.get(), out.get(), NID_key_usage, "critical,keyCertSign,cRLSign") &&
      add_extension(out.get(), out.get(), NID_subject_key_identifier, "hash") &&
      X509_sign(out.get(), key, EVP_sha256()) > 0;
  if (!made) return failed("the CA's certificate cannot be made");
  return pem_of(out.get());
}

/// The CA's certificate where it may sign.
absl::StatusOr<X509Pointer> check_authority(const Credential& authority) {
  std::vector<X509Pointer> all = certificates_in(authority.certificate);
  if (all.empty()) return absl::FailedPreconditionError("the CA has no certificate in PEM");
  if (X509_check_ca(all.front().get()) != 1) {
    return absl::FailedPreconditionError("what should be the CA's certificate may not sign others");
  }
  if (!is_key_of(authority.key, authority.certificate)) {
    return absl::FailedPreconditionError("the CA's key is not that of its certificate");
  }
  return std::move(all.front());
}

/// "DNS:head,IP:10.0.0.1".
std::string alternative_names(const std::vector<std::string>& hosts) {
  std::string out;
  for (const std::string& host : hosts) {
    std::array<unsigned char, sizeof(in6_addr)> address{};
    const bool numeric = inet_pton(AF_INET, host.c_str(), address.data()) == 1 ||
                         inet_pton(AF_INET6, host.c_str(), address.data()) == 1;
    out += fmt::format("{}{}:{}", out.empty() ? "" : ",", numeric ? "IP" : "DNS", host);
  }
  return out;
}

}  // namespace

absl::StatusOr<Credential> make_authority(const Lifetime& lifetime) {
  const KeyPointer key = new_key();
  if (!key) return failed("no key can be made");
  Credential out;
  out.key = pem_of(key.get());
  // Two CAs are told apart by name, in messages and by who verifies.
  const BioPointer bio(BIO_new(BIO_s_mem()));
  PEM_write_bio_PUBKEY(bio.get(), key.get());
  const std::string name = "monkeytree CA " + sha256(text_of(bio.get())).substr(0, 8);
  absl::StatusOr<std::string> certificate = sign_authority(key.get(), name, lifetime);
  if (!certificate.ok()) return certificate.status();
  out.certificate = *std::move(certificate);
  return out;
}

absl::StatusOr<std::string> renew_authority(const Credential& authority, const Lifetime& lifetime) {
  const absl::StatusOr<X509Pointer> old = check_authority(authority);
  if (!old.ok()) return old.status();
  return sign_authority(key_in(authority.key).get(), common_name(X509_get_subject_name(old->get())),
                        lifetime);
}

absl::StatusOr<Credential> issue(const Credential& authority, CertificateRole role,
                                 const std::vector<std::string>& hosts, const Lifetime& lifetime) {
  const absl::StatusOr<X509Pointer> signer = check_authority(authority);
  if (!signer.ok()) return signer.status();
  const Certificate ca = read_certificate(authority.certificate).value();
  if (ca.until_s <= lifetime.now_s) {
    return absl::FailedPreconditionError(fmt::format("the CA has expired on {}", utc(ca.until_s)));
  }
  if (hosts.empty()) return absl::InvalidArgumentError("no name that the certificate is for");
  for (const std::string& host : hosts) {
    if (const std::string why = why_no_host(host); !why.empty()) {
      return absl::InvalidArgumentError(fmt::format("{}: {}", quote(host), why));
    }
  }
  const KeyPointer key = new_key();
  const X509Pointer out = key ? blank(key.get(), lifetime.now_s - kHour_s,
                                      std::min(lifetime.now_s + lifetime.days * kDay_s, ca.until_s))
                              : nullptr;
  const char* usage = role == CertificateRole::kController ? "serverAuth" : "clientAuth";
  const bool made =
      out && set_common_name(out.get(), hosts.front().substr(0, kMostCommonName)) &&
      X509_set_issuer_name(out.get(), X509_get_subject_name(signer->get())) == 1 &&
      add_extension(out.get(), signer->get(), NID_basic_constraints, "critical,CA:FALSE") &&
      add_extension(out.get(), signer->get(), NID_key_usage, "critical,digitalSignature") &&
      add_extension(out.get(), signer->get(), NID_ext_key_usage, usage) &&
      add_extension(out.get(), signer->get(), NID_subject_alt_name, alternative_names(hosts)) &&
      add_extension(out.get(), signer->get(), NID_subject_key_identifier, "hash") &&
      add_extension(out.get(), signer->get(), NID_authority_key_identifier, "keyid:always") &&
      X509_sign(out.get(), key_in(authority.key).get(), EVP_sha256()) > 0;
  if (!made) return failed("the certificate cannot be made");
  return Credential{pem_of(out.get()), pem_of(key.get())};
}

}  // namespace monkeytree
