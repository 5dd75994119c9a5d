// `monkeytree paths` as its users meet it, on a host of a fabric.

#include <absl/strings/str_join.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/command.h"
#include "fabric.h"

namespace monkeytree {
namespace {

using Json = nlohmann::json;
using ::testing::HasSubstr;
using ::testing::StartsWith;

CommandResult run_here(std::vector<std::string> arguments, const std::string& input = "") {
  Command command;
  command.arguments = std::move(arguments);
  command.arguments.insert(command.arguments.begin(), {MONKEYTREE_PROGRAM, "paths"});
  command.environment = {{"PATH", "/usr/sbin:/usr/bin:/sbin:/bin"}};
  command.input = input;
  absl::StatusOr<CommandResult> result =
      run_command(command, std::chrono::steady_clock::now() + std::chrono::seconds(60));
  EXPECT_TRUE(result.ok()) << result.status();
  return result.ok() ? *std::move(result) : CommandResult{};
}

std::string refusal(const std::vector<std::string>& arguments, const std::string& input = "") {
  const CommandResult run = run_here(arguments, input);
  EXPECT_EQ(run.exit_code, 2) << run.out;
  EXPECT_EQ(run.out, "");
  return run.err;
}

class PathsProgramTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string missing = Fabric::missing();
    if (!missing.empty()) GTEST_SKIP() << missing;
    absl::StatusOr<std::unique_ptr<Fabric>> fabric = Fabric::up({2, 1, 3, 0});
    ASSERT_TRUE(fabric.ok()) << fabric.status();
    fabric_ = *std::move(fabric);
    spines_ = absl::StrJoin(spine_addresses(0, 3), ",");
    router_ = "nsenter --net=" + fabric_->path("t0");
  }
  /// On the first host.
  CommandResult run(const std::vector<std::string>& arguments) {
    CommandResult result;
    const absl::Status entered = fabric_->inside("h0_0", [&] { result = run_here(arguments); });
    EXPECT_TRUE(entered.ok()) << entered;
    return result;
  }

  std::unique_ptr<Fabric> fabric_;
  std::string spines_, router_;
};

TEST_F(PathsProgramTest, TheSpinesAreFoundThenAPortForEachAndTheRouterAgrees) {
  const CommandResult who = run({"10.1.0.2:5201", "--probe"});
  EXPECT_EQ(who.exit_code, 0) << who.err;
  EXPECT_THAT(who.out, HasSubstr("--uplinks 10.255.0.2,10.255.0.6,10.255.0.10\n"));

  const CommandResult text = run({"10.1.0.2:5201", "--probe", "--uplinks", spines_});
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_THAT(text.out, StartsWith("10.0.0.2 to 10.1.0.2:5201 tcp, by probes: 3 of 3 uplinks, "));
  EXPECT_THAT(text.out, HasSubstr("10.255.0.10"));

  const std::vector<std::string> roce = {"10.1.0.2:4791", "--udp", "--json"};
  std::vector<std::string> probed = roce, asked = roce;
  probed.insert(probed.end(), {"--probe", "--uplinks", spines_});
  asked.insert(asked.end(), {"--ask", router_, "--interface", "h0", "--uplinks", "up0,up1,up2"});
  const Json by_probes = Json::parse(run(probed).out), by_router = Json::parse(run(asked).out);
  EXPECT_EQ(by_probes["schema"], "monkeytree/paths/v1");
  ASSERT_EQ(by_probes["uplinks"].size(), 3U);
  for (size_t i = 0; i < 3; ++i) {
    const Json& uplink = by_probes["uplinks"][i];
    EXPECT_EQ(uplink["source_port"], by_router["uplinks"][i]["source_port"]);
    EXPECT_GE(uplink["source_port"], 49152);
    EXPECT_GT(uplink["flow_label"], 0);
    EXPECT_EQ(by_router["uplinks"][i]["name"], fmt::format("up{}", i));
  }
}

TEST_F(PathsProgramTest, WhatIsNotFoundIsALimit) {
  ASSERT_TRUE(fabric_->fail(1, 2).ok());
  const CommandResult text = run({"10.1.0.2:5201", "--probe", "--uplinks", spines_});
  EXPECT_EQ(text.exit_code, 4) << text.err;
  EXPECT_THAT(text.out, HasSubstr("2 of 3 uplinks, 200 ports tried"));
  EXPECT_THAT(text.out, HasSubstr("10.255.0.10  not found"));
}

TEST_F(PathsProgramTest, ARouterThatDoesNotAnswerIsAFailure) {
  const CommandResult none = run({"10.1.0.2:5201", "--ask", "false", "--uplinks", "up0,up1"});
  EXPECT_EQ(none.exit_code, 1);
  EXPECT_THAT(none.err, HasSubstr("10.0.0.2 to 10.1.0.2: the router says"));
  const CommandResult foreign = run({"10.1.0.2:5201", "--probe", "--from", "10.9.9.9"});
  EXPECT_EQ(foreign.exit_code, 1);
  EXPECT_THAT(foreign.err, HasSubstr("cannot send from 10.9.9.9"));
}

TEST(PathsProgram, AModelPredictsWithoutANetwork) {
  const CommandResult run =
      run_here({"10.3.1.2:4791", "--udp", "--from", "10.0.0.2", "--predict", "-", "--uplinks", "4"},
               "family: crc32\nfields: [source, destination, source_port]\n");
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out,
              StartsWith("10.0.0.2 to 10.3.1.2:4791 udp, by a hash model: 4 of 4 uplinks"));
}

TEST(PathsProgram, BadUsageIsTold) {
  EXPECT_THAT(refusal({"10.3.1.2", "--probe", "--from", "10.0.0.2"}),
              HasSubstr("expected an IPv4 address and a port, for example 10.3.1.2:5201, found "
                        "\"10.3.1.2\""));
  EXPECT_THAT(refusal({"10.3.1.2:0", "--probe", "--from", "10.0.0.2"}), HasSubstr("found"));
  EXPECT_THAT(refusal({"10.3.1.2:1", "--from", "10.0.0.2"}),
              HasSubstr("expected one of --probe, --ask COMMAND and --predict MODEL"));
  EXPECT_THAT(refusal({"10.3.1.2:1", "--probe", "--ask", "env", "--from", "10.0.0.2"}),
              HasSubstr("expected one of"));
  EXPECT_THAT(refusal({"10.3.1.2:1", "--probe", "--from", "here"}),
              HasSubstr("--from: expected an IPv4 address, found \"here\""));
  EXPECT_THAT(refusal({"10.3.1.2:1", "--probe", "--from", "10.0.0.2", "--uplinks", "up0"}),
              HasSubstr("expected the IPv4 addresses of spines, found \"up0\""));
  EXPECT_THAT(refusal({"10.3.1.2:1", "--ask", "env", "--from", "10.0.0.2"}),
              HasSubstr("expected the router's interfaces"));
  EXPECT_THAT(refusal({"10.3.1.2:1", "--predict", "-", "--from", "10.0.0.2", "--uplinks", "4"},
                      "family: md5\n"),
              HasSubstr("-:1: /family: expected one of crc16-ccitt"));
  EXPECT_THAT(refusal({"10.3.1.2:1", "--predict", "-", "--from", "10.0.0.2", "--uplinks", "0"}),
              HasSubstr("expected how many there are"));
  EXPECT_THAT(refusal({"10.3.1.2:1", "--probe", "--from", "10.0.0.2", "--ports", "9-1"}),
              HasSubstr("--ports: expected FIRST-LAST of 1 to 65535, found \"9-1\""));
}

}  // namespace
}  // namespace monkeytree
