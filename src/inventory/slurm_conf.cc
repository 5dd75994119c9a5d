#include "inventory/slurm_conf.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/file.h"
#include "base/json.h"

namespace monkeytree {
namespace {

constexpr size_t kMaxIncludes = 1000;
constexpr size_t kMaxIncludeDepth = 50;

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool is_key_char(char c) {
  return (lower(c) >= 'a' && lower(c) <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
}

bool all_blank(std::string_view text) { return std::all_of(text.begin(), text.end(), is_blank); }

/// Cuts the line at the first '#' that is not escaped.
std::string_view without_comment(std::string_view line) {
  bool escaped = false;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '#' && !escaped) return line.substr(0, i);
    escaped = line[i] == '\\' && !escaped;
  }
  return line;
}

/// Cuts the backslash that continues the line; false where it ends here.
bool take_continuation(std::string_view& line) {
  size_t end = line.size();
  while (end > 0 && is_blank(line[end - 1])) --end;
  size_t backslashes = 0;
  while (backslashes < end && line[end - 1 - backslashes] == '\\') ++backslashes;
  if (backslashes % 2 == 0) return false;
  line = line.substr(0, end - 1);
  return true;
}

std::string without_escapes(std::string_view line) {
  std::string out;
  out.reserve(line.size());
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\\' && ++i == line.size()) break;
    out += line[i];
  }
  return out;
}

std::string_view without_line_end(std::string_view line) {
  while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.remove_suffix(1);
  return line;
}

/// Walks a file and the files it includes.
class Reader {
 public:
  Reader(const ReadText& read, Diagnostics& diagnostics) : read_(read), diagnostics_(diagnostics) {}

  std::vector<ConfLine> run(const std::string& file) {
    absl::StatusOr<std::string> text = read_(file);
    if (!text.ok()) {
      diagnostics_.error(file, 0, "", std::string(text.status().message()));
    } else {
      walk(file, *text);
    }
    return std::move(lines_);
  }

 private:
  void walk(const std::string& file, std::string_view text) {
    open_.push_back(file);
    int number = 0;
    while (!text.empty()) {
      const int first = ++number;
      std::string_view line = take_line(text);
      line = without_comment(up_to_nul(line, file, number));
      if (!take_continuation(line)) {
        logical_line(file, first, without_escapes(without_line_end(line)));
        continue;
      }
      std::string joined(line);
      for (bool more = true; more && !text.empty();) {
        line = take_line(text);
        line = without_comment(up_to_nul(line, file, ++number));
        more = take_continuation(line);
        joined += more ? line : without_line_end(line);
      }
      logical_line(file, first, without_escapes(joined));
    }
    open_.pop_back();
  }

  static std::string_view take_line(std::string_view& text) {
    const size_t newline = text.find('\n');
    const size_t length = newline == std::string_view::npos ? text.size() : newline + 1;
    const std::string_view line = text.substr(0, length);
    text.remove_prefix(length);
    return line;
  }

  std::string_view up_to_nul(std::string_view line, const std::string& file, int number) {
    const size_t nul = line.find('\0');
    if (nul == std::string_view::npos) return line;
    diagnostics_.warning(file, number, "",
                         "NUL byte: the rest of the line is lost, to slurmctld too");
    return line.substr(0, nul);
  }

  void logical_line(const std::string& file, int line, std::string text) {
    if (all_blank(text)) return;
    constexpr std::string_view kInclude = "include";
    if (text.size() > kInclude.size() && is_blank(text[kInclude.size()]) &&
        same_key(std::string_view(text).substr(0, kInclude.size()), kInclude)) {
      include(file, line, std::string_view(text).substr(kInclude.size()));
      return;
    }
    lines_.push_back({file, line, std::move(text)});
  }

  void include(const std::string& file, int line, std::string_view rest) {
    while (!rest.empty() && is_blank(rest.front())) rest.remove_prefix(1);
    const auto end = std::find_if(rest.begin(), rest.end(), is_blank);
    const std::string name(rest.begin(), end);
    const std::string_view junk = rest.substr(name.size());
    const auto fail = [&](std::string message) {
      diagnostics_.error(file, line, "", std::move(message));
    };
    if (name.empty()) return fail("Include without a file name");
    if (!all_blank(junk)) {
      return fail(fmt::format("{} after the name of the included file, expected the line's end",
                              quote(junk)));
    }
    if (name.find("%c") != std::string::npos) {
      return fail("%c in an Include of topology.conf: slurmctld refuses it there, expected a name");
    }
    const std::string whole = name[0] == '/' ? name : folder_of(file) + name;
    if (std::find(open_.begin(), open_.end(), whole) != open_.end()) {
      return fail(fmt::format("{} includes itself", quote(whole)));
    }
    if (open_.size() >= kMaxIncludeDepth || ++includes_ > kMaxIncludes) {
      return fail(fmt::format("too many included files, expected at most {} and {} deep",
                              kMaxIncludes, kMaxIncludeDepth));
    }
    absl::StatusOr<std::string> text = read_(whole);
    if (!text.ok()) {
      return fail(
          fmt::format("Include of {}: {}", quote(whole), std::string(text.status().message())));
    }
    included_bytes_ += text->size();
    if (included_bytes_ > kMaxInputBytes) {
      return fail(
          fmt::format("included files are larger than {} MiB together", kMaxInputBytes >> 20));
    }
    walk(whole, *text);
  }

  const ReadText& read_;
  Diagnostics& diagnostics_;
  std::vector<ConfLine> lines_;
  std::vector<std::string> open_;  ///< the files being read, outermost first
  size_t includes_ = 0;
  uint64_t included_bytes_ = 0;
};

}  // namespace

bool is_blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

bool same_key(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return lower(x) == lower(y); });
}

std::vector<ConfLine> read_conf_lines(const std::string& file, const ReadText& read,
                                      Diagnostics& diagnostics) {
  return Reader(read, diagnostics).run(file);
}

std::optional<ConfPair> take_pair(std::string_view& rest) {
  size_t at = 0;
  const auto skip_blanks = [&] {
    while (at < rest.size() && is_blank(rest[at])) ++at;
  };
  skip_blanks();
  const size_t key = at;
  while (at < rest.size() && is_key_char(rest[at])) ++at;
  const size_t key_end = at;
  if (key == key_end) return std::nullopt;
  skip_blanks();
  if (at < rest.size() && std::string_view("+-*/").find(rest[at]) != std::string_view::npos) ++at;
  if (at >= rest.size() || rest[at] != '=') return std::nullopt;
  ++at;
  skip_blanks();
  if (at >= rest.size()) return std::nullopt;

  size_t value = at;
  size_t value_end = std::string_view::npos;
  if (rest[at] == '"') {
    const size_t close = rest.find('"', at + 1);
    if (close != std::string_view::npos &&
        (close + 1 == rest.size() || is_blank(rest[close + 1]))) {
      value = at + 1;
      value_end = close;
      at = close + 1;
    }
  }
  if (value_end == std::string_view::npos) {
    while (at < rest.size() && !is_blank(rest[at])) ++at;
    value_end = at;
  }
  const ConfPair pair{rest.substr(key, key_end - key), rest.substr(value, value_end - value)};
  rest.remove_prefix(at);
  return pair;
}

}  // namespace monkeytree
