#include "cluster/letters.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <sstream>
#include <vector>

#include "cluster/picture.h"

namespace monkeytree {
namespace {

/// The state of a place without a worker; nullopt where the word is a job.
std::optional<NodeState> free_state(std::string_view word) {
  for (NodeState state :
       {NodeState::kUp, NodeState::kDrain, NodeState::kDown, NodeState::kReserved}) {
    if (word.size() == 1 && word[0] == free_cell(state)) return state;
  }
  return std::nullopt;
}

/// The words of a row after its name; letters that stand together are a word each.
std::vector<std::string> places(std::istringstream& row) {
  std::vector<std::string> words;
  for (std::string word; row >> word;) words.push_back(word);
  if (words.size() != 1) return words;
  std::vector<std::string> letters;
  for (char letter : words[0]) letters.emplace_back(1, letter);
  return letters;
}

class LettersReader {
 public:
  explicit LettersReader(const LetterOptions& options) : options_(options) {
    out_.classes.push_back("default");
    out_.islands.push_back("");
  }

  /// What is wrong with the row; empty where nothing is.
  std::string add_row(const std::string& text) {
    std::istringstream row(text);
    Rack rack;
    if (!(row >> rack.name)) return "";
    for (const Rack& other : out_.racks) {
      if (other.name == rack.name) return fmt::format("a second rack '{}'", rack.name);
    }
    const RackId id(out_.racks.size());
    for (const std::string& word : places(row)) {
      Node node{fmt::format("{}/{}", rack.name, rack.nodes.size() + 1), id};
      const std::optional<NodeState> state = free_state(word);
      if (state) node.state = *state;
      const NodeId node_id = out_.nodes.push_back(std::move(node));
      rack.nodes.push_back(node_id);
      if (state) continue;
      if (!std::isalnum(static_cast<unsigned char>(word[0]))) {
        return fmt::format("'{}' in a row, expected a letter, a digit, or one of . - ! =", word);
      }
      out_.groups[group_of(word)].workers.push_back(node_id);
    }
    out_.racks.push_back(std::move(rack));
    return "";
  }

  absl::StatusOr<Snapshot> finish() {
    for (const auto& [job, rings] : options_.rings) {
      const auto at = groups_.find(job);
      if (at == groups_.end()) {
        return absl::InvalidArgumentError(fmt::format("rings for job '{}', which is nowhere", job));
      }
      out_.groups[at->second].rings = rings;
    }
    out_.set_uplinks(options_.uplinks);
    return std::move(out_);
  }

 private:
  GroupId group_of(const std::string& id) {
    const auto [at, fresh] = groups_.try_emplace(id, GroupId(out_.groups.size()));
    if (fresh) {
      Job job;
      job.id = id;
      job.first_group = at->second;
      job.group_count = 1;
      Group group;
      group.job = out_.jobs.push_back(std::move(job));
      out_.groups.push_back(std::move(group));
    }
    return at->second;
  }

  const LetterOptions& options_;
  Snapshot out_;
  std::map<std::string, GroupId> groups_;
};

}  // namespace

absl::StatusOr<Snapshot> parse_letters(std::string_view rows, const LetterOptions& options) {
  LettersReader reader(options);
  std::istringstream lines{std::string(rows)};
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    const std::string fault = reader.add_row(line);
    if (!fault.empty()) {
      return absl::InvalidArgumentError(fmt::format("line {}: {}", number, fault));
    }
  }
  return reader.finish();
}

std::string write_letters(const Snapshot& snapshot) {
  std::vector<JobId> jobs;
  for (JobId job : snapshot.jobs.keys()) jobs.push_back(job);
  const IdVector<JobId, char> letters = letters_for(snapshot, jobs);
  const Picture picture(snapshot);
  size_t width = 0;
  for (const Rack& rack : snapshot.racks) width = std::max(width, rack.name.size());
  std::string out;
  for (RackId rack : snapshot.racks.keys()) {
    out += fmt::format("{:<{}} ", snapshot.racks[rack].name, width);
    for (const Cell& cell : picture.cells(rack, CellOf::kSlot)) {
      out += cell.job.valid() ? letters[cell.job] : free_cell(snapshot.nodes[cell.node].state);
    }
    out += "\n";
  }
  return out;
}

}  // namespace monkeytree
