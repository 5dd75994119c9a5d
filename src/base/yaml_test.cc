#include "base/yaml.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

namespace monkeytree {
namespace {

std::string findings(std::string_view text) {
  Diagnostics diagnostics;
  EXPECT_FALSE(parse_yaml(text, "f", diagnostics).has_value());
  return diagnostics.text();
}

TEST(Yaml, ReadsWhatIsThere) {
  Diagnostics diagnostics;
  const auto root = parse_yaml(
      "# a comment\nn: -3\nf: 0.5\nb: true\ns: \"x y\"\nm: {k: [1, 2e3]}\n", "f", diagnostics);
  ASSERT_TRUE(root);
  const YamlMap map = root->map({"n", "f", "b", "s", "m", "other"});
  EXPECT_EQ(map.find("n")->integer(-5, 5), -3);
  EXPECT_EQ(map.find("f")->number(0, 1), 0.5);
  EXPECT_EQ(map.find("b")->boolean(), true);
  EXPECT_EQ(map.find("s")->nonempty_string(), "x y");
  EXPECT_EQ(map.find("other"), nullptr);
  const auto list = map.find("m")->map({"k"}).find("k")->list();
  ASSERT_TRUE(list && list->size() == 2);
  EXPECT_EQ((*list)[1].integer(0, 2000), 2000);
  EXPECT_EQ((*list)[1].path(), "/m/k/1");
  EXPECT_EQ((*list)[1].line(), 6);
  EXPECT_EQ(diagnostics.text(), "");
}

TEST(Yaml, SaysWhereAndWhatWasExpected) {
  Diagnostics diagnostics;
  const auto root = parse_yaml("n: 99999999999999999999\nf: .nan\nb: yes\nx: 1\nn: 2\nl: {}\ne:\n",
                               "f", diagnostics);
  ASSERT_TRUE(root);
  const YamlMap map = root->map({"n", "f", "b", "l", "e"});
  map.find("n")->integer(0, 10);
  map.find("f")->number(0, 1.5);
  map.find("b")->boolean();
  map.find("l")->list();
  map.find("e")->nonempty_string();
  constexpr std::array<std::string_view, 2> kNames = {"p", "q"};
  map.find("b")->one_of(kNames);
  EXPECT_EQ(diagnostics.text(),
            "f:5: /n: this key stands here twice\n"
            "f:4: /x: unknown key, expected one of n, f, b, l, e\n"
            "f:1: /n: expected a whole number from 0 to 10, found \"99999999999999999999\"\n"
            "f:2: /f: expected a number from 0 to 1.5, found \".nan\"\n"
            "f:3: /b: expected true or false, found \"yes\"\n"
            "f:6: /l: expected a list, found a map\n"
            "f:7: /e: expected text, found nothing\n"
            "f:3: /b: expected p or q, found \"yes\"\n");
}

TEST(Yaml, RefusesWhatIsNoPlainDocument) {
  EXPECT_EQ(findings("a: 1\nb: [1, 2\n"), "f:3: not YAML: end of sequence flow not found\n");
  EXPECT_EQ(findings("a: &x 1\nb: *x\n"), "f:2: not YAML: an alias, expected the value itself\n");
  EXPECT_EQ(findings("a: 1\n---\nb: 2\n"), "f:2: a second document, expected one\n");
  EXPECT_EQ(findings("a: 1\nb: \"\xff\"\n"), "f:2: not UTF-8\n");
  EXPECT_EQ(findings(std::string(17, '[') + std::string(17, ']')),
            "f:1: not YAML: nested more than 16 deep\n");
  EXPECT_EQ(findings(std::string(2 << 20, '#')), "f: more than 1 MiB\n");
}

TEST(Yaml, AnEmptyTextIsNoMap) {
  Diagnostics diagnostics;
  const auto root = parse_yaml("", "f", diagnostics);
  ASSERT_TRUE(root);
  const YamlMap map = root->map();
  EXPECT_TRUE(map.fields().empty());
  EXPECT_EQ(diagnostics.text(), "f:1: expected a map, found nothing\n");
}

}  // namespace
}  // namespace monkeytree
