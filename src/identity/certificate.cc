#include "identity/certificate.h"

#include <arpa/inet.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <openssl/err.h>

#include <algorithm>
#include <array>
#include <ctime>

#include "base/json.h"
#include "base/status.h"
#include "identity/openssl.h"

namespace monkeytree {
namespace {

using StorePointer = std::unique_ptr<X509_STORE, FreeBy<X509_STORE_free>>;
using ContextPointer = std::unique_ptr<X509_STORE_CTX, FreeBy<X509_STORE_CTX_free>>;

int64_t seconds_of(const ASN1_TIME* time) {
  std::tm parts{};
  return ASN1_TIME_to_tm(time, &parts) == 1 ? static_cast<int64_t>(timegm(&parts)) : 0;
}

std::string address_text(const ASN1_OCTET_STRING* octets) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const int size = ASN1_STRING_length(octets);
  if (size != 4 && size != 16) return "";
  inet_ntop(size == 4 ? AF_INET : AF_INET6, ASN1_STRING_get0_data(octets), text.data(),
            text.size());
  return text.data();
}

std::vector<std::string> hosts_of(const X509* certificate) {
  std::vector<std::string> hosts;
  const std::unique_ptr<GENERAL_NAMES, FreeBy<GENERAL_NAMES_free>> names(
      static_cast<GENERAL_NAMES*>(
          X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
  for (int i = 0; names && i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type == GEN_DNS) {
      const auto* text = reinterpret_cast<const char*>(ASN1_STRING_get0_data(name->d.dNSName));
      hosts.emplace_back(text, static_cast<size_t>(ASN1_STRING_length(name->d.dNSName)));
    } else if (name->type == GEN_IPADD) {
      hosts.push_back(address_text(name->d.iPAddress));
    }
  }
  return hosts;
}

Certificate contents_of(X509* certificate) {
  Certificate out;
  out.name = common_name(X509_get_subject_name(certificate));
  out.issuer = common_name(X509_get_issuer_name(certificate));
  out.hosts = hosts_of(certificate);
  out.from_s = seconds_of(X509_get0_notBefore(certificate));
  out.until_s = seconds_of(X509_get0_notAfter(certificate));
  out.authority = X509_check_ca(certificate) == 1;
  // A usage that is not said would be any usage: for us it is none.
  const uint32_t usage = X509_get_extended_key_usage(certificate);
  const bool said = usage != UINT32_MAX;
  out.server = said && (usage & (XKU_SSL_SERVER | XKU_ANYEKU)) != 0;
  out.client = said && (usage & (XKU_SSL_CLIENT | XKU_ANYEKU)) != 0;
  return out;
}

absl::Status denied(const Certificate& certificate, std::string_view what) {
  return absl::PermissionDeniedError(
      fmt::format("the certificate of {} {}", describe(certificate), what));
}

absl::Status verify_role(const Certificate& certificate, CertificateRole role) {
  switch (role) {
    case CertificateRole::kAuthority:
      if (certificate.authority) return absl::OkStatus();
      return denied(certificate, "is no CA's");
    case CertificateRole::kController:
      if (certificate.server) return absl::OkStatus();
      return denied(certificate, certificate.client ? "is a node's, expected a controller's"
                                                    : "is not for TLS servers, expected a "
                                                      "controller's");
    case CertificateRole::kNode:
      if (certificate.client && !certificate.server) return absl::OkStatus();
      return denied(certificate, certificate.server ? "is a controller's, expected a node's"
                                                    : "is not for TLS clients, expected a node's");
  }
  return absl::InternalError("a role of no kind");
}

std::string names_of(const std::vector<X509Pointer>& certificates) {
  std::vector<std::string> names;
  names.reserve(certificates.size());
  for (const X509Pointer& one : certificates) {
    names.push_back(quote(common_name(X509_get_subject_name(one.get()))));
  }
  return fmt::format("{}", fmt::join(names, " or "));
}

/// What a failed verification is called, for people.
absl::Status verdict(X509_STORE_CTX* context, const Certificate& leaf, CertificateRole role,
                     const std::vector<X509Pointer>& authorities) {
  const int error = X509_STORE_CTX_get_error(context);
  X509* at = X509_STORE_CTX_get_current_cert(context);
  const Certificate about = at != nullptr ? contents_of(at) : leaf;
  switch (error) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return denied(about, fmt::format("has expired on {}", utc(about.until_s)));
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return denied(
          about, fmt::format("is in force only from {}: is the clock right?", utc(about.from_s)));
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
      return denied(leaf, fmt::format("is signed by {}, expected {}", quote(leaf.issuer),
                                      names_of(authorities)));
    case X509_V_ERR_INVALID_PURPOSE:
      if (absl::Status status = verify_role(leaf, role); !status.ok()) return status;
      [[fallthrough]];
    default:
      return denied(leaf, fmt::format("is not sound: {}", X509_verify_cert_error_string(error)));
  }
}

}  // namespace

