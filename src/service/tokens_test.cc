#include "service/tokens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

namespace monkeytree {
namespace {

using ::testing::HasSubstr;

const std::string kDigest(64, 'a');

TEST(Tokens, ThereAndBack) {
  const std::vector<TokenEntry> tokens = {{"ann", Role::kOperate, digest_of("x"), "2026-11-30"},
                                          {"bob.b@x-1", Role::kRead, kDigest, "2026-12-01"}};
  const auto read = parse_tokens(write_tokens(tokens));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, tokens);
  EXPECT_TRUE(parse_tokens("")->empty());
  EXPECT_TRUE(parse_tokens("# nobody\n\n \t\r\n")->empty());
}

TEST(Tokens, FaultsSayTheLineAndWhatWasExpected) {
  const auto fault = [](const std::string& text) {
    return std::string(parse_tokens(text).status().message());
  };
  EXPECT_EQ(fault("# x\nann read\n"), "line 2: expected NAME ROLE SHA256 DAY");
  EXPECT_THAT(fault("a/b read " + kDigest + " d"), HasSubstr("line 1: \"a/b\" is no name"));
  EXPECT_THAT(fault("ann admin " + kDigest + " d"), HasSubstr("expected read, approve or operate"));
  EXPECT_THAT(fault("ann read " + std::string(64, 'A') + " d"), HasSubstr("64 hexadecimal digits"));
  EXPECT_THAT(fault("ann read abc d"), HasSubstr("64 hexadecimal digits"));
  EXPECT_EQ(fault("ann read " + kDigest + " d\nann operate " + kDigest + " d\n"),
            "line 2: ann has a line already");
  EXPECT_EQ(fault("ann read " + kDigest + " d\nbob operate " + kDigest + " d\n"),
            "line 2: bob has the secret of ann, expected one of its own");
  EXPECT_THAT(fault(std::string(65, 'n') + " read " + kDigest + " d"), HasSubstr("is no name"));
}

TEST(Tokens, ASecretFindsItsEntryOnly) {
  const std::string secret = draw_secret(), other = draw_secret();
  EXPECT_EQ(secret.size(), 67U);
  EXPECT_NE(secret, other);
  const std::vector<TokenEntry> tokens = {{"ann", Role::kOperate, digest_of(secret), "d"},
                                          {"bob", Role::kRead, digest_of(other), "d"}};
  EXPECT_EQ(find_token(tokens, secret)->name, "ann");
  EXPECT_EQ(find_token(tokens, other)->name, "bob");
  EXPECT_EQ(find_token(tokens, ""), nullptr);
  EXPECT_EQ(find_token(tokens, secret + "x"), nullptr);
  EXPECT_EQ(find_token(tokens, digest_of(secret)), nullptr) << "a digest is no secret";
  EXPECT_EQ(find_token({}, secret), nullptr);
}

TEST(Tokens, RolesAreInOrder) {
  EXPECT_LT(Role::kRead, Role::kApprove);
  EXPECT_LT(Role::kApprove, Role::kOperate);
  for (const Role role : {Role::kRead, Role::kApprove, Role::kOperate}) {
    EXPECT_EQ(role_named(name_of(role)), role);
  }
  EXPECT_FALSE(role_named("root"));
}

TEST(Tokens, TheFileMustBeOurs) {
  char folder[] = "/tmp/monkeytree-tokens-XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  const std::string file = std::string(folder) + "/tokens";
  EXPECT_TRUE(absl::IsNotFound(read_tokens(file).status()));
  EXPECT_THAT(std::string(read_tokens(file).status().message()), HasSubstr("token add"));
  std::ofstream(file) << "ann read " << kDigest << " d\n";
  chmod(file.c_str(), 0644);
  EXPECT_EQ(read_tokens(file)->size(), 1U);
  for (const mode_t mode : {0660, 0606}) {
    chmod(file.c_str(), mode);
    EXPECT_THAT(std::string(read_tokens(file).status().message()), HasSubstr("chmod 640")) << mode;
  }
  chmod(file.c_str(), 0640);
  if (geteuid() == 0) {
    ASSERT_EQ(chown(file.c_str(), 65534, 0), 0);
    EXPECT_THAT(std::string(read_tokens(file).status().message()), HasSubstr("somebody else"));
    ASSERT_EQ(chown(file.c_str(), 0, 0), 0);
  }
  std::ofstream(file) << "nonsense\n";
  EXPECT_THAT(std::string(read_tokens(file).status().message()), HasSubstr("tokens: line 1"));
  std::filesystem::remove(file);
  ASSERT_EQ(mkfifo(file.c_str(), 0640), 0);
  EXPECT_THAT(std::string(read_tokens(file).status().message()), HasSubstr("not a regular file"));
  std::filesystem::remove(file);
  std::filesystem::create_directory(file);
  EXPECT_TRUE(absl::IsFailedPrecondition(read_tokens(file).status()));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace monkeytree
