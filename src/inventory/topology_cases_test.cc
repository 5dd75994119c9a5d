#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "base/file.h"
#include "base/hostlist.h"
#include "inventory/import.h"
#include "inventory/topology.h"

/// tests/topology: awkward topology files and how slurmctld 22.05.8 reads them. expected.txt of
/// each folder: `known NODES` of its slurm.conf, then either `error FINDING` lines or what the file
/// holds: `leaf NAME NODES` as written, `members NAME NODES` of those that Slurm knows,
/// `parent NAME CHILDREN`, and `finding TEXT` lines that must be among the findings. '#' is a
/// remark.
namespace monkeytree {
namespace {

namespace fs = std::filesystem;
using Names = std::set<std::string>;

struct Expected {
  std::vector<std::string> known;
  std::vector<std::string> errors, findings;
  std::map<std::string, Names> leaves, members, parents;
};

Names expand(const std::string& text) {
  absl::StatusOr<std::vector<std::string>> names = expand_hostlist(text);
  EXPECT_TRUE(names.ok()) << text;
  return names.ok() ? Names(names->begin(), names->end()) : Names();
}

Names words(std::istringstream& rest, bool lists) {
  Names out;
  for (std::string word; rest >> word;) {
    if (lists && word.find('[') != std::string::npos) {
      out.merge(expand(word));
    } else {
      out.insert(word);
    }
  }
  return out;
}

Expected read_expected(const fs::path& folder) {
  Expected expected;
  std::istringstream text(*read_file(folder / "expected.txt"));
  for (std::string line; std::getline(text, line);) {
    std::istringstream rest(line);
    std::string kind, name;
    rest >> kind;
    if (kind.empty() || kind[0] == '#') continue;
    if (kind == "known") {
      for (const std::string& node : words(rest, true)) expected.known.push_back(node);
    } else if (kind == "error" || kind == "finding") {
      (kind == "error" ? expected.errors : expected.findings)
          .push_back(line.substr(kind.size() + 1));
    } else {
      rest >> name;
      auto& map = kind == "leaf"      ? expected.leaves
                  : kind == "members" ? expected.members
                                      : expected.parents;
      map[name] = words(rest, kind != "parent");
    }
  }
  return expected;
}

/// Findings with paths cut to the file's name, so that they do not depend on where the tree is.
std::vector<std::string> findings_of(const Diagnostics& diagnostics, const fs::path& folder) {
  std::vector<std::string> out;
  for (Finding finding : diagnostics.findings()) {
    std::string text = finding.text();
    const std::string prefix = folder.string() + "/";
    for (size_t at = 0; (at = text.find(prefix)) != std::string::npos;)
      text.erase(at, prefix.size());
    out.push_back(text);
  }
  return out;
}

class TopologyCase : public ::testing::TestWithParam<std::string> {
 protected:
  fs::path folder() const {
    return fs::path(MONKEYTREE_SOURCE_DIR) / "tests/topology" / GetParam();
  }
  static std::string joined(const std::vector<std::string>& lines) {
    std::string out;
    for (const std::string& line : lines) out += line + "\n";
    return out;
  }
};

TEST_P(TopologyCase, IsReadAsSlurmctldReadsIt) {
  const Expected expected = read_expected(folder());
  Diagnostics diagnostics;
  const ReadText read = [](const std::string& name) { return read_file(name); };
  const std::optional<Topology> topology =
      read_topology((folder() / "topology.conf").string(), "", read, diagnostics);
  const std::vector<std::string> findings = findings_of(diagnostics, folder());
  if (!expected.errors.empty()) {
    EXPECT_FALSE(topology.has_value());
    EXPECT_EQ(joined(findings), joined(expected.errors));
    return;
  }
  ASSERT_TRUE(topology.has_value()) << diagnostics.text();
  for (const std::string& wanted : expected.findings) {
    EXPECT_NE(std::find(findings.begin(), findings.end(), wanted), findings.end())
        << wanted << "\nis not among\n"
        << joined(findings);
  }
  if (expected.findings.empty()) {
    EXPECT_EQ(joined(findings), "");
  }
  std::map<std::string, Names> leaves, parents;
  for (const TopologySwitch& s : topology->switches) {
    (s.leaf ? leaves : parents)[s.name] = s.leaf ? Names(s.nodes.begin(), s.nodes.end())
                                                 : Names(s.children.begin(), s.children.end());
  }
  EXPECT_EQ(leaves, expected.leaves);
  EXPECT_EQ(parents, expected.parents);
}

/// The racks of an import whose --nodes names the nodes of slurm.conf.
TEST_P(TopologyCase, GivesSlurmsRacks) {
  const Expected expected = read_expected(folder());
  if (!expected.errors.empty()) return;
  const std::string jobs = ::testing::TempDir() + "topology_cases_jobs.json";
  const std::string nodes = ::testing::TempDir() + "topology_cases_nodes.txt";
  std::string text;
  for (const std::string& name : expected.known) text += "NodeName=" + name + " State=IDLE\n";
  ASSERT_TRUE(write_file(jobs, "{\"jobs\": []}").ok());
  ASSERT_TRUE(write_file(nodes, text).ok());
  Diagnostics diagnostics;
  const std::optional<Snapshot> snapshot =
      import_slurm({(folder() / "topology.conf").string(), jobs, nodes, "2", ""}, diagnostics);
  ASSERT_TRUE(snapshot.has_value()) << diagnostics.text();
  std::map<std::string, Names> members;
  for (const Rack& rack : snapshot->racks) {
    Names& names = members[rack.name];
    for (NodeId node : rack.nodes) names.insert(snapshot->nodes[node].name);
  }
  EXPECT_EQ(members, expected.members);
}

std::vector<std::string> all_cases() {
  std::vector<std::string> names;
  for (const auto& entry :
       fs::directory_iterator(fs::path(MONKEYTREE_SOURCE_DIR) / "tests/topology")) {
    if (entry.is_directory()) names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string test_name(const ::testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Topology, TopologyCase, ::testing::ValuesIn(all_cases()), test_name);

}  // namespace
}  // namespace monkeytree
