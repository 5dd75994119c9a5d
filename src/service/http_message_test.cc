#include "service/http_message.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "service/api_input.h"

namespace monkeytree {
namespace {

using testing::HasSubstr;
using testing::Pair;
using testing::UnorderedElementsAre;

/// The status that a path, a header or a head is refused with; 0 where it is not.
int refusal(const std::string& target) {
  HttpRequest request;
  const std::optional<HttpFault> fault = read_target(target, request);
  return fault ? fault->status : 0;
}
int refusal_of_headers(const std::vector<std::pair<std::string, std::string>>& headers,
                       bool old = false) {
  HttpRequest request;
  request.method = "POST";
  for (const auto& [name, value] : headers) {
    if (const std::optional<HttpFault> fault = read_header(name, value, request)) {
      return fault->status;
    }
  }
  const std::optional<HttpFault> fault = check_head(request, old);
  return fault ? fault->status : 0;
}
int refusal_of_header(const std::string& name, const std::string& value) {
  return refusal_of_headers({{"Host", "a"}, {name, value}});
}

TEST(HttpHead, IsRead) {
  HttpRequest request;
  ASSERT_EQ(read_target("/a%20b/c?limit=5&state=d%26e+f&g", request), std::nullopt);
  for (const auto& [name, value] :
       std::vector<std::pair<std::string, std::string>>{{"hOsT", "x:1"},
                                                        {"Content-Length", "12"},
                                                        {"Accept", "a"},
                                                        {"Accept", "b"},
                                                        {"Empty", ""}}) {
    ASSERT_EQ(read_header(name, value, request), std::nullopt);
  }
  EXPECT_EQ(request.path, "/a b/c");
  EXPECT_THAT(request.query,
              UnorderedElementsAre(Pair("limit", "5"), Pair("state", "d&e f"), Pair("g", "")));
  EXPECT_EQ(request.header("host"), "x:1");
  EXPECT_EQ(request.header("accept"), "a, b");
  EXPECT_EQ(request.header("empty"), "");
  EXPECT_EQ(announced_bytes(request), 12U);
}

TEST(HttpHead, OddPathsAreRefused) {
  for (const char* target : {"", "x", "http://a/", "/a b", "/\x01", "/\xff", "/#a"}) {
    EXPECT_EQ(refusal(target), 400) << target;
  }
  EXPECT_EQ(refusal("/"), 0);
  EXPECT_EQ(refusal("/" + std::string(kMaxHttpTarget, 'a')), 414);
}

TEST(HttpHead, PathTricksAreRefused) {
  for (const char* path :
       {"/..",  "/../etc/passwd", "/api/../x", "/a/..", "/%2e%2e/x", "/.%2E/", "/./x",     "/a//b",
        "//a",  "/a\\b",          "/%5c..",    "/%00",  "/a%0ab",    "/%7f",   "/%",       "/%1",
        "/%zz", "/%ff",           "/%c0%ae",   "/?a=%", "/?a=%ff",   "/?=b",   "/?a=1&a=2"}) {
    EXPECT_EQ(refusal(path), 400) << path;
  }
  std::string query = "/?";
  for (size_t i = 0; i <= kMaxHttpQuery; ++i) query += "k" + std::to_string(i) + "=&";
  EXPECT_EQ(refusal(query), 400);
}

TEST(HttpHead, OddHeadersAreRefused) {
  EXPECT_EQ(refusal_of_header("a b", "c"), 400);
  EXPECT_EQ(refusal_of_header("", "c"), 400);
  for (const char* value : {"\x01", "a\nC: d", "a\rb", "\x7f"}) {
    EXPECT_EQ(refusal_of_header("A", value), 400) << value;
  }
  EXPECT_EQ(refusal_of_header("host", "b"), 400);
  EXPECT_EQ(refusal_of_headers({{"Host", "a"}, {"Authorization", "a"}, {"authorization", "b"}}),
            400);
  for (const char* length : {"-1", "1x", "", "+1", "1, 1"}) {
    EXPECT_EQ(refusal_of_header("Content-Length", length), 400) << length;
  }
  EXPECT_EQ(refusal_of_headers({}), 400);  // no Host
  EXPECT_EQ(refusal_of_headers({}, /*old=*/true), 0);
  EXPECT_EQ(refusal_of_header("Transfer-Encoding", "chunked"), 501);
  EXPECT_EQ(refusal_of_header("Content-Encoding", "gzip"), 501);
  EXPECT_EQ(refusal_of_header("Content-Length", "65537"), 413);
  EXPECT_EQ(refusal_of_header("Content-Length", "99999999999999999999"), 413);
  EXPECT_EQ(refusal_of_header("Content-Length", "65536"), 0);
  std::vector<std::pair<std::string, std::string>> many;
  for (size_t i = 0; i <= kMaxHttpHeaders; ++i) many.emplace_back("A" + std::to_string(i), "b");
  EXPECT_EQ(refusal_of_headers(many), 431);
}

TEST(HttpAnswer, ErrorsAreJson) {
  const HttpResponse response = http_error(absl::NotFoundError("there is no \"plan\" \xff"));
  EXPECT_EQ(response.status, 404);
  EXPECT_THAT(response.body,
              HasSubstr(R"({"error":{"code":"not_found","message":"there is no \")"));
  EXPECT_EQ(http_error(absl::FailedPreconditionError("")).status, 409);
  EXPECT_EQ(http_error(absl::UnavailableError("")).status, 503);
  EXPECT_EQ(http_error(absl::InternalError("")).status, 500);
}

TEST(Input, Numbers) {
  EXPECT_EQ(*parse_number("0"), 0);
  EXPECT_EQ(*parse_number("9223372036854775807"), INT64_MAX);
  for (const char* text : {"", "-1", "+1", "01", "1 ", " 1", "1x", "0x1", "9223372036854775808"}) {
    EXPECT_FALSE(parse_number(text).ok()) << text;
  }
}

TEST(Input, Notifications) {
  EXPECT_EQ(*parse_notification(""), "");
  EXPECT_EQ(*parse_notification(" \n"), "");
  EXPECT_EQ(*parse_notification(R"({"why": "job 7 ended", "other": [1]})"), "job 7 ended");
  EXPECT_EQ(*parse_notification(R"({"why": "a\u001bb"})"), "a\\x1bb");
  for (const char* body : {"x", "[]", "{\"why\": 3}", "{", "{\"why\": \"a\", \"why\": \"b\"}"}) {
    EXPECT_EQ(parse_notification(body).status().code(), absl::StatusCode::kInvalidArgument) << body;
  }
  EXPECT_FALSE(parse_notification("{\"why\": \"" + std::string(201, 'a') + "\"}").ok());
}

TEST(Input, Changes) {
  const Change change = *parse_change(R"({"by": "alice", "why": "maintenance"})");
  EXPECT_EQ(change.by, "alice");
  EXPECT_EQ(change.why, "maintenance");
  EXPECT_TRUE(parse_change("").ok());
  const absl::Status status = parse_change(R"({"how": 1})").status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("how"));
}

TEST(Input, Hosts) {
  EXPECT_EQ(host_in("LocalHost:80"), "localhost");
  EXPECT_EQ(host_in("[::1]:80"), "::1");
  EXPECT_EQ(host_in("[::1]"), "::1");
  EXPECT_EQ(host_in("http://127.0.0.1:3"), "127.0.0.1");
  for (const char* text : {"", ":80", "a:b", "a:", "a:1234567", "[::1", "a/b", "u@localhost",
                           "localhost:80/x", "[::1]x"}) {
    if (std::string_view(text) == "a:") continue;  // an empty port is allowed
    EXPECT_EQ(host_in(text), std::nullopt) << text;
  }
}

TEST(Percent, ThereAndBack) {
  const std::string text = "a b/c%&\xc3\xa4";
  EXPECT_EQ(percent_decoded(percent_encoded(text), true), text);
}

}  // namespace
}  // namespace monkeytree
