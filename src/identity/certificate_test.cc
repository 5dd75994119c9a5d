#include "identity/certificate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/pem.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "identity/authority.h"
#include "identity/openssl.h"
#include "identity/tls_files.h"

namespace monkeytree {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using Role = CertificateRole;

constexpr int64_t kNow_s = 1'800'000'000;
constexpr int64_t kDay_s = 86400;
constexpr Lifetime kYear{kNow_s, 365};

Credential authority() { return make_authority({kNow_s, 3650}).value(); }

std::string message(const absl::Status& status) { return std::string(status.message()); }

TEST(Certificate, SaysWhoItIsForAndForHowLong) {
  const Credential ca = authority();
  const Credential node = issue(ca, Role::kNode, {"n17"}, kYear).value();
  const Credential controller =
      issue(ca, Role::kController, {"head", "head.example.org", "10.0.0.1", "fd00::1"}, kYear)
          .value();
  const Certificate of_ca = read_certificate(ca.certificate).value();
  const Certificate of_node = read_certificate(node.certificate).value();
  const Certificate of_controller = read_certificate(controller.certificate).value();
  EXPECT_TRUE(of_ca.authority);
  EXPECT_THAT(of_ca.name, testing::MatchesRegex("monkeytree CA [0-9a-f]{8}"));
  EXPECT_EQ(of_node.issuer, of_ca.name);
  EXPECT_THAT(of_node.hosts, ElementsAre("n17"));
  EXPECT_TRUE(of_node.client && !of_node.server && !of_node.authority);
  EXPECT_EQ(of_node.until_s, kNow_s + 365 * kDay_s);
  EXPECT_LT(of_node.from_s, kNow_s);
  EXPECT_THAT(of_controller.hosts, ElementsAre("head", "head.example.org", "10.0.0.1", "fd00::1"));
  EXPECT_TRUE(of_controller.server && !of_controller.client && !of_controller.authority);
  EXPECT_EQ(describe(of_node), "node n17");
  EXPECT_EQ(describe(of_controller), "controller head");
  EXPECT_EQ(describe(of_ca), "CA \"" + of_ca.name + "\"");
  EXPECT_TRUE(is_key_of(node.key, node.certificate));
  EXPECT_FALSE(is_key_of(node.key, controller.certificate));
  EXPECT_FALSE(is_key_of("", node.certificate));
  for (const std::string text : {"", "-----BEGIN CERTIFICATE-----\nAA==\n", "x"}) {
    EXPECT_FALSE(read_certificate(text).ok());
  }
  // Half a text is none.
  EXPECT_FALSE(read_certificate(ca.certificate.substr(0, ca.certificate.size() / 2)).ok());
}

TEST(Certificate, EachIsBelievedInItsRoleOnly) {
  const Credential ca = authority();
  const std::string node = issue(ca, Role::kNode, {"n17"}, kYear)->certificate;
  const std::string controller = issue(ca, Role::kController, {"head"}, kYear)->certificate;
  const auto verdict = [&](const std::string& pem, Role role, int64_t now_s = kNow_s) {
    return verify_certificate(pem, ca.certificate, role, now_s);
  };
  EXPECT_TRUE(verdict(node, Role::kNode).ok());
  EXPECT_TRUE(verdict(controller, Role::kController).ok())
      << verdict(controller, Role::kController);
  EXPECT_EQ(message(verdict(node, Role::kController)),
            "the certificate of node n17 is a node's, expected a controller's");
  EXPECT_EQ(message(verdict(controller, Role::kNode)),
            "the certificate of controller head is a controller's, expected a node's");
  EXPECT_FALSE(verdict(ca.certificate, Role::kNode).ok());
  EXPECT_FALSE(verdict(ca.certificate, Role::kController).ok());
  EXPECT_EQ(message(verdict("", Role::kNode)), "no certificate");
  EXPECT_EQ(verify_certificate(node, "", Role::kNode, kNow_s).code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(Certificate, NeitherStrangersNorTheDeadAreBelieved) {
  const Credential ca = authority(), other = authority();
  const std::string node = issue(ca, Role::kNode, {"n17"}, kYear)->certificate;
  const auto verdict = [&](const std::string& trusted, int64_t now_s) {
    return message(verify_certificate(node, trusted, Role::kNode, now_s));
  };
  EXPECT_THAT(
      verdict(other.certificate, kNow_s),
      AllOf(HasSubstr("of node n17 is signed by \"monkeytree CA "), HasSubstr(", expected ")));
  EXPECT_EQ(verdict(other.certificate + ca.certificate, kNow_s), "");  // while the CA changes
  EXPECT_EQ(verdict(ca.certificate, kNow_s + 364 * kDay_s), "");
  EXPECT_EQ(verdict(ca.certificate, kNow_s + 365 * kDay_s + 1),
            "the certificate of node n17 has expired on " + utc(kNow_s + 365 * kDay_s));
  EXPECT_THAT(verdict(ca.certificate, kNow_s - kDay_s), HasSubstr("is the clock right?"));
  // Nothing outlives its CA; a CA that is renewed with its key lets all go on.
  const Credential old{make_authority({kNow_s - 100 * kDay_s, 110}).value()};
  const Credential late = issue(old, Role::kNode, {"n1"}, kYear).value();
  EXPECT_EQ(read_certificate(late.certificate)->until_s, kNow_s + 10 * kDay_s);
  const std::string renewed = renew_authority(old, {kNow_s, 3650}).value();
  EXPECT_TRUE(verify_certificate(late.certificate, renewed, Role::kNode, kNow_s).ok());
  EXPECT_EQ(read_certificate(renewed)->name, read_certificate(old.certificate)->name);
  EXPECT_THAT(message(verify_certificate(late.certificate, old.certificate, Role::kNode,
                                         kNow_s + 11 * kDay_s)),
              HasSubstr("has expired on"));
}

/// `key` signs `certificate` in the place of its own CA.
std::string forged(const std::string& certificate, const Credential& signer) {
  const X509Pointer out = std::move(certificates_in(certificate).front());
  const X509Pointer by = std::move(certificates_in(signer.certificate).front());
  X509_set_issuer_name(out.get(), X509_get_subject_name(by.get()));
  X509_sign(out.get(), key_in(signer.key).get(), EVP_sha256());
  const BioPointer bio(BIO_new(BIO_s_mem()));
  PEM_write_bio_X509(bio.get(), out.get());
  return text_of(bio.get()) + signer.certificate;
}

TEST(Certificate, ANodeSignsNobody) {
  const Credential ca = authority();
  const Credential node = issue(ca, Role::kNode, {"n17"}, kYear).value();
  const Credential controller = issue(ca, Role::kController, {"head"}, kYear).value();
  const std::string wanted = issue(authority(), Role::kController, {"head"}, kYear)->certificate;
  for (const Credential& signer : {node, controller}) {
    const absl::Status verdict =
        verify_certificate(forged(wanted, signer), ca.certificate, Role::kController, kNow_s);
    EXPECT_EQ(verdict.code(), absl::StatusCode::kPermissionDenied) << verdict;
  }
  EXPECT_EQ(issue(node, Role::kNode, {"n18"}, kYear).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST(Certificate, IsForItsHostsOnly) {
  const Credential ca = authority();
  const std::string pem =
      issue(ca, Role::kController, {"head", "10.0.0.1", "fd00::1"}, kYear)->certificate;
  for (const char* host : {"head", "HEAD", "10.0.0.1", "fd00::1", "fd00:0::1"}) {
    EXPECT_TRUE(verify_host(pem, host).ok()) << host;
  }
  EXPECT_EQ(message(verify_host(pem, "10.0.0.2")),
            "the certificate of controller head is not for 10.0.0.2, only for head, 10.0.0.1, "
            "fd00::1");
  for (const char* host : {"", "hea", "head2", "*", "a.head", "10.0.0.1.example.org"}) {
    EXPECT_FALSE(verify_host(pem, host).ok()) << host;
  }
}

TEST(Certificate, BadNamesAndBadAuthoritiesAreRefused) {
  const Credential ca = authority(), other = authority();
  for (const char* host : {"", "*", "*.example.org", "a b", "n1,IP:1.2.3.4", "n1\nn2", "-n", ".n",
                           "n.", "a..b", "300.1.1.1", "1234", "::g", "ä"}) {
    EXPECT_EQ(issue(ca, Role::kNode, {host}, kYear).status().code(),
              absl::StatusCode::kInvalidArgument)
        << host;
  }
  EXPECT_FALSE(issue(ca, Role::kNode, {}, kYear).ok());
  EXPECT_EQ(message(issue({ca.certificate, other.key}, Role::kNode, {"n1"}, kYear).status()),
            "the CA's key is not that of its certificate");
  EXPECT_EQ(message(issue({"", ca.key}, Role::kNode, {"n1"}, kYear).status()),
            "the CA has no certificate in PEM");
  EXPECT_THAT(message(issue(ca, Role::kNode, {"n1"}, {kNow_s + 3651 * kDay_s, 365}).status()),
              HasSubstr("the CA has expired on "));
  // A name as long as Slurm's may be.
  const std::string longest(253, 'n');
  EXPECT_THAT(read_certificate(issue(ca, Role::kNode, {longest}, kYear)->certificate)->hosts,
              ElementsAre(longest));
  std::set<std::string> keys;
  for (int i = 0; i < 8; ++i) keys.insert(issue(ca, Role::kNode, {"n1"}, kYear)->key);
  EXPECT_EQ(keys.size(), 8U);
}

class TlsFilesTest : public testing::Test {
 protected:
  TlsFilesTest() {
    folder_ = std::filesystem::temp_directory_path() / "monkeytree-tls-XXXXXX";
    std::string name = folder_.string();
    folder_ = mkdtemp(name.data());
    put("ca.crt", ca_.certificate);
    put("n17.crt", node_.certificate);
    put("n17.key", node_.key, 0600);
  }
  ~TlsFilesTest() override { std::filesystem::remove_all(folder_); }
  std::string at(const std::string& name) const { return (folder_ / name).string(); }
  void put(const std::string& name, const std::string& text, mode_t mode = 0644) const {
    std::ofstream(at(name)) << text;
    chmod(at(name).c_str(), mode);
  }
  std::string fault(Role role = Role::kNode, int64_t now_s = kNow_s) const {
    return message(
        read_identity({at("ca.crt"), at("n17.crt"), at("n17.key")}, role, now_s).status());
  }

  const Credential ca_ = authority();
  const Credential node_ = issue(ca_, Role::kNode, {"n17"}, kYear).value();
  std::filesystem::path folder_;
};

TEST_F(TlsFilesTest, WhatIsWrongIsSaidWithItsFile) {
  EXPECT_EQ(fault(), "");
  EXPECT_THAT(fault(Role::kController), HasSubstr("n17.crt: the certificate of node n17 is a "));
  EXPECT_THAT(fault(Role::kNode, kNow_s + 400 * kDay_s), HasSubstr("has expired on"));
  put("n17.key", node_.key, 0644);
  EXPECT_THAT(fault(), AllOf(HasSubstr("n17.key: others may read or write it (mode 644)"),
                             HasSubstr("chmod 600 ")));
  put("n17.key", node_.key, 0640);
  EXPECT_EQ(fault(), "");
  put("n17.key", issue(ca_, Role::kNode, {"n17"}, kYear)->key, 0600);
  EXPECT_THAT(fault(), HasSubstr("n17.key: is not the key of " + at("n17.crt")));
  put("n17.crt", "hello");
  EXPECT_THAT(fault(), HasSubstr("n17.crt: no certificate, expected one in PEM"));
  put("ca.crt", node_.certificate);
  EXPECT_THAT(fault(), HasSubstr("ca.crt: is the certificate of node n17, expected a CA's"));
  std::filesystem::remove(at("ca.crt"));
  EXPECT_THAT(fault(), HasSubstr("ca.crt: cannot open: No such file"));
}

TEST_F(TlsFilesTest, WhatIsAboutToExpireIsWarnedOf) {
  const Certificate certificate = read_certificate(node_.certificate).value();
  EXPECT_EQ(expiry_warning(certificate, kNow_s), "");
  EXPECT_THAT(expiry_warning(certificate, certificate.until_s - kDay_s),
              HasSubstr("the certificate of node n17 expires on "));
  EXPECT_THAT(expiry_warning(certificate, certificate.until_s + 1), HasSubstr("has expired on "));
}

}  // namespace
}  // namespace monkeytree
