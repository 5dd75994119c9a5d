#include "agent/asked_paths.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace monkeytree {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::map<std::string, int> kUplinks = {{"up0", 0}, {"10.255.0.6", 1}};

TEST(AskedPathsTest, QuestionsNameAllThatIsHashed) {
  const std::vector<PacketHeader> headers = {{0x0a000002, 0x0a030102, Protocol::kTcp, 20480, 5201},
                                             {0x0a000002, 0x0a030102, Protocol::kUdp, 50000, 4791}};
  EXPECT_EQ(questions_for_router(headers, {0, 1}, "h0"),
            "route get 10.3.1.2 from 10.0.0.2 iif h0 ipproto tcp sport 20480 dport 5201\n"
            "route get 10.3.1.2 from 10.0.0.2 iif h0 ipproto udp sport 50000 dport 4791\n");
  EXPECT_EQ(questions_for_router(headers, {1}, ""),
            "route get 10.3.1.2 ipproto udp sport 50000 dport 4791\n");
}

TEST(AskedPathsTest, AnswersAreReadByInterfaceOrGateway) {
  const auto answers = read_router_answers(
      "[{\"dst\":\"10.1.0.2\",\"gateway\":\"10.255.0.2\",\"dev\":\"up0\",\"iif\":\"h0\"}]\n"
      "[{\"dst\":\"10.1.0.2\",\"gateway\":\"10.255.0.6\",\"dev\":\"swp9\"}]\n"
      "[{\"dst\":\"10.1.0.2\",\"dev\":\"eth7\"}]\n",
      3, kUplinks);
  ASSERT_TRUE(answers.ok()) << answers.status();
  EXPECT_THAT(*answers, ElementsAre(0, 1, -1));
}

TEST(AskedPathsTest, OtherAnswersAreRefused) {
  EXPECT_THAT(std::string(read_router_answers("hello\n", 1, kUplinks).status().message()),
              HasSubstr("expected an answer of ip -json, found \"hello\""));
  EXPECT_THAT(std::string(read_router_answers("", 1, kUplinks).status().message()),
              HasSubstr("expected 1 answers, found 0"));
  for (const char* text : {"[]\n", "[1]\n", "{}\n", "[{},{}]\n"}) {
    EXPECT_FALSE(read_router_answers(text, 1, kUplinks).ok()) << text;
  }
}

TEST(AskedPathsTest, ARouterThatFailsIsUnavailable) {
  const std::vector<PacketHeader> headers = {{0x0a000002, 0x0a030102, Protocol::kTcp, 20480, 5201}};
  AskedPaths::Options options;
  options.command = {"sh", "-c", "echo no such machine >&2; exit 255"};
  AskedPaths refused(options);
  EXPECT_EQ(refused.uplinks(headers).status(),
            absl::UnavailableError("10.0.0.2 to 10.3.1.2: the router says \"no such machine\""));
  options.command = {"sh", "-c", "echo '[{\"dev\":\"up0\"}]'"};
  options.uplinks = kUplinks;
  AskedPaths answered(options);
  EXPECT_THAT(*answered.uplinks(headers), ElementsAre(0));
}

}  // namespace
}  // namespace monkeytree
