#include "inventory/json_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace monkeytree {
namespace {

using ::testing::HasSubstr;

/// Bytes in pieces of a fixed size, as a pipe may give them.
ReadBytes dripping(std::string_view text, size_t bytes) {
  ReadBytes whole = bytes_of(text);
  return [whole, bytes](char* buffer, size_t room) { return whole(buffer, std::min(room, bytes)); };
}

/// "/jobs/0=… " for each piece, or the findings.
std::string pieces(std::string_view text, size_t bytes = 1 << 20) {
  Diagnostics diagnostics;
  std::string out;
  const auto fields =
      read_json_pieces(dripping(text, bytes), "f", diagnostics, [&](const JsonPiece& piece) {
        out += piece.path() + "=" + std::string(simdjson::minify(piece.value)) + " ";
      });
  EXPECT_EQ(fields.has_value(), !diagnostics.has_errors());
  return fields ? out : "error: " + diagnostics.text();
}

TEST(JsonStream, HandsOnFieldsAndElements) {
  EXPECT_EQ(pieces("{}"), "");
  EXPECT_EQ(pieces(R"({"jobs": []})"), "");
  EXPECT_EQ(pieces(R"( {"a": 1, "jobs": [{"x": [1, "]}"]}, "\\", null], "b": {"c": []}} )"),
            R"(/a=1 /jobs/0={"x":[1,"]}"]} /jobs/1="\\" /jobs/2=null /b={"c":[]} )");
}

TEST(JsonStream, PiecesDoNotDependOnHowTheBytesCome) {
  std::string text = "{\"jobs\": [";
  for (int i = 0; i < 50; ++i) {
    text += std::string(i == 0 ? "" : ",\n") + R"({"n": "a\"}\\", "deep": [[{"x": "[{"}]], "i": )" +
            std::to_string(i) + "}";
  }
  text += "], \"last\": 7}\n";
  const std::string whole = pieces(text);
  for (size_t bytes : {1u, 2u, 3u, 7u, 64u, 65u, 1000u}) EXPECT_EQ(pieces(text, bytes), whole);
}

TEST(JsonStream, SaysWhereTheTextIsWrong) {
  EXPECT_THAT(pieces(""), HasSubstr("f:1: empty"));
  EXPECT_THAT(pieces("[1]"), HasSubstr("f:1: \"[1]\": expected '{'"));
  EXPECT_THAT(pieces("{\"jobs\": [\n{\"a\": 1},\n{\"a\": "),
              HasSubstr("f:3: the text ends within"));
  EXPECT_THAT(pieces("{\"jobs\": [1, 2"), HasSubstr("cut short"));
  EXPECT_THAT(pieces("{\"jobs\": [{}"), HasSubstr("the text ends here, expected ',' or ']'"));
  EXPECT_THAT(pieces("{\"jobs\": [\n\n{\n\"a\" 1}]}"), HasSubstr("f:4: /jobs/0: "));
  EXPECT_THAT(pieces("{\"a\": 1} x"), HasSubstr("after the end"));
  EXPECT_THAT(pieces("{\"a\": 1, \"a\": 2}"), HasSubstr("stands there twice"));
  EXPECT_THAT(pieces(std::string("{\"a\": \0 1}", 10)), HasSubstr("NUL byte"));
  EXPECT_THAT(pieces(std::string("{\"a\": [{\"b\":\0 1}]}", 18)), HasSubstr("f:1: /a/0"));
  EXPECT_THAT(pieces("{\"a\": \"\xff\"}"), HasSubstr("not UTF-8"));
  EXPECT_THAT(pieces("{\"a\": [" + std::string(5000, '[') + std::string(5000, ']') + "]}"),
              HasSubstr("/a/0"));
}

TEST(JsonStream, ReadsWhatSlurmPrintsForNoNumber) {
  EXPECT_EQ(pieces(R"({"a": [{"x": NaN, "y": Infinity, "z": -Infinity, "t": "NaN"}]})"),
            R"(/a/0={"x":0,"y":null,"z":null,"t":"NaN"} )");
}

/// The plain way to find a value's end.
size_t slow_length(std::string_view text) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (in_string) {
      if (text[i] == '\\') {
        ++i;
      } else if (text[i] == '"') {
        in_string = false;
        if (depth == 0) return i + 1;
      }
    } else if (text[i] == '"') {
      in_string = true;
    } else if (text[i] == '[' || text[i] == '{') {
      ++depth;
    } else if (text[i] == ']' || text[i] == '}') {
      if (--depth <= 0) return i + 1;
    }
  }
  return std::string_view::npos;
}

TEST(JsonScan, FindsTheEndThatThePlainWayFinds) {
  std::mt19937 random(3);
  const std::string_view bytes = "[]{}\"\\ aaaa:,  \n";
  for (int round = 0; round < 20000; ++round) {
    std::string text = random() % 2 ? "{" : "[";
    const size_t length = random() % 300;
    const size_t kinds = 4 + random() % (bytes.size() - 3);
    for (size_t i = 0; i < length; ++i) text += bytes[random() % kinds];
    ScanState state;
    const size_t cut = random() % (text.size() + 1);  // and again when more has come
    size_t found = value_length(std::string_view(text).substr(0, cut), &state);
    if (found == std::string_view::npos) found = value_length(text, &state);
    EXPECT_EQ(found, slow_length(text)) << text;
  }
}

}  // namespace
}  // namespace monkeytree
