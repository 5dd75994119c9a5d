// `monkeytree certs` as its users meet it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "identity/authority.h"
#include "identity/tls_files.h"
#include "program.h"

namespace monkeytree {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

class CertsTest : public testing::Test {
 protected:
  ProgramRun certs(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), "certs");
    arguments.insert(arguments.end(), {"--folder", folder_.path() + "/tls"});
    return run_program(arguments);
  }
  std::string done(const std::vector<std::string>& arguments) const {
    const ProgramRun run = certs(arguments);
    EXPECT_EQ(run.exit_code, 0) << run.err;
    EXPECT_EQ(run.err, "");
    return run.out;
  }
  std::string refused(const std::vector<std::string>& arguments) const {
    const ProgramRun run = certs(arguments);
    EXPECT_EQ(run.exit_code, 2);
    EXPECT_EQ(run.out, "");
    return run.err;
  }
  std::string file(const std::string& name) const { return folder_.path() + "/tls/" + name; }
  std::string text(const std::string& name) const { return folder_.read("tls/" + name); }
  mode_t mode(const std::string& name) const {
    struct stat info {};
    return stat(file(name).c_str(), &info) == 0 ? info.st_mode & 0777 : 0;
  }
  /// A CA and a node's certificate that were made so many days ago.
  void make_old(const std::string& node, int days_ago, int ca_days) const {
    const int64_t then_s = unix_now_s() - int64_t{86400} * days_ago;
    const Credential ca = make_authority({then_s, ca_days}).value();
    const Credential credential = issue(ca, CertificateRole::kNode, {node}, {then_s, 365}).value();
    std::filesystem::create_directories(file("nodes"));
    put("ca", ca);
    put("nodes/" + node, credential);
  }
  void put(const std::string& name, const Credential& credential) const {
    folder_.write("tls/" + name + ".crt", credential.certificate);
    chmod(folder_.write("tls/" + name + ".key", credential.key).c_str(), 0600);
  }

  TemporaryFolder folder_;
};

TEST_F(CertsTest, FromNothingToACertificateForAll) {
  EXPECT_THAT(done({"ca"}),
              AllOf(HasSubstr("made CA \"monkeytree CA "), HasSubstr("ca.key  stays")));
  EXPECT_THAT(done({"controller", "head", "10.0.0.1"}),
              HasSubstr("controller.crt for head, 10.0.0.1, localhost, 127.0.0.1, ::1, in force"));
  EXPECT_THAT(done({"node", "n[1-3]", "login"}),
              AllOf(HasSubstr("made 4 certificates in "), HasSubstr(": login,n[1-3]\n")));
  for (const char* key : {"ca.key", "controller.key", "nodes/n1.key"}) EXPECT_EQ(mode(key), 0600U);
  EXPECT_EQ(mode("nodes/n1.crt"), 0644U);
  // What was made is what controller and agents accept.
  const int64_t now_s = unix_now_s();
  const auto node = read_identity({file("ca.crt"), file("nodes/n2.crt"), file("nodes/n2.key")},
                                  CertificateRole::kNode, now_s);
  ASSERT_TRUE(node.ok()) << node.status();
  EXPECT_THAT(node->certificate.hosts, testing::ElementsAre("n2"));
  const auto controller =
      read_identity({file("ca.crt"), file("controller.crt"), file("controller.key")},
                    CertificateRole::kController, now_s);
  ASSERT_TRUE(controller.ok()) << controller.status();
  EXPECT_TRUE(verify_host(controller->own.certificate, "head").ok());
  const std::string shown = done({"show"});
  EXPECT_THAT(shown, AllOf(HasSubstr("nodes/n3.crt"), ContainsRegex(" 36[45]\n"),
                           Not(HasSubstr("expire"))));
  std::istringstream lines(shown);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80U) << line;
}

TEST_F(CertsTest, WhatIsThereIsKept) {
  done({"ca"});
  done({"controller", "head"});
  done({"node", "n1"});
  const std::string ca = text("ca.crt"), controller = text("controller.crt"),
                    node = text("nodes/n1.crt");
  EXPECT_THAT(refused({"ca"}), HasSubstr("ca.crt: is there already; monkeytree certs renew --ca "));
  EXPECT_THAT(refused({"controller", "other"}), HasSubstr("certs renew --controller makes a new"));
  EXPECT_THAT(done({"node", "n[1-2]"}),
              AllOf(HasSubstr("made 1 certificate "), HasSubstr("kept 1 that is there already")));
  EXPECT_EQ(text("ca.crt"), ca);
  EXPECT_EQ(text("controller.crt"), controller);
  EXPECT_EQ(text("nodes/n1.crt"), node);
}

