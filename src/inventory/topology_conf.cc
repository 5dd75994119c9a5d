#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <utility>

#include "base/json.h"
#include "inventory/topology.h"

namespace monkeytree {
namespace {

bool all_blank(std::string_view text) { return std::all_of(text.begin(), text.end(), is_blank); }

/// Why slurmctld refuses a LinkSpeed; "" where it takes it (any base that C knows, 32 bits).
std::string link_speed_fault(std::string_view value) {
  if (same_key(value, "infinite") || same_key(value, "unlimited")) return "";
  const std::string text(value);
  char* end = nullptr;
  errno = 0;
  const long long number = std::strtoll(text.c_str(), &end, 0);
  if (text.empty() || *end != '\0') return "is no whole number";
  if (number < 0) return "is less than zero";
  if (errno == ERANGE || number > 4294967295LL) return "is greater than 4294967295";
  return "";
}

/// The lines of one topology.conf.
class ConfParser {
 public:
  explicit ConfParser(Diagnostics& diagnostics) : diagnostics_(diagnostics) {}

  void parse(const ConfLine& line) {
    line_ = &line;
    std::string_view rest = line.text;
    while (true) {
      const std::optional<ConfPair> pair = take_pair(rest);
      if (!pair) break;
      if (same_key(pair->key, "SwitchName")) {
        if (!definition(*pair, rest, /*block=*/false)) return;
      } else if (same_key(pair->key, "BlockName")) {
        if (!definition(*pair, rest, /*block=*/true)) return;
      } else if (same_key(pair->key, "BlockSizes") || same_key(pair->key, "BlockLevels")) {
        block_line_ = line.line;
      } else {
        return unknown_key(pair->key, "SwitchName, BlockName, BlockSizes or an Include line");
      }
    }
    if (!all_blank(rest)) error(leftover_fault(rest));
  }

  /// The switches of all lines; those of faulty lines too, so that their names are known.
  std::vector<SwitchSpec> take_specs() { return std::move(specs_); }
  bool blocks() const { return block_line_ != 0; }

  void check_one_kind(const std::string& file, bool faultless) {
    if (switch_line_ == 0 && block_line_ == 0) {
      if (!faultless) return;
      diagnostics_.error(file, 0, "", "holds no switches and no blocks");
    } else if (switch_line_ != 0 && block_line_ != 0) {
      diagnostics_.error(file, std::max(switch_line_, block_line_), "",
                         "switches and blocks in one file, expected SwitchName or BlockName lines");
    }
  }

 private:
  void error(std::string message) {
    diagnostics_.error(line_->file, line_->line, "", std::move(message));
  }

  void unknown_key(std::string_view key, std::string_view expected) {
    std::string message = fmt::format("unknown key {}, expected {}", quote(key), expected);
    if (same_key(key, "Level") || same_key(key, "BlockIndex")) {
      message += " (this looks like `scontrol show topology`, which is not topology.conf)";
    }
    error(std::move(message));
  }

  static std::string leftover_fault(std::string_view rest) {
    while (!rest.empty() && is_blank(rest.front())) rest.remove_prefix(1);
    if (rest.substr(0, 3) == "\xef\xbb\xbf") return "byte order mark, expected Key=Value";
    if (same_key(rest.substr(0, 8), "include ")) {
      return fmt::format("{}: an Include must start in the line's first column", quote(rest));
    }
    return fmt::format("{}: expected Key=Value", quote(rest));
  }

  /// The rest of a SwitchName or BlockName line; false after an error.
  bool definition(const ConfPair& name, std::string_view& rest, bool block) {
    (block ? block_line_ : switch_line_) = line_->line;
    specs_.push_back({std::string(name.value), line_->file, line_->line, {}, {}});
    SwitchSpec& spec = specs_.back();
    const bool good = fields(spec, rest, block) && children_given(spec, block);
    if (!good) spec = {spec.name, spec.file, spec.line, "", {}};  // a name without a fault
    if (block && !spec.nodes) spec.nodes = "";
    return good;
  }

  bool fields(SwitchSpec& spec, std::string_view& rest, bool block) {
    while (const std::optional<ConfPair> pair = take_pair(rest)) {
      if (same_key(pair->key, "Nodes")) {
        set(spec.nodes, *pair);
      } else if (!block && same_key(pair->key, "Switches")) {
        set(spec.children, *pair);
      } else if (!block && same_key(pair->key, "LinkSpeed")) {
        const std::string fault = link_speed_fault(pair->value);
        if (fault.empty()) continue;
        error(fmt::format("LinkSpeed {} {}", quote(pair->value), fault));
        return false;
      } else {
        unknown_key(pair->key, block ? "Nodes" : "Nodes, Switches or LinkSpeed");
        return false;
      }
    }
    if (all_blank(rest)) return true;
    error(leftover_fault(rest));
    return false;
  }

  void set(std::optional<std::string>& field, const ConfPair& pair) {
    if (field) {
      diagnostics_.warning(line_->file, line_->line, "",
                           fmt::format("{} given twice, the last counts", pair.key));
    }
    field = std::string(pair.value);
  }

  bool children_given(const SwitchSpec& spec, bool block) {
    if (spec.nodes && spec.children) {
      error(fmt::format("switch {} has both Nodes and Switches, expected one of them",
                        quote(spec.name)));
      return false;
    }
    if (!block && !spec.nodes && !spec.children) {
      error(fmt::format("switch {} has neither Nodes nor Switches", quote(spec.name)));
      return false;
    }
    return true;
  }

  Diagnostics& diagnostics_;
  const ConfLine* line_ = nullptr;
  std::vector<SwitchSpec> specs_;
  int switch_line_ = 0;  ///< the last line that speaks of switches
  int block_line_ = 0;
};

}  // namespace

std::optional<Topology> read_topology_conf(const std::string& file, const ReadText& read,
                                           Diagnostics& diagnostics) {
  const size_t before = diagnostics.error_count();
  const std::vector<ConfLine> lines = read_conf_lines(file, read, diagnostics);
  if (diagnostics.error_count() > before) return std::nullopt;  // half a file is not worth judging
  ConfParser parser(diagnostics);
  for (const ConfLine& line : lines) parser.parse(line);
  parser.check_one_kind(file, diagnostics.error_count() == before);
  const bool blocks = parser.blocks();
  std::optional<Topology> topology = check_topology(parser.take_specs(), blocks, diagnostics);
  if (diagnostics.error_count() > before) return std::nullopt;
  return topology;
}

}  // namespace monkeytree
