#include "agent/config.h"

#include <gtest/gtest.h>

#include "base/file.h"

namespace monkeytree {
namespace {

std::string faults(std::string_view text) {
  Diagnostics diagnostics;
  EXPECT_FALSE(parse_agent_config(text, "agent.yaml", diagnostics).has_value()) << text;
  return diagnostics.text();
}

TEST(AgentConfig, TakesEveryField) {
  Diagnostics diagnostics;
  const auto config = parse_agent_config(
      "node: n1\nslots: 8\ncontroller: 10.0.0.1:7461\nsocket: /tmp/a.sock\ndata: eth1\n"
      "staging_quota: 64GiB\nstaging_folder: /dev/shm/mine\nmin_bandwidth: 100MB\nroutes_file: "
      "/run/routes.json\n"
      "tls: {ca: /tls/ca.crt, certificate: /tls/n1.crt, key: /tls/n1.key}\nlog: json\n"
      "encrypt_state: true\n"
      "ports_file: /run/ports.json\nspines: [10.255.0.2, 10.255.0.6]\nspine_hops: 3\nucx: false\n",
      "agent.yaml", diagnostics);
  ASSERT_TRUE(config) << diagnostics.text();
  AgentConfig wanted;
  wanted.node = "n1";
  wanted.slots = 8;
  wanted.controllers = {"10.0.0.1:7461"};
  wanted.socket = "/tmp/a.sock";
  wanted.data = "eth1";
  wanted.staging_quota = int64_t{64} << 30;
  wanted.staging_folder = "/dev/shm/mine";
  wanted.min_bytes_per_s = 100'000'000;
  wanted.routes_file = "/run/routes.json";
  wanted.ports_file = "/run/ports.json";
  wanted.spines = {"10.255.0.2", "10.255.0.6"};
  wanted.spine_hops = 3;
  wanted.tls = {"/tls/ca.crt", "/tls/n1.crt", "/tls/n1.key"};
  wanted.encrypt_state = true;
  wanted.json_log = true;
  EXPECT_TRUE(*config == wanted);
  EXPECT_EQ(why_unusable(*config), "");
  EXPECT_EQ(staging_folder_of(*config), "/dev/shm/mine");
  EXPECT_EQ(staging_folder_of(AgentConfig()), "/dev/shm/monkeytree");
}

TEST(AgentConfig, TheExampleSaysTheDefaults) {
  const absl::StatusOr<std::string> text =
      read_file(std::string(MONKEYTREE_SOURCE_DIR) + "/packaging/agent.yaml");
  ASSERT_TRUE(text.ok()) << text.status();
  Diagnostics diagnostics;
  const auto config = parse_agent_config(*text, "agent.yaml", diagnostics);
  ASSERT_TRUE(config) << diagnostics.text();
  EXPECT_TRUE(*config == AgentConfig());
}

/// What is commented out in an example and means something is sound too.
TEST(AgentConfig, TheExampleOfTlsIsRead) {
  std::string text = *read_file(std::string(MONKEYTREE_SOURCE_DIR) + "/packaging/agent.yaml");
  const size_t at = text.find("# tls:\n"), end = text.find("tls: none\n", at);
  ASSERT_NE(end, std::string::npos);
  std::string example = text.substr(at, end - at);
  for (size_t mark = 0; (mark = example.find("# ")) != std::string::npos;) example.erase(mark, 2);
  Diagnostics diagnostics;
  const auto config = parse_agent_config(example, "agent.yaml", diagnostics);
  ASSERT_TRUE(config) << diagnostics.text();
  EXPECT_EQ(config->tls, (TlsFiles{"/etc/monkeytree/tls/ca.crt", "/etc/monkeytree/tls/node.crt",
                                   "/etc/monkeytree/tls/node.key"}));
}

TEST(AgentConfig, NamesEachFault) {
  EXPECT_NE(faults("tls: {ca: a}\n").find("agent.yaml:1: /tls: no certificate, expected tls: {ca"),
            std::string::npos);
  EXPECT_NE(faults("noed: n1\n").find("agent.yaml:1: "), std::string::npos);
  const std::string several = faults("node: n1\nslots: none\nstaging_quota: much\nlog: xml\n");
  EXPECT_NE(several.find("agent.yaml:2: /slots"), std::string::npos) << several;
  EXPECT_NE(several.find("agent.yaml:3: /staging_quota"), std::string::npos) << several;
  EXPECT_NE(several.find("agent.yaml:4: /log"), std::string::npos) << several;
  EXPECT_NE(faults("- n1\n").find("agent.yaml:1: "), std::string::npos);
}

TEST(AgentConfig, RefusesAnOpenControllerUnlessToldSo) {
  AgentConfig config;
  TlsFiles none;
  EXPECT_EQ(why_unusable(config), "");
  config.controllers = {"127.0.0.1:7461", "10.0.0.1:7461"};
  EXPECT_NE(why_unusable(config).find("insecure: true"), std::string::npos);
  config.insecure = true;
  EXPECT_NE(why_unusable(config).find("data:"), std::string::npos);
  config.data = "eth1";
  EXPECT_EQ(why_unusable(config), "");
  config.tls = {"ca.crt", "n1.crt", "n1.key"};
  EXPECT_EQ(why_unusable(config), "tls: expected either tls or insecure: true, found both");
  config.insecure = false;
  EXPECT_EQ(why_unusable(config), "");
  config.tls.key = "";
  EXPECT_NE(why_unusable(config).find("tls: expected ca, certificate and key"), std::string::npos);
  config.tls.key = "n1.key";
  config.encrypt_state = true;
  EXPECT_EQ(why_unusable(config), "");
  std::swap(config.tls, none);
  config.controllers = {"127.0.0.1:7461"};
  EXPECT_EQ(why_unusable(config), "encrypt_state: expected tls: its files say who this node is");
  config.encrypt_state = false;
  std::swap(config.tls, none);
  config.encrypt_state = config.ucx = true;
  EXPECT_NE(why_unusable(config).find("ucx: expected false"), std::string::npos);
  config.encrypt_state = config.ucx = false;
  config.node = "../n1";
  EXPECT_NE(why_unusable(config).find("node:"), std::string::npos);
  config.node = "n1";
  config.socket = "agent.sock";
  EXPECT_NE(why_unusable(config).find("socket:"), std::string::npos);
  config.socket = "/a.sock";
  config.controllers = {"127.0.0.1:7461", "nowhere"};
  EXPECT_NE(why_unusable(config).find("HOST:PORT"), std::string::npos);
}

TEST(AgentConfig, ReadsBytes) {
  EXPECT_EQ(parse_bytes("0"), 0);
  EXPECT_EQ(parse_bytes("1.5KiB"), 1536);
  EXPECT_EQ(parse_bytes("2TB"), 2'000'000'000'000);
  for (const char* bad : {"", "GiB", "-1", "1 GiB", "1gib", "0.5", "1e300"}) {
    EXPECT_EQ(parse_bytes(bad), std::nullopt) << bad;
  }
}

TEST(AgentConfig, SpinesAreAddressesAndPortsNeedThem) {
  EXPECT_NE(faults("spines: [s0]\n").find("/spines/0: expected the IPv4 address of a spine"),
            std::string::npos);
  AgentConfig config;
  config.ports_file = "/run/ports.json";
  EXPECT_NE(why_unusable(config).find("spines: expected"), std::string::npos);
  config.spines = {"10.255.0.2"};
  EXPECT_EQ(why_unusable(config), "");
}

}  // namespace
}  // namespace monkeytree
