#include "kubernetes/kinds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "base/file.h"
#include "base/yaml.h"

namespace monkeytree {
namespace {

TEST(KubeKinds, AreInTheOrderOfTheEnumerationAndFoundByWhatObjectsCarry) {
  for (const KubeKindRow& row : kube_kinds()) {
    EXPECT_EQ(&row_of(row.kind), &row);
    const std::string version(row.versions.front());
    const std::string api = row.group.empty() ? version : std::string(row.group) + "/" + version;
    EXPECT_EQ(find_kube_kind(api, row.name), &row);
  }
  EXPECT_EQ(find_kube_kind("v1", "Secret"), nullptr);
  EXPECT_EQ(find_kube_kind("example.com/v1", "Job"), nullptr);
}

/// Texts of a list in a map.
std::set<std::string> texts(const YamlMap& map, std::string_view key) {
  std::set<std::string> out;
  const YamlValue* at = map.find(key);
  if (at == nullptr) return out;
  const std::vector<YamlValue> items = at->list().value_or(std::vector<YamlValue>());
  for (const YamlValue& item : items) {
    out.insert(item.is_scalar() ? item.nonempty_string().value_or("?") : "");
  }
  return out;
}

/// What observe mode may do is to see the kinds that are read, and nothing else.
TEST(KubeKinds, TheRightsOfObserveModeAreThoseKindsToTheLetter) {
  const std::string file =
      std::string(MONKEYTREE_SOURCE_DIR) + "/packaging/kubernetes/observe/rights.yaml";
  std::string text = *read_file(file);
  const size_t begin = text.find("---\n") + 4;
  text = text.substr(begin, text.find("---\n", begin) - begin);
  Diagnostics diagnostics;
  const auto root = parse_yaml(text, file, diagnostics);
  ASSERT_TRUE(root) << diagnostics.text();
  const YamlMap role = root->map();
  EXPECT_TRUE(role.find("kind")->is("ClusterRole"));
  std::set<std::string> allowed;
  const std::optional<std::vector<YamlValue>> rules = role.find("rules")->list();
  ASSERT_TRUE(rules);
  for (const YamlValue& item : *rules) {
    const YamlMap rule = item.map({"apiGroups", "resources", "verbs"});
    EXPECT_EQ(texts(rule, "verbs"), (std::set<std::string>{"get", "list", "watch"}));
    for (const std::string& group : texts(rule, "apiGroups")) {
      for (const std::string& plural : texts(rule, "resources")) {
        allowed.insert(group + "/" + plural);
      }
    }
  }
  std::set<std::string> read;
  for (const KubeKindRow& row : kube_kinds()) {
    read.insert(std::string(row.group) + "/" + std::string(row.plural));
  }
  EXPECT_EQ(allowed, read);
  EXPECT_EQ(diagnostics.text(), "");
}

}  // namespace
}  // namespace monkeytree
