#include "inventory/slurm_nodes.h"

#include <absl/container/flat_hash_map.h>
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/hostlist.h"
#include "base/json.h"
#include "inventory/json_stream.h"
#include "inventory/slurm_conf.h"
#include "inventory/slurm_value.h"

namespace monkeytree {
namespace {

using simdjson::dom::element;

struct StateWord {
  std::string_view word;
  NodeState state;
};

constexpr StateWord kStateWords[] = {
    {"IDLE", NodeState::kUp},
    {"ALLOCATED", NodeState::kUp},
    {"ALLOC", NodeState::kUp},
    {"MIXED", NodeState::kUp},
    {"MIX", NodeState::kUp},
    {"PLANNED", NodeState::kUp},
    {"CLOUD", NodeState::kUp},
    {"DYNAMIC", NodeState::kUp},
    {"DYNAMIC_NORM", NodeState::kUp},
    {"DYNAMIC_FUTURE", NodeState::kUp},
    {"POWERED_UP", NodeState::kUp},
    {"UNDRAIN", NodeState::kUp},
    {"RESUME", NodeState::kUp},
    {"NET", NodeState::kUp},
    {"RES", NodeState::kReserved},
    {"RESV", NodeState::kReserved},
    {"RESERVED", NodeState::kReserved},
    {"COMPLETING", NodeState::kReserved},
    {"COMP", NodeState::kReserved},
    {"BLOCKED", NodeState::kReserved},
    {"PERFCTRS", NodeState::kReserved},
    {"NPC", NodeState::kReserved},
    {"DRAIN", NodeState::kDrain},
    {"DRAINED", NodeState::kDrain},
    {"DRAINING", NodeState::kDrain},
    {"DRNG", NodeState::kDrain},
    {"FAIL", NodeState::kDrain},
    {"FAILING", NodeState::kDrain},
    {"FAILG", NodeState::kDrain},
    {"MAINT", NodeState::kDrain},
    {"MAINTENANCE", NodeState::kDrain},
    {"REBOOT", NodeState::kDrain},
    {"REBOOT_REQUESTED", NodeState::kDrain},
    {"REBOOT_CANCEL", NodeState::kUp},
    {"EXTERNAL", NodeState::kReserved},
    {"REBOOT_ISSUED", NodeState::kDown},
    {"DOWN", NodeState::kDown},
    {"NO_RESPOND", NodeState::kDown},
    {"NOT_RESPONDING", NodeState::kDown},
    {"POWERED_DOWN", NodeState::kDown},
    {"POWERING_DOWN", NodeState::kDown},
    {"POWERING_UP", NodeState::kDown},
    {"POWER_DOWN", NodeState::kDown},
    {"POWER_UP", NodeState::kDown},
    {"POWER_DRAIN", NodeState::kDown},
    {"POW_DN", NodeState::kDown},
    {"POW_UP", NodeState::kDown},
    {"FUTURE", NodeState::kDown},
    {"FUTR", NodeState::kDown},
    {"ERROR", NodeState::kDown},
    {"UNKNOWN", NodeState::kDown},
    {"UNK", NodeState::kDown},
    {"INVAL", NodeState::kDown},
    {"INVALID", NodeState::kDown},
    {"INVALID_REG", NodeState::kDown},
    {"EXTERNAL_DOWN", NodeState::kDown},
};

/// A mark after a state's word: "DOWN*", "IDLE~".
std::optional<NodeState> state_of_mark(char mark) {
  switch (mark) {
    case '*':  // not responding
    case '~':  // powered down
    case '#':  // powering up
    case '%':  // powering down
    case '!':  // power down pending
    case '^':  // reboot issued
      return NodeState::kDown;
    case '$':  // in a maintenance reservation
    case '@':  // reboot pending
      return NodeState::kDrain;
    case '-':  // planned
      return NodeState::kUp;
    default:
      return std::nullopt;
  }
}

int badness(NodeState state) {
  switch (state) {
    case NodeState::kUp:
      return 0;
    case NodeState::kReserved:
      return 1;
    case NodeState::kDrain:
      return 2;
    case NodeState::kDown:
      return 3;
  }
  return 3;
}

NodeState worse(NodeState a, NodeState b) { return badness(a) >= badness(b) ? a : b; }

class NodesReader {
 public:
  NodesReader(std::string_view file, Diagnostics& diagnostics)
      : file_(file), diagnostics_(diagnostics) {}

