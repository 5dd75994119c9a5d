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

std::optional<std::string> ranks_of_admin_comment(std::string_view comment) {
  constexpr std::string_view kKey = "monkeytree-ranks=";
  size_t at = comment.find(kKey);
  while (at != std::string_view::npos && at > 0 && !ends_word(comment[at - 1])) {
    at = comment.find(kKey, at + 1);
  }
  if (at == std::string_view::npos) return std::nullopt;
  std::string_view list = comment.substr(at + kKey.size());
  const auto end =
      std::find_if(list.begin(), list.end(), [](char c) { return c == ';' || is_blank(c); });
  return std::string(list.begin(), end);
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
