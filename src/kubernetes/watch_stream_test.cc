#include "kubernetes/watch_stream.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kubernetes/objects.h"

namespace monkeytree {
namespace {

using End = KubeWatchStream::End;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string event(const std::string& type, const std::string& name, int version) {
  return fmt::format(
      R"({{"type": "{}", "object": {{"metadata": {{"name": "{}", "resourceVersion": "{}"}}}}}})",
      type, name, version);
}

/// What comes of the bytes, in pieces of `piece` bytes.
std::vector<std::string> read(const std::string& bytes, size_t piece, End* end = nullptr,
                              std::string* fault = nullptr) {
  std::vector<std::string> out;
  KubeWatchStream stream([&](const KubeWatchEvent& seen) {
    out.push_back(
        fmt::format("{} {} {}", static_cast<int>(seen.kind), kube_key(seen.object), seen.version));
  });
  for (size_t at = 0; at < bytes.size(); at += piece) {
    if (!stream.feed(std::string_view(bytes).substr(at, piece))) break;
  }
  if (end != nullptr) *end = stream.end();
  if (fault != nullptr) *fault = stream.fault();
  return out;
}

TEST(KubeWatchStream, EventsAreTheSameHoweverTheyAreCut) {
  const std::string bytes = event("ADDED", "a", 1) + "\n" + event("MODIFIED", "b", 2) + "\r\n\n" +
                            event("DELETED", "a", 3) + "\n" + event("BOOKMARK", "", 9) + "\n" +
                            event("ADDED", "not whole", 10);
  for (size_t piece = 1; piece <= bytes.size(); ++piece) {
    End end = End::kGone;
    EXPECT_THAT(read(bytes, piece, &end), ElementsAre("0 a 1", "0 b 2", "1 a 3", "2  9"));
    EXPECT_EQ(end, End::kNone);
  }
}

TEST(KubeWatchStream, GoneIsAnErrorEventOfCode410) {
  End end = End::kNone;
  const std::string gone =
      R"({"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired"}})";
  EXPECT_THAT(
      read(event("ADDED", "a", 1) + "\n" + gone + "\n" + event("ADDED", "b", 2) + "\n", 7, &end),
      ElementsAre("0 a 1"));
  EXPECT_EQ(end, End::kGone);
}

TEST(KubeWatchStream, WhatIsNoEventIsAFault) {
  const auto fault_of = [](const std::string& line) {
    End end = End::kNone;
    std::string fault;
    read(line + "\n", 1000, &end, &fault);
    EXPECT_EQ(end, End::kFault) << line;
    return fault;
  };
  EXPECT_THAT(fault_of(R"({"type": "ADDED", "obj)"), HasSubstr("not JSON"));
  EXPECT_THAT(fault_of("<html>"), HasSubstr("not JSON"));
  EXPECT_THAT(fault_of(R"({"type": "OTHER"})"), HasSubstr("of the type \"OTHER\""));
  EXPECT_THAT(fault_of("[]"), HasSubstr("of the type \"\""));
  EXPECT_THAT(fault_of(R"({"type": "ADDED", "object": {}})"), HasSubstr("no object"));
  EXPECT_THAT(fault_of(R"({"type": "ERROR", "object": {"code": 500, "message": "etcd"}})"),
              HasSubstr("the server reports \"etcd\""));
}

}  // namespace
}  // namespace monkeytree
