#include "service/page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>

#include "base/file.h"

namespace monkeytree {
namespace {

using testing::HasSubstr;
using testing::Not;

HttpResponse ask(const std::string& path, const std::string& known = "") {
  HttpRequest request;
  request.method = "GET";
  request.path = path;
  if (!known.empty()) request.headers["if-none-match"] = known;
  return page_answer(request);
}

TEST(Page, FilesAreThoseOfTheTree) {
  ASSERT_EQ(page_files().size(), 4U);
  for (const PageFile& file : page_files()) {
    const std::string path =
        std::string(MONKEYTREE_SOURCE_DIR) + "/web/dist/" + std::string(file.name);
    EXPECT_TRUE(file.bytes == *read_file(path)) << file.name;
  }
}

TEST(Page, EachHasItsTypeAndPolicy) {
  const std::pair<const char*, const char*> kTypes[] = {
      {"/", "text/html; charset=utf-8"},
      {"/app.js", "text/javascript; charset=utf-8"},
      {"/app.css", "text/css; charset=utf-8"},
      {"/panel", "text/html; charset=utf-8"}};
  for (const auto& [path, type] : kTypes) {
    const HttpResponse page = ask(path);
    EXPECT_EQ(page.status, 200) << path;
    EXPECT_EQ(page.content_type, type);
    EXPECT_FALSE(page.body.empty());
    const std::string& policy = page.headers.at("Content-Security-Policy");
    EXPECT_THAT(policy, HasSubstr("default-src 'none'"));
    EXPECT_THAT(policy, HasSubstr("frame-ancestors 'none'"));
    EXPECT_THAT(policy, Not(HasSubstr("unsafe")));
    EXPECT_EQ(page.headers.at("Referrer-Policy"), "no-referrer");
  }
  EXPECT_EQ(ask("/").headers.at("Content-Security-Policy"),
            "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
            "img-src 'self' data:; base-uri 'none'; frame-ancestors 'none'; form-action 'self'");
  // The panel is one file: its script and style by their hashes, and no request at all.
  const std::string panel = ask("/panel").headers.at("Content-Security-Policy");
  EXPECT_THAT(panel, HasSubstr("script-src 'sha256-"));
  EXPECT_THAT(panel, HasSubstr("style-src 'sha256-"));
  EXPECT_THAT(panel, Not(HasSubstr("'self'")));
  EXPECT_THAT(panel, Not(HasSubstr("connect-src")));
}

TEST(Page, IsSentOnce) {
  const HttpResponse first = ask("/app.js");
  const std::string tag = first.headers.at("ETag");
  EXPECT_EQ(ask("/app.js", tag).status, 304);
  EXPECT_EQ(ask("/app.js", tag).body, "");
  EXPECT_EQ(ask("/app.js", "W/" + tag + ", \"other\"").status, 304);
  EXPECT_EQ(ask("/app.css", tag).status, 200);
}

TEST(Page, NothingElseIsThere) {
  for (const char* path : {"/index.html", "/panel.html", "/app", "/web/dist/app.js", "/panel/"}) {
    EXPECT_EQ(ask(path).status, 404) << path;
  }
}

TEST(Page, PolicyInAPage) {
  EXPECT_EQ(policy_in("<meta http-equiv=\"Content-Security-Policy\" content=\"a 'b'\" />"),
            "a 'b'");
  EXPECT_EQ(policy_in("<p>none</p>"), "");
}

/// Each path of the API that the page names is one that the document has.
TEST(Page, CallsOnlyWhatTheApiHas) {
  const std::string document =
      *read_file(std::string(MONKEYTREE_SOURCE_DIR) + "/src/service/openapi.json");
  const std::string script = ask("/app.js").body;
  const std::regex call("/api/v1/[a-z.-]+(/\\$\\{[^}]*\\}(/[a-z]+)?)?");
  int calls = 0;
  for (std::sregex_iterator at(script.begin(), script.end(), call), end; at != end; ++at) {
    ++calls;
    const std::string path = std::regex_replace(at->str(), std::regex("\\$\\{[^}]*\\}"), "{id}");
    EXPECT_THAT(document, HasSubstr("\"" + path + "\": {")) << at->str();
  }
  EXPECT_GE(calls, 10);
}

}  // namespace
}  // namespace monkeytree
