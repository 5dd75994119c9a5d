#include "kubernetes/access.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "base/file.h"
#include "kubernetes/credentials.h"

namespace monkeytree {
namespace {

using ::testing::HasSubstr;

class KubeAccessTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = ::testing::TempDir() + "monkeytree_kube_access_" + std::to_string(::getpid());
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& text) {
    EXPECT_TRUE(write_file(folder_ + "/" + name, text).ok());
    return folder_ + "/" + name;
  }
  std::string config(const std::string& cluster, const std::string& user) {
    return write("config",
                 "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts:\n"
                 "- name: c\n  context: {cluster: k, user: u, namespace: x}\n"
                 "- name: other\n  context: {cluster: none, user: u}\n"
                 "clusters:\n- name: k\n  cluster: " +
                     cluster + "\nusers:\n- name: u\n  user: " + user + "\n");
  }
  std::string fault(const std::string& context = "") {
    const auto access = read_kubeconfig(folder_ + "/config", context);
    EXPECT_FALSE(access.ok());
    return std::string(access.status().message());
  }

  std::string folder_;
};

TEST_F(KubeAccessTest, InlineDataAndFilesRelativeToTheConfig) {
  write("key.pem", "KEY");
  write("ca.pem", "CA");
  config("{server: 'https://10.0.0.1:6443/k8s/c/', certificate-authority: ca.pem}",
         "{client-certificate-data: Q0VSVA==, client-key: key.pem}");
  const auto access = read_kubeconfig(folder_ + "/config", "");
  ASSERT_TRUE(access.ok()) << access.status();
  EXPECT_EQ(access->host, "10.0.0.1");
  EXPECT_EQ(access->port, 6443);
  EXPECT_EQ(access->prefix, "/k8s/c");
  EXPECT_EQ(access->authority, "CA");
  EXPECT_EQ(access->certificate, "CERT");
  EXPECT_EQ(access->key, "KEY");
}

TEST_F(KubeAccessTest, FaultsSayWhere) {
  config("{server: 'https://h'}", "{token: t}");
  EXPECT_THAT(fault("nope"), HasSubstr("no context \"nope\" in contexts"));
  EXPECT_THAT(fault("other"), HasSubstr("no cluster \"none\" in clusters"));
  config("{server: 'ftp://h'}", "{token: t}");
  EXPECT_THAT(fault(), HasSubstr("config:11: /clusters/0/cluster: no server, expected one"));
  config("{server: 'https://h', certificate-authority: gone.pem}", "{token: t}");
  EXPECT_THAT(fault(), HasSubstr("gone.pem: cannot open"));
  config("{server: 'https://h', certificate-authority-data: '*'}", "{token: t}");
  EXPECT_THAT(fault(), HasSubstr("expected base64"));
  config("{server: 'https://h'}", "{username: u, password: p}");
  EXPECT_THAT(fault(), HasSubstr("/users/0/user/username: is not supported"));
  config("{server: 'https://h'}", "{exec: {args: [x]}}");
  EXPECT_THAT(fault(), HasSubstr("no command, expected a program"));
}

TEST_F(KubeAccessTest, Addresses) {
  KubeAccess access;
  EXPECT_TRUE(parse_server("https://[fd00::1]:6443", access));
  EXPECT_EQ(access.host, "fd00::1");
  EXPECT_EQ(access.port, 6443);
  EXPECT_TRUE(parse_server("https://[fd00::1]", access));
  EXPECT_EQ(access.port, 443);
  EXPECT_TRUE(parse_server("http://h", access));
  EXPECT_EQ(access.port, 80);
  EXPECT_FALSE(parse_server("https://", access));
  EXPECT_FALSE(parse_server("https://h:0", access));
  EXPECT_FALSE(parse_server("h:1", access));
}

TEST_F(KubeAccessTest, APodOfTheClusterHasAnAccount) {
  write("ca.crt", "CA");
  write("token", "first\n");
  const std::map<std::string, std::string> environment = {{"KUBERNETES_SERVICE_HOST", "fd00::1"},
                                                          {"KUBERNETES_SERVICE_PORT", "443"}};
  const auto access = in_cluster_access(environment, folder_);
  ASSERT_TRUE(access.ok()) << access.status();
  EXPECT_EQ(access->host, "fd00::1");
  KubeCredentials credentials(*access);
  const auto deadline = KubeCredentials::Clock::now() + std::chrono::seconds(30);
  const auto before = credentials.now(deadline);
  ASSERT_TRUE(before.ok());
  EXPECT_EQ(before->token, "first");
  // Exchanged: read again at the latest when the server refuses the old one.
  write("token", "second\n");
  credentials.refused(before->generation);
  EXPECT_EQ(credentials.now(deadline)->token, "second");
  EXPECT_THAT(std::string(in_cluster_access({}, folder_).status().message()),
              HasSubstr("this is no pod of a cluster"));
}

TEST_F(KubeAccessTest, AProgramsCredentialIsKeptUntilItEndsOrIsRefused) {
  const std::string count = folder_ + "/count";
  const std::string program =
      write("plugin.sh",
            "#!/bin/sh\necho x >> \"$COUNT\"\n"
            "n=$(wc -l < \"$COUNT\")\n"
            "echo \"$KUBERNETES_EXEC_INFO\" > \"$COUNT.info\"\n"
            "echo '{\"kind\": \"ExecCredential\", \"status\": {\"token\": "
            "\"t'$n'\", \"expirationTimestamp\": \"2999-01-01T00:00:00Z\"}}'\n");
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  config("{server: 'https://h'}",
         "{token: '', exec: {apiVersion: client.authentication.k8s.io/v1, args: null, "
         "interactiveMode: Never, command: ./plugin.sh, env: [{name: "
         "COUNT, value: '" +
             count + "'}]}}");
  const auto access = read_kubeconfig(folder_ + "/config", "");
  ASSERT_TRUE(access.ok()) << access.status();
  KubeCredentials credentials(*access);
  const auto deadline = KubeCredentials::Clock::now() + std::chrono::seconds(30);
  const auto first = credentials.now(deadline);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->token, "t1");
  EXPECT_EQ(credentials.now(deadline)->token, "t1");
  credentials.refused(first->generation);
  EXPECT_EQ(credentials.now(deadline)->token, "t2");
  EXPECT_THAT(*read_file(count + ".info"), HasSubstr("client.authentication.k8s.io/v1"));
  EXPECT_FALSE(parse_exec_credential("no").ok());
  EXPECT_FALSE(parse_exec_credential(R"({"kind": "ExecCredential", "status": {}})").ok());
}

}  // namespace
}  // namespace monkeytree
