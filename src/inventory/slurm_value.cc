#include "inventory/slurm_value.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <utility>

namespace monkeytree {
namespace {

using simdjson::dom::element;

std::optional<int64_t> parse_integer(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string upper(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  }
  return out;
}

/// Cuts at commas that stand outside parentheses.
std::vector<std::string_view> split_entries(std::string_view text) {
  std::vector<std::string_view> out;
  size_t begin = 0;
  int depth = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && text[i] == '(') ++depth;
    if (i < text.size() && text[i] == ')') --depth;
    if (i < text.size() && (text[i] != ',' || depth > 0)) continue;
    if (i > begin) out.push_back(text.substr(begin, i - begin));
    begin = i + 1;
  }
  return out;
}

/// "gpu", "gpu:8", "gpu:h200:8", "gpu:h200=8", behind "gres:" or "gres/" or not.
void add_gpus(std::string_view entry, int& count, std::set<std::string>& types) {
  if (entry.starts_with("gres:") || entry.starts_with("gres/")) entry.remove_prefix(5);
  entry = entry.substr(0, entry.find('('));
  if (!entry.starts_with("gpu")) return;
  entry.remove_prefix(3);
  if (!entry.empty() && entry[0] != ':' && entry[0] != '=') return;
  int number = 1;
  const size_t last = entry.find_last_of(":=");
  if (last != std::string_view::npos) {
    const std::string_view tail = entry.substr(last + 1);
    if (const std::optional<int64_t> value = parse_integer(tail); value && *value >= 0) {
      number = static_cast<int>(std::min<int64_t>(*value, 1 << 20));
      entry = entry.substr(0, last);
    }
  }
  count = std::min(count + number, 1 << 20);
  if (entry.size() > 1 && number > 0) types.insert("gpu:" + std::string(entry.substr(1)));
}

}  // namespace

std::optional<element> field(element object, std::string_view name) {
  element value;
  if (object[name].get(value) != simdjson::SUCCESS || value.is_null()) return std::nullopt;
  return value;
}

SlurmObject::SlurmObject(element object) {
  simdjson::dom::object fields;
  if (object.get(fields) != simdjson::SUCCESS) return;
  fields_.reserve(128);
  for (const auto& [key, value] : fields) {
    if (!fields_.emplace(absl::string_view(key.data(), key.size()), value).second) {
      repeated_key_ = key;
    }
  }
}

std::optional<element> SlurmObject::operator[](std::string_view name) const {
  const auto found = fields_.find(absl::string_view(name.data(), name.size()));
  if (found == fields_.end() || found->second.is_null()) return std::nullopt;
  return found->second;
}

std::optional<int64_t> slurm_number(std::optional<element> value) {
  if (!value) return std::nullopt;
  if (value->is_object()) {
    bool flag = false;
    if ((*value)["set"].get(flag) == simdjson::SUCCESS && !flag) return std::nullopt;
    if ((*value)["infinite"].get(flag) == simdjson::SUCCESS && flag) return std::nullopt;
    const std::optional<element> number = field(*value, "number");
    return number && !number->is_object() ? slurm_number(number) : std::nullopt;
  }
  int64_t whole = 0;
  double real = 0;
  std::string_view text;
  if (value->get(whole) == simdjson::SUCCESS) return whole;
  if (value->get(real) == simdjson::SUCCESS && real > -9e15 && real < 9e15) {
    return static_cast<int64_t>(real);
  }
  if (value->get(text) == simdjson::SUCCESS) return parse_integer(text);
  return std::nullopt;
}

std::string slurm_text(std::optional<element> value) {
  if (!value) return "";
  std::string_view text;
  if (value->get(text) == simdjson::SUCCESS) {
    return text == "(null)" || text == "N/A" || text == "None" ? "" : std::string(text);
  }
  simdjson::dom::array list;
  std::string out;
  if (value->get(list) != simdjson::SUCCESS) return out;
  for (element item : list) {
    if (item.get(text) == simdjson::SUCCESS) out.append(out.empty() ? "" : ",").append(text);
  }
  return out;
}

std::vector<std::string> slurm_words(std::optional<element> value) {
  std::vector<std::string> words;
  if (!value) return words;
  std::string_view text;
  if (value->get(text) == simdjson::SUCCESS) return split_states(text);
  simdjson::dom::array list;
  if (value->get(list) != simdjson::SUCCESS) return words;
  for (element item : list) {
    if (item.get(text) != simdjson::SUCCESS) continue;
    for (std::string& word : split_states(text)) words.push_back(std::move(word));
  }
  return words;
}

std::vector<std::string> split_states(std::string_view text) {
  std::vector<std::string> words;
  while (!text.empty()) {
    const size_t end = std::min(text.find_first_of("+, "), text.size());
    if (end > 0) words.push_back(upper(text.substr(0, end)));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return words;
}

bool has_word(const std::vector<std::string>& words, std::initializer_list<std::string_view> any) {
  return std::any_of(words.begin(), words.end(), [&](const std::string& word) {
    return std::find(any.begin(), any.end(), word) != any.end();
  });
}

Gpus parse_gpus(std::string_view text) {
  Gpus out;
  std::set<std::string> types;
  // TRES texts name the sum and then each type again: "gres/gpu=8,gres/gpu:h200=8".
  int untyped = 0;
  for (std::string_view entry : split_entries(text)) {
    int count = 0;
    const size_t before = types.size();
    add_gpus(entry, count, types);
    const bool tres = entry.find('=') != std::string_view::npos;
    (tres && types.size() == before ? untyped : out.count) += count;
  }
  out.count = std::max(out.count, untyped);
  for (const std::string& type : types) out.type += (out.type.empty() ? "" : "+") + type;
  return out;
}

}  // namespace monkeytree