  void read_json(std::string_view text) {
    const auto fields = read_json_pieces(bytes_of(text), file_, diagnostics_,
                                         [&](const JsonPiece& piece) { take(piece); });
    if (fields && !fields->contains("nodes") && !fields->contains("sinfo")) {
      diagnostics_.error(file_, 0, "",
                         "no field \"nodes\", expected what `scontrol show nodes --json` or "
                         "`sinfo --json` prints");
    }
  }

  /// `scontrol show node`: a record starts with NodeName=, fields are parted by blanks.
  void read_text(std::string_view text) {
    int line = 0;
    while (!text.empty()) {
      const size_t end = std::min(text.find('\n'), text.size());
      read_line(text.substr(0, end), ++line);
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    end_record();
    if (nodes_.empty() && !diagnostics_.has_errors()) {
      diagnostics_.error(file_, 0, "",
                         "no nodes, expected what `scontrol show node` or `sinfo --json` prints");
    }
  }

  std::vector<SlurmNode> finish() {
    if (!unknown_.empty()) {
      std::string words;
      for (const std::string& word : unknown_) words += (words.empty() ? "" : ", ") + quote(word);
      diagnostics_.warning(
          file_, 0, "", fmt::format("unknown node states {}; such nodes count as reserved", words));
    }
    return std::move(nodes_);
  }

 private:
  void error(const JsonPiece& piece, std::string message) {
    diagnostics_.error(file_, piece.line, piece.path(), std::move(message));
  }

  void take(const JsonPiece& piece) {
    const bool grouped = piece.key == "sinfo";
    if (!grouped && piece.key != "nodes") return;
    if (piece.index < 0) return error(piece, "expected a list of nodes");
    if (!piece.value.is_object()) return error(piece, "expected a node, an object");
    const SlurmObject fields(piece.value);
    if (const std::optional<std::string_view> key = fields.repeated_key()) {
      return error(piece, fmt::format("the field {} stands there twice", quote(*key)));
    }
    if (grouped) return take_group(piece, fields);
    const std::string name = slurm_text(fields["name"]);
    if (name.empty()) return error(piece, "no name, expected a node");
    std::vector<std::string> words = slurm_words(fields["state"]);
    for (std::string& flag : slurm_words(fields["state_flags"])) words.push_back(std::move(flag));
    if (words.empty()) return error(piece, fmt::format("node {}: no state", quote(name)));
    add({name}, words, slurm_text(fields["gres"]));
  }

  /// Nodes that are alike: {"nodes":{"nodes":[…]}, "node":{"state":[…]}, "gres":{"total":…}}.
  void take_group(const JsonPiece& piece, const SlurmObject& fields) {
    const auto within = [&](std::string_view outer, std::string_view inner) {
      const std::optional<element> object = fields[outer];
      return object && object->is_object() ? field(*object, inner) : std::nullopt;
    };
    const std::string list = slurm_text(within("nodes", "nodes"));
    absl::StatusOr<std::vector<std::string>> names = expand_hostlist(list);
    if (!names.ok()) {
      return error(piece,
                   fmt::format("nodes {}: {}", quote(list), std::string(names.status().message())));
    }
    if (names->empty()) return;  // an empty partition
    const std::vector<std::string> words = slurm_words(within("node", "state"));
    if (words.empty()) return error(piece, fmt::format("nodes {}: no state", quote(list)));
    add(*names, words, slurm_text(within("gres", "total")));
  }

  void add(const std::vector<std::string>& names, const std::vector<std::string>& words,
           std::string_view gres) {
    std::vector<std::string> unknown;
    SlurmNode node;
    node.state = node_state(words, unknown);
    node.allocated = std::any_of(words.begin(), words.end(),
                                 [](const std::string& word) { return word.starts_with("ALLOC"); });
    for (std::string& word : unknown) {
      if (unknown_.size() < 10) unknown_.insert(std::move(word));
    }
    const Gpus gpus = parse_gpus(gres);
    node.gpus = gpus.count;
    node.gpu_type = gpus.type;
    for (const std::string& name : names) {
      const auto [known, is_new] = by_name_.emplace(name, nodes_.size());
      if (is_new) {
        nodes_.push_back(node);
        nodes_.back().name = name;
      } else {
        SlurmNode& before = nodes_[known->second];
        before.state = worse(before.state, node.state);
        before.allocated = before.allocated || node.allocated;
      }
    }
  }

  void read_line(std::string_view line, int number) {
    bool at_start = true;
    while (!line.empty()) {
      while (!line.empty() && is_blank(line.front())) line.remove_prefix(1);
      const size_t end =
          static_cast<size_t>(std::find_if(line.begin(), line.end(), is_blank) - line.begin());
      const std::string_view token = line.substr(0, end);
      line.remove_prefix(end);
      if (at_start && token.starts_with("NodeName=")) {
        end_record();
        record_name_ = token.substr(9);
        record_line_ = number;
      } else if (at_start && !token.empty() && record_line_ == 0) {
        if (!std::exchange(complained_, true)) {
          diagnostics_.error(file_, number, "",
                             fmt::format("{}: expected NodeName=, as `scontrol show node` prints "
                                         "it, or JSON",
                                         quote(token)));
        }
        return;
      } else if (token.starts_with("State=") && record_state_.empty()) {
        record_state_ = token.substr(6);
      } else if (token.starts_with("Gres=") && record_gres_.empty()) {
        record_gres_ = token.substr(5);
      } else if (token.starts_with("Reason=") || token.starts_with("Comment=") ||
                 token.starts_with("Extra=")) {
        return;  // free text to the line's end
      }
      at_start = false;
    }
  }

  void end_record() {
    if (record_line_ == 0) return;
    const std::vector<std::string> words = split_states(record_state_);
    if (record_name_.empty() || words.empty()) {
      diagnostics_.error(file_, record_line_, "",
                         fmt::format("node {}: no {}", quote(record_name_),
                                     record_name_.empty() ? "name" : "State="));
    } else {
      add({std::string(record_name_)}, words, record_gres_);
    }
    record_name_ = record_state_ = record_gres_ = {};
    record_line_ = 0;
  }

  std::string_view file_;
  Diagnostics& diagnostics_;
  std::vector<SlurmNode> nodes_;
  absl::flat_hash_map<std::string, size_t> by_name_;
  std::set<std::string> unknown_;
  std::string_view record_name_, record_state_, record_gres_;
  int record_line_ = 0;  ///< 0 outside a record
  bool complained_ = false;
};

}  // namespace

NodeState node_state(const std::vector<std::string>& words, std::vector<std::string>& unknown) {
  NodeState state = NodeState::kUp;
  for (std::string_view word : words) {
    const std::string_view whole = word;
    while (!word.empty()) {
      const std::optional<NodeState> mark = state_of_mark(word.back());
      if (!mark) break;
      state = worse(state, *mark);
      word.remove_suffix(1);
    }
    if (word.empty()) continue;
    const auto* const known =
        std::find_if(std::begin(kStateWords), std::end(kStateWords),
                     [&](const StateWord& entry) { return entry.word == word; });
    if (known == std::end(kStateWords)) unknown.emplace_back(whole);
    state = worse(state, known == std::end(kStateWords) ? NodeState::kReserved : known->state);
  }
  return state;
}

std::optional<std::vector<SlurmNode>> read_slurm_nodes(std::string_view text, std::string_view file,
                                                       Diagnostics& diagnostics) {
  const size_t before = diagnostics.error_count();
  NodesReader reader(file, diagnostics);
  const auto first = std::find_if_not(text.begin(), text.end(), is_blank);
  if (first == text.end()) {
    diagnostics.error(file, 0, "",
                      "empty, expected what `scontrol show node` or `sinfo --json` prints");
  } else if (*first == '{' || *first == '[') {
    reader.read_json(text);
  } else {
    reader.read_text(text);
  }
  std::vector<SlurmNode> nodes = reader.finish();
  if (diagnostics.error_count() > before) return std::nullopt;
  return nodes;
}

}  // namespace monkeytree