TEST_F(CertsTest, RenewsWhatWasNamedOrHasLittleLeft) {
  make_old("n1", 350, 3650);
  done({"node", "n2"});
  EXPECT_THAT(done({"show"}), ContainsRegex("n1\\.crt .* 1[45]\n"));
  const std::string ca = text("ca.crt"), n1 = text("nodes/n1.key"), n2 = text("nodes/n2.crt");
  EXPECT_EQ(done({"renew", "--within", "10"}), "nothing has less than 10 days left\n");
  EXPECT_THAT(done({"renew"}), AllOf(HasSubstr("renewed "), HasSubstr("nodes/n1.crt, in force"),
                                     Not(HasSubstr("n2")), Not(HasSubstr("ca.crt"))));
  EXPECT_NE(text("nodes/n1.key"), n1);
  EXPECT_EQ(text("nodes/n2.crt"), n2);
  EXPECT_THAT(done({"renew", "n2", "--ca"}), HasSubstr("ca.crt, in force"));
  EXPECT_NE(text("nodes/n2.crt"), n2);
  EXPECT_NE(text("ca.crt"), ca);
  for (const char* node : {"nodes/n1", "nodes/n2"}) {
    for (const std::string& authority : {ca, text("ca.crt")}) {
      EXPECT_TRUE(verify_certificate(text(std::string(node) + ".crt"), authority,
                                     CertificateRole::kNode, unix_now_s())
                      .ok());
    }
  }
  // Nothing is left beside them.
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(file("nodes")), {}), 4);
}

TEST_F(CertsTest, AKeyStaysReadableForWhoCouldReadIt) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root";
  done({"ca"});
  done({"node", "n1"});
  ASSERT_EQ(chown(file("nodes/n1.key").c_str(), 12345, 12346), 0);
  chmod(file("nodes/n1.key").c_str(), 0640);
  done({"renew", "n1"});
  struct stat info {};
  ASSERT_EQ(stat(file("nodes/n1.key").c_str(), &info), 0);
  EXPECT_EQ(info.st_uid, 12345U);
  EXPECT_EQ(info.st_gid, 12346U);
  EXPECT_EQ(info.st_mode & 0777, 0640U);
}

TEST_F(CertsTest, EachFaultIsSaid) {
  EXPECT_THAT(refused({"node", "n1"}), HasSubstr("ca.crt: there is no CA; monkeytree certs ca "));
  EXPECT_THAT(refused({"show"}), HasSubstr("there is no certificate here"));
  done({"ca"});
  EXPECT_THAT(refused({"node", "n[1-"}), HasSubstr("NODES: '[' is not closed"));
  EXPECT_THAT(refused({"node", "n1,a/b"}), HasSubstr("NODES: \"a/b\" holds more than"));
  EXPECT_THAT(refused({"node", "1234"}), HasSubstr("expected a name such as"));
  EXPECT_THAT(refused({"controller", "*.example.org"}),
              HasSubstr("controller.crt: \"*.example.org\": expected a name such as"));
  EXPECT_THAT(refused({"renew", "n9"}), HasSubstr("nodes/n9.crt: cannot open: No such file"));
  chmod(file("ca.key").c_str(), 0644);
  EXPECT_THAT(refused({"node", "n1"}), HasSubstr("ca.key: others may read or write it (mode 644)"));
  put("ca", {text("ca.crt"), make_authority({unix_now_s(), 9})->key});
  EXPECT_THAT(refused({"node", "n1"}), HasSubstr("the CA's key is not that of its certificate"));
  EXPECT_THAT(done({"show"}), HasSubstr("its key is another's"));
  EXPECT_FALSE(std::filesystem::exists(file("nodes/n1.crt")));
}

TEST_F(CertsTest, AnExpiredAuthoritySignsNothing) {
  make_old("n1", 400, 390);
  EXPECT_THAT(refused({"node", "n2"}), HasSubstr("ca.crt: the CA has expired on "));
  EXPECT_THAT(done({"show"}), HasSubstr("has expired"));
  done({"renew"});  // the CA first, then what it signs
  EXPECT_THAT(done({"show"}), AllOf(Not(HasSubstr("expired")), Not(HasSubstr("not signed"))));
}

TEST_F(CertsTest, EachHelpPageTeachesByExample) {
  for (const std::string verb : {"", "ca", "controller", "node", "show", "renew"}) {
    std::vector<std::string> arguments = {"certs", verb, "--help"};
    std::erase(arguments, "");
    const ProgramRun run = run_program(arguments);
    EXPECT_EQ(run.exit_code, 0);
    EXPECT_THAT(run.out, HasSubstr("Examples:\n  monkeytree certs "));
    std::istringstream lines(run.out);
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80U) << line;
  }
}

}  // namespace
}  // namespace monkeytree
