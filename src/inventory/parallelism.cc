#include "inventory/parallelism.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/json.h"
#include "inventory/slurm_conf.h"

namespace monkeytree {
namespace {

constexpr int kMaxDegree = 1 << 20;  ///< no job has a dimension as large as this

bool ends_word(char c) { return c == ',' || c == ';' || is_blank(c); }

std::optional<int> parse_int(std::string_view text, int low) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  if (value < low || value > kMaxDegree) return std::nullopt;
  return value;
}

class CommentParser {
 public:
  explicit CommentParser(std::vector<std::string>& faults) : faults_(faults) {}

  CommentFacts parse(std::string_view comment) {
    const size_t before = faults_.size();
    while (!comment.empty()) {
      const auto end = std::find_if(comment.begin(), comment.end(), ends_word);
      const size_t length = static_cast<size_t>(end - comment.begin());
      word(comment.substr(0, length));
      comment.remove_prefix(std::min(length + 1, comment.size()));
    }
    if (faults_.size() > before) facts_.dp = facts_.tp = facts_.pp = facts_.rings = std::nullopt;
    return std::move(facts_);
  }

 private:
  void word(std::string_view text) {
    const size_t equals = text.find('=');
    if (equals == std::string_view::npos) return;
    const std::string_view key = text.substr(0, equals);
    const std::string_view value = text.substr(equals + 1);
    if (same_key(key, "dp")) return number(facts_.dp, key, value, 1);
    if (same_key(key, "tp")) return number(facts_.tp, key, value, 1);
    if (same_key(key, "pp")) return number(facts_.pp, key, value, 1);
    if (same_key(key, "rings")) return number(facts_.rings, key, value, 1);
    if (same_key(key, "group")) return number(facts_.group, key, value, 0);
    if (same_key(key, "worker")) return number(facts_.worker, key, value, 0);
    if (same_key(key, "companion-of")) {
      if (value.empty()) return fault(key, value, "a job id");
      facts_.companion_of = std::string(value);
    } else if (same_key(key, "monkeytree")) {
      if (same_key(value, "off")) {
        facts_.movable = false;
      } else if (!same_key(value, "on")) {
        fault(key, value, "on or off");
      }
    }
  }

  void number(std::optional<int>& field, std::string_view key, std::string_view value, int low) {
    const std::optional<int> parsed = parse_int(value, low);
    if (!parsed) return fault(key, value, low == 0 ? "a number from 0" : "a number from 1");
    if (field && *field != *parsed) {
      faults_.push_back(fmt::format("{}={} after {}={}, expected one of them", printable(key),
                                    *parsed, printable(key), *field));
    }
    field = parsed;
  }

  void fault(std::string_view key, std::string_view value, std::string_view expected) {
    faults_.push_back(fmt::format("{}={}: expected {}", printable(key), quote(value), expected));
  }

  std::vector<std::string>& faults_;
  CommentFacts facts_;
};

}  // namespace

CommentFacts parse_comment(std::string_view comment, std::vector<std::string>& faults) {
  return CommentParser(faults).parse(comment);
}

namespace {

constexpr std::string_view kRanksKey = "monkeytree-ranks=";
constexpr std::string_view kHeldKey = "monkeytree-held=";

/// Where a word of an admin comment starts and ends, key included; nullopt where there is none.
struct WordPlace {
  size_t start, end;
};
std::optional<WordPlace> find_word(std::string_view comment, std::string_view key) {
  size_t at = comment.find(key);
  while (at != std::string_view::npos && at > 0 && !ends_word(comment[at - 1])) {
    at = comment.find(key, at + 1);
  }
  if (at == std::string_view::npos) return std::nullopt;
  const auto end = std::find_if(comment.begin() + static_cast<std::ptrdiff_t>(at), comment.end(),
                                [](char c) { return c == ';' || is_blank(c); });
  return WordPlace{at, static_cast<size_t>(end - comment.begin())};
}

std::string_view value_of(std::string_view comment, WordPlace place, std::string_view key) {
  return comment.substr(place.start + key.size(), place.end - place.start - key.size());
}

std::string without_word(std::string comment, std::string_view key) {
  for (auto place = find_word(comment, key); place; place = find_word(comment, key)) {
    const bool blank_before = place->start > 0 && is_blank(comment[place->start - 1]);
    if (blank_before) --place->start;
    comment.erase(place->start, place->end - place->start);
  }
  return comment;
}

}  // namespace

std::optional<std::string> ranks_of_admin_comment(std::string_view comment) {
  const std::optional<WordPlace> place = find_word(comment, kRanksKey);
  if (!place) return std::nullopt;
  return std::string(value_of(comment, *place, kRanksKey));
}

std::vector<HeldNode> held_of_admin_comment(std::string_view comment) {
  const std::optional<WordPlace> place = find_word(comment, kHeldKey);
  std::vector<HeldNode> out;
  if (!place) return out;
  std::string_view list = value_of(comment, *place, kHeldKey);
  while (!list.empty()) {
    const size_t end = std::min(list.find(','), list.size());
    const std::string_view item = list.substr(0, end);
    list.remove_prefix(std::min(end + 1, list.size()));
    const size_t slash = item.find('/');
    const size_t at = item.find('@');
    if (slash == std::string_view::npos || at == std::string_view::npos || at < slash) continue;
    const std::optional<int> group = parse_int(item.substr(0, slash), 0);
    const std::optional<int> worker = parse_int(item.substr(slash + 1, at - slash - 1), 0);
    if (!group || !worker || at + 1 == item.size()) continue;
    out.push_back({*group, *worker, std::string(item.substr(at + 1))});
  }
  return out;
}

std::string with_ranks(std::string_view comment, const std::vector<std::string>& order,
                       const std::vector<HeldNode>& held) {
  std::string out = without_word(without_word(std::string(comment), kRanksKey), kHeldKey);
  const auto add = [&out](std::string_view key, const std::string& value) {
    if (value.empty()) return;
    if (!out.empty() && !is_blank(out.back()) && out.back() != ';') out += ' ';
    out += key;
    out += value;
  };
  std::string ranks, nodes;
  for (const std::string& node : order) {
    if (!ranks.empty()) ranks += ',';
    ranks += node.empty() ? std::string(kStagedWorker) : node;
  }
  for (const HeldNode& node : held) {
    if (!nodes.empty()) nodes += ',';
    nodes += fmt::format("{}/{}@{}", node.group, node.worker, node.node);
  }
  add(kRanksKey, ranks);
  add(kHeldKey, nodes);
  return out;
}

std::vector<Stage> spread_stages(int64_t ranks_per_stage, int64_t stages,
                                 const std::vector<int>& ranks_on) {
  std::vector<Stage> out(static_cast<size_t>(stages));
  size_t stage = 0;
  int64_t room = ranks_per_stage;
  for (size_t node = 0; node < ranks_on.size(); ++node) {
    int64_t left = ranks_on[node];
    while (left > 0 && stage < out.size()) {
      const int64_t taken = std::min(left, room);
      out[stage].push_back({node, static_cast<int>(taken)});
      left -= taken;
      room -= taken;
      if (room > 0) continue;
      ++stage;
      room = ranks_per_stage;
    }
  }
  return out;
}

}  // namespace monkeytree
