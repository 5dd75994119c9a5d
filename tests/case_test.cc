/// Runs text cases (tests/cases/README.md). Usage: case_test [FILE…]; without files every *.case
/// of tests/cases. Says file:line for what does not hold and goes on with the next line.

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "case_cluster.h"
#include "case_expect.h"

namespace monkeytree::cases {
namespace {

std::vector<std::string> words_of(std::string line) {
  line.resize(std::min(line.size(), line.find('#')));
  std::istringstream in(line);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

struct Tally {
  int expectations = 0;
  int failures = 0;
};

/// One line. False where going on makes no sense, because the cluster is not what was meant.
bool run_line(CaseCluster& cluster, const std::vector<std::string>& words, bool& in_rows,
              const std::string& place, Tally& tally) {
  const bool is_expectation = words[0] == "expect";
  try {
    if (is_expectation) {
      in_rows = false;
      ++tally.expectations;
      expect(cluster, Words(words).subspan(1));
    } else if (words[0] == "apply") {
      in_rows = false;
      apply_plan(cluster);
    } else if (cluster.change(words)) {
      in_rows = false;
    } else if (in_rows) {
      cluster.add_row(words);
    } else {
      throw CaseError(
          fmt::format("'{}' is neither a known line nor, after a blank one, a rack", words[0]));
    }
    return true;
  } catch (const CaseError& error) {
    fmt::print("{}: {}\n", place, error.what());
    ++tally.failures;
    return is_expectation;
  }
}

void run_file(const std::string& path, Tally& tally) {
  std::ifstream in(path);
  if (!in) {
    fmt::print("{}: cannot be read\n", path);
    ++tally.failures;
    return;
  }
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  CaseCluster cluster(folder.empty() ? "." : folder.string());
  bool in_rows = true;
  const int before = tally.expectations;
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    const std::vector<std::string> words = words_of(line);
    if (words.empty()) {
      // So that a directive with a typo is not taken for one more rack.
      if (cluster.has_rows()) in_rows = false;
      continue;
    }
    if (!run_line(cluster, words, in_rows, fmt::format("{}:{}", path, number), tally)) return;
  }
  if (tally.expectations == before) {
    fmt::print("{}: expects nothing\n", path);
    ++tally.failures;
  }
}

int run(std::vector<std::string> files) {
  if (files.empty()) {
    const std::string folder = MONKEYTREE_SOURCE_DIR "/tests/cases";
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      if (entry.path().extension() == ".case") files.push_back(entry.path().string());
    }
    std::sort(files.begin(), files.end());
  }
  Tally tally;
  for (const std::string& file : files) run_file(file, tally);
  fmt::print("{} cases, {} expectations, {} failures\n", files.size(), tally.expectations,
             tally.failures);
  return files.empty() || tally.failures > 0 ? 1 : 0;
}

}  // namespace
}  // namespace monkeytree::cases

int main(int argc, char** argv) {
  return monkeytree::cases::run(std::vector<std::string>(argv + 1, argv + argc));
}
