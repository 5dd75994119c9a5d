#include "base/json.h"

#include <gtest/gtest.h>
#include <simdjson.h>

#include <random>
#include <string>

#include "base/json_syntax.h"

namespace monkeytree {
namespace {

/// What reading `text` as JSON has to say.
std::string complaint(std::string_view text) {
  Diagnostics diagnostics;
  JsonDocument::parse(text, "f", diagnostics);
  return diagnostics.text();
}

TEST(JsonTest, SyntaxErrorsHaveLineByteAndExpectation) {
  EXPECT_EQ(complaint(""), "f: empty, expected a JSON object\n");
  EXPECT_EQ(complaint(" \n "), "f: empty, expected a JSON object\n");
  EXPECT_EQ(complaint("{\"a\": 1,\n \"b\": [1, 2"),
            "f:2: not JSON: at byte 12 of the line: the text ends here, expected ',' or ']'\n");
  EXPECT_EQ(complaint("{\"a\" 1}"),
            "f:1: not JSON: at byte 6 of the line: '1', expected ':' after the field name\n");
  EXPECT_EQ(complaint("{}\n\n{}"),
            "f:3: not JSON: at byte 1 of the line: '{', expected the end of the text after the "
            "value\n");
  EXPECT_EQ(complaint("{\"a\": \"b"),
            "f:1: not JSON: at byte 7 of the line: a string begins here that never ends, expected "
            "a closing '\"'\n");
  EXPECT_EQ(complaint(std::string_view("{\"a\":\0 1}", 9)),
            "f:1: not JSON: at byte 6 of the line: a NUL byte, expected a value\n");
  EXPECT_EQ(complaint("{\"a\": \"\xFF\"}"),
            "f:1: not JSON: at byte 8 of the line: byte 0xff is not UTF-8, expected UTF-8 text\n");
  EXPECT_EQ(complaint("[18446744073709551616]"),
            "f:1: /0: expected a number that fits 64 bits, found 18446744073709551616\n");
  EXPECT_EQ(complaint("{\"a\": [1, 1e-999, 18446744073709551615],\n\"b/c\": [{}, [0], {\"d\": 1, "
                      "\"e\": -1e999}]}"),
            "f:2: /b~1c/2/e: expected a number that fits 64 bits, found -1e999\n");
  EXPECT_EQ(
      complaint("[[], {\"a\": {\"b\": []}}, " + std::string(1000, '9') + "]"),
      "f:1: /2: expected a number that fits 64 bits, found " + std::string(40, '9') + "...\n");
}

TEST(JsonTest, AByteOrderMarkIsNoError) { EXPECT_EQ(complaint("\xEF\xBB\xBF{}"), ""); }

TEST(JsonTest, DeepNestingIsRefusedNotFollowed) {
  EXPECT_EQ(complaint(std::string(100, '[') + std::string(100, ']')), "");
  for (size_t depth : {101u, 5000u, 1000000u}) {
    EXPECT_EQ(complaint(std::string(depth, '[') + std::string(depth, ']')),
              "f:1: not JSON: at byte 101 of the line: nested more than 100 levels deep\n");
  }
  EXPECT_NE(complaint(std::string(1000000, '[')), "");
}

TEST(JsonTest, DuplicateKeysAreErrorsWhereverTheyStand) {
  EXPECT_EQ(complaint(R"({"a": 1, "b": 2, "a": 3})"),
            "f: /a: a second field of this name, expected one\n");
  EXPECT_EQ(complaint(R"({"x": [0, {"y/~z": {"k": 1, "k": 1}}]})"),
            "f: /x/1/y~1~0z/k: a second field of this name, expected one\n");
  std::string many = "{";
  for (int i = 0; i < 50; ++i) many += "\"k" + std::to_string(i) + "\": 0, ";
  EXPECT_EQ(complaint(many + "\"k17\": 1}"),
            "f: /k17: a second field of this name, expected one\n");
  EXPECT_EQ(complaint(many + "\"k50\": 1}"), "");
  EXPECT_EQ(complaint("{\"a\": 1, \"\\u0061\": 1}"),
            "f: /a: a second field of this name, expected one\n");
}

TEST(JsonTest, TypedReadsReportPathAndExpectation) {
  Diagnostics diagnostics;
  auto document = JsonDocument::parse(
      R"({"s": 1, "n": 2.5, "big": 9, "e": 1.2e10, "l": [true, null], "o": {}, "z": "", "more": 0})",
      "f", diagnostics);
  ASSERT_TRUE(document);
  auto root = document->root().object();
  ASSERT_TRUE(root);
  EXPECT_FALSE(root->require("s")->string());
  EXPECT_FALSE(root->require("n")->integer(0, 9));
  EXPECT_EQ(root->require("n")->number(), 2.5);
  EXPECT_FALSE(root->require("big")->integer(1, 8));
  EXPECT_EQ(root->require("big")->integer(1, 9), 9);
  EXPECT_EQ(root->require("e")->integer(0, INT64_MAX), 12000000000);
  const auto list = root->require("l")->array();
  ASSERT_TRUE(list);
  EXPECT_EQ((*list)[0].boolean(), true);
  EXPECT_TRUE((*list)[1].is_null());
  EXPECT_FALSE((*list)[1].object());
  EXPECT_FALSE(root->require("o")->array());
  EXPECT_FALSE(root->require("z")->nonempty_string());
  EXPECT_FALSE(root->require("gone"));
  EXPECT_FALSE(root->find("gone too"));
  root->finish(UnknownField::kWarning);
  EXPECT_EQ(diagnostics.text(),
            "f: /s: expected a string, found 1\n"
            "f: /n: expected a whole number from 0 to 9, found 2.5\n"
            "f: /big: expected a whole number from 1 to 8, found 9\n"
            "f: /l/1: expected an object, found null\n"
            "f: /o: expected an array, found an object\n"
            "f: /z: expected a string that is not empty, found \"\"\n"
            "f: no field \"gone\", expected one\n"
            "f: /more: warning: unknown field, not used\n");
}

TEST(JsonTest, NamesFromAFileCannotDriveTheTerminal) {
  EXPECT_EQ(quote("a\x1b"
                  "[31m\n"),
            "\"a\\x1b[31m\\x0a\"");
  EXPECT_EQ(quote("\xC2\x9B"
                  "31m"),
            R"("\u009b31m")");
  EXPECT_EQ(printable("r\xC3\xA4"
                      "ck"),
            "r\xC3\xA4"
            "ck");
  EXPECT_EQ(quote(std::string(59, 'x') + "\xC3\xA4" + std::string(99, 'y')),
            "\"" + std::string(59, 'x') + "...\"");
}

/// The scanner that finds errors and the parser that reads must agree on what is JSON.
TEST(JsonSyntaxTest, AgreesWithTheParserOnDamagedTexts) {
  const std::string sound =
      R"({"a": [1, -0.5e+3, "x\u00e9\ud83d\ude00\n", true, false, null, {}], "b": {"c": [[]]}})";
  ASSERT_FALSE(find_json_syntax_error(sound));
  std::mt19937 random(7);
  const std::string_view bytes = "{}[]:,\"\\u0123456789abcdeEfnrt.+- \t\n\x80\xC3";
  simdjson::dom::parser parser;
  int broken = 0;
  for (int round = 0; round < 200000; ++round) {
    std::string text = sound;
    for (size_t edits = 1 + random() % 3; edits > 0; --edits) {
      const size_t at = random() % text.size();
      const char c = bytes[random() % bytes.size()];
      switch (random() % 4) {
        case 0:
          text.erase(at, 1 + random() % 4);
          break;
        case 1:
          text.insert(at, 1, c);
          break;
        case 2:
          text[at] = c;
          break;
        default:
          text.resize(at + 1);
      }
      if (text.empty()) text.push_back('0');
    }
    const simdjson::error_code code = parser.parse(text).error();
    if (code == simdjson::NUMBER_ERROR && !find_json_syntax_error(text)) continue;  // 1e999
    const bool parses = code == simdjson::SUCCESS;
    ASSERT_EQ(parses, !find_json_syntax_error(text)) << text;
    broken += !parses;
  }
  EXPECT_GT(broken, 100000);
}

TEST(JsonSyntaxTest, Utf8PrefixStopsAtTheFirstIllFormedByte) {
  EXPECT_EQ(valid_utf8_prefix("abc"), 3u);
  EXPECT_EQ(valid_utf8_prefix("a\xC0\x80"), 1u);          // overlong
  EXPECT_EQ(valid_utf8_prefix("a\xED\xA0\x80"), 1u);      // a surrogate
  EXPECT_EQ(valid_utf8_prefix("a\xF4\x90\x80\x80"), 1u);  // above U+10FFFF
  EXPECT_EQ(valid_utf8_prefix("\xE2\x82\xAC\xE2\x82"), 3u);
}

}  // namespace
}  // namespace monkeytree