absl::StatusOr<Certificate> read_certificate(std::string_view pem) {
  const std::vector<X509Pointer> all = certificates_in(pem);
  if (all.empty()) {
    return absl::InvalidArgumentError("no certificate, expected one in PEM");
  }
  return contents_of(all.front().get());
}

std::string describe(const Certificate& certificate) {
  const std::string name = printable(certificate.name);
  if (certificate.authority) return fmt::format("CA {}", quote(certificate.name));
  const std::string host = certificate.hosts.empty() ? name : printable(certificate.hosts.front());
  if (certificate.server) return "controller " + host;
  return certificate.client ? "node " + host : host;
}

std::string utc(int64_t unix_s) {
  const auto seconds = static_cast<std::time_t>(unix_s);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  return fmt::format("{:%Y-%m-%d %H:%M} UTC", parts);
}

absl::Status verify_certificate(std::string_view pem, std::string_view authorities,
                                CertificateRole role, int64_t now_s) {
  const std::vector<X509Pointer> chain = certificates_in(pem);
  if (chain.empty()) return absl::PermissionDeniedError("no certificate");
  const std::vector<X509Pointer> roots = certificates_in(authorities);
  if (roots.empty()) return absl::InvalidArgumentError("no CA certificate, expected one in PEM");
  const StorePointer store(X509_STORE_new());
  for (const X509Pointer& root : roots) X509_STORE_add_cert(store.get(), root.get());
  const std::unique_ptr<STACK_OF(X509), FreeBy<[](STACK_OF(X509) * all) { sk_X509_free(all); }>>
      others(sk_X509_new_null());
  for (size_t i = 1; i < chain.size(); ++i) sk_X509_push(others.get(), chain[i].get());
  const ContextPointer context(X509_STORE_CTX_new());
  if (X509_STORE_CTX_init(context.get(), store.get(), chain.front().get(), others.get()) != 1) {
    return absl::InternalError("certificates cannot be verified: OpenSSL does not start");
  }
  X509_STORE_CTX_set_time(context.get(), 0, static_cast<time_t>(now_s));
  if (role != CertificateRole::kAuthority) {
    X509_STORE_CTX_set_purpose(context.get(), role == CertificateRole::kController
                                                  ? X509_PURPOSE_SSL_SERVER
                                                  : X509_PURPOSE_SSL_CLIENT);
  }
  const Certificate leaf = contents_of(chain.front().get());
  const bool sound = X509_verify_cert(context.get()) == 1;
  ERR_clear_error();
  if (!sound) return verdict(context.get(), leaf, role, roots);
  return verify_role(leaf, role);
}

absl::Status verify_host(std::string_view pem, std::string_view host) {
  const std::vector<X509Pointer> chain = certificates_in(pem);
  if (chain.empty()) return absl::PermissionDeniedError("no certificate");
  const std::string name(host);
  X509* leaf = chain.front().get();
  const bool matches = X509_check_ip_asc(leaf, name.c_str(), 0) == 1 ||
                       X509_check_host(leaf, name.data(), name.size(),
                                       X509_CHECK_FLAG_NEVER_CHECK_SUBJECT, nullptr) == 1;
  if (matches) return absl::OkStatus();
  const Certificate contents = contents_of(leaf);
  return denied(contents,
                fmt::format("is not for {}, only for {}", printable(host),
                            printable(fmt::format("{}", fmt::join(contents.hosts, ", ")))));
}

bool is_key_of(std::string_view key_pem, std::string_view certificate_pem) {
  const KeyPointer key = key_in(key_pem);
  const std::vector<X509Pointer> chain = certificates_in(certificate_pem);
  const bool matches =
      key && !chain.empty() && X509_check_private_key(chain.front().get(), key.get()) == 1;
  ERR_clear_error();
  return matches;
}

std::string why_no_host(std::string_view text) {
  constexpr const char* kExpected =
      "expected a name such as head.example.org, or a numeric address";
  const std::string name(text);
  std::array<unsigned char, sizeof(in6_addr)> address{};
  if (inet_pton(AF_INET, name.c_str(), address.data()) == 1 ||
      inet_pton(AF_INET6, name.c_str(), address.data()) == 1) {
    return "";
  }
  const bool sound = std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '-' || c == '_';
  });
  // What consists of numbers only would be taken for an address by some, and is none.
  const bool number = text.find_first_not_of("0123456789.") == std::string_view::npos;
  if (text.empty() || text.size() > 253 || !sound || number || text.front() == '.' ||
      text.front() == '-' || text.back() == '.' || text.find("..") != std::string_view::npos) {
    return kExpected;
  }
  return "";
}

}  // namespace monkeytree
