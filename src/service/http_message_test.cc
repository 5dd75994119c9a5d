#include "service/http_message.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "service/api_input.h"

namespace monkeytree {
namespace {

using testing::HasSubstr;
using testing::Pair;
using testing::UnorderedElementsAre;

/// The status that a head is refused with; 0 where it is not.
int refusal(const std::string& head) {
  HttpFault fault;
  return parse_http_head(head, fault) ? 0 : fault.status;
}
std::string with_line(const std::string& line) { return line + "\r\nHost: a\r\n\r\n"; }
std::string with_header(const std::string& header) {
  return "POST /x HTTP/1.1\r\nHost: a\r\n" + header + "\r\n\r\n";
}

TEST(HttpHead, IsRead) {
  HttpFault fault;
  const std::optional<HttpHead> head = parse_http_head(
      "POST /a%20b/c?limit=5&state=d%26e+f&g HTTP/1.1\r\nhOsT: x:1\r\nContent-Length: 12\r\n"
      "Accept: a\r\nAccept: b\r\nEmpty:\r\n\r\n",
      fault);
  ASSERT_TRUE(head) << fault.message;
  EXPECT_EQ(head->request.method, "POST");
  EXPECT_EQ(head->request.path, "/a b/c");
  EXPECT_THAT(head->request.query,
              UnorderedElementsAre(Pair("limit", "5"), Pair("state", "d&e f"), Pair("g", "")));
  EXPECT_EQ(head->request.header("host"), "x:1");
  EXPECT_EQ(head->request.header("accept"), "a, b");
  EXPECT_EQ(head->request.header("empty"), "");
  EXPECT_EQ(head->body_bytes, 12U);
}

TEST(HttpHead, AsSimpleAsCanBe) {
  EXPECT_EQ(refusal("GET / HTTP/1.1\r\nHost: a\r\n\r\n"), 0);
  EXPECT_EQ(refusal("GET / HTTP/1.0\r\n\r\n"), 0);
}

TEST(HttpHead, OddRequestLinesAreRefused) {
  for (const char* line :
       {"", "GET", "GET /", "GET  HTTP/1.1", "GET / ", "/ HTTP/1.1", "GET / HTTP/1.1 ",
        "GET x HTTP/1.1", "GET http://a/ HTTP/1.1", "G\tT / HTTP/1.1", "GET /a b HTTP/1.1",
        "GET /\x01 HTTP/1.1", "GET /\xff HTTP/1.1", "GET /#a HTTP/1.1", "GET / FTP/1.1",
        "VERYLONGMETHODNAME / HTTP/1.1"}) {
    EXPECT_EQ(refusal(with_line(line)), 400) << line;
  }
  EXPECT_EQ(refusal(with_line("GET / HTTP/2.0")), 505);
  EXPECT_EQ(refusal(with_line("GET /" + std::string(kMaxHttpTarget, 'a') + " HTTP/1.1")), 414);
}

TEST(HttpHead, PathTricksAreRefused) {
  for (const char* path :
       {"/..",  "/../etc/passwd", "/api/../x", "/a/..", "/%2e%2e/x", "/.%2E/", "/./x",     "/a//b",
        "//a",  "/a\\b",          "/%5c..",    "/%00",  "/a%0ab",    "/%7f",   "/%",       "/%1",
        "/%zz", "/%ff",           "/%c0%ae",   "/?a=%", "/?a=%ff",   "/?=b",   "/?a=1&a=2"}) {
    EXPECT_EQ(refusal(with_line(std::string("GET ") + path + " HTTP/1.1")), 400) << path;
  }
  std::string query = "/?";
  for (size_t i = 0; i <= kMaxHttpQuery; ++i) query += "k" + std::to_string(i) + "=&";
  EXPECT_EQ(refusal(with_line("GET " + query + " HTTP/1.1")), 400);
}

TEST(HttpHead, OddHeadersAreRefused) {
  for (const char* header :
       {"Host: b", "no colon", ": empty", "a b: c", "A: \x01", "A: b\nC: d", " folded: x",
        "Content-Length: -1", "Content-Length: 1x", "Content-Length:", "Content-Length: +1",
        "Content-Length: 1\r\nContent-Length: 1", "Content-Length: 1, 1",
        "Authorization: a\r\nAuthorization: b"}) {
    EXPECT_EQ(refusal(with_header(header)), 400) << header;
  }
  EXPECT_EQ(refusal("GET / HTTP/1.1\r\n\r\n"), 400);  // no Host
  EXPECT_EQ(refusal(with_header("Transfer-Encoding: chunked")), 501);
  EXPECT_EQ(refusal(with_header("Content-Encoding: gzip")), 501);
  EXPECT_EQ(refusal(with_header("Content-Length: 65537")), 413);
  EXPECT_EQ(refusal(with_header("Content-Length: 99999999999999999999")), 413);
  EXPECT_EQ(refusal(with_header("Content-Length: 65536")), 0);
  std::string many;
  for (size_t i = 0; i < kMaxHttpHeaders; ++i) many += "A" + std::to_string(i) + ": b\r\n";
  EXPECT_EQ(refusal("GET / HTTP/1.1\r\nHost: a\r\n" + many + "\r\n"), 431);
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
