#include "base/hostlist.h"

#include <absl/status/status.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <tuple>
#include <utility>

#include "base/json.h"

namespace monkeytree {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_separator(char c) { return c == ',' || c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

absl::Status fault(size_t offset, std::string_view what) {
  return absl::InvalidArgumentError(fmt::format("{} (at character {})", what, offset + 1));
}

/// `low-high`, each number printed at least `width` wide.
struct Range {
  uint64_t low = 0;
  uint64_t high = 0;
  size_t width = 0;

  size_t count() const { return static_cast<size_t>(high - low) + 1; }
  void append_to(std::string& out, uint64_t number) const {
    char digits[20];
    const auto end = std::to_chars(digits, digits + sizeof digits, number).ptr;
    const size_t length = static_cast<size_t>(end - digits);
    if (length < width) out.append(width - length, '0');
    out.append(digits, length);
  }
};

/// Literal text and the bracket group after it.
struct Part {
  std::string_view text;
  std::vector<Range> ranges;

  size_t count() const {
    size_t sum = 0;
    for (const Range& range : ranges) sum += range.count();
    return sum;
  }
};

std::optional<uint64_t> parse_number(std::string_view digits) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return value;
}

absl::StatusOr<Range> parse_range(std::string_view text, size_t offset) {
  if (text.empty()) return fault(offset, "empty range in brackets, expected a number");
  const size_t dash = text.find('-');
  const std::string_view low = text.substr(0, dash);
  const std::string_view high = dash == std::string_view::npos ? low : text.substr(dash + 1);
  const auto all_digits = [](std::string_view s) {
    return !s.empty() && std::all_of(s.begin(), s.end(), is_digit);
  };
  if (!all_digits(low) || !all_digits(high)) {
    return fault(offset,
                 fmt::format("range {} in brackets, expected a number or low-high", quote(text)));
  }
  const std::optional<uint64_t> from = parse_number(low);
  const std::optional<uint64_t> to = parse_number(high);
  if (!from || !to) {
    return fault(offset, fmt::format("range {} goes beyond 64 bits", quote(text)));
  }
  if (*from > *to) {
    return fault(offset, fmt::format("range {} counts down, expected low-high", quote(text)));
  }
  if (*to - *from >= kMaxHostsInRange) {
    return fault(offset, fmt::format("too many names in range {}, expected at most {}", quote(text),
                                     kMaxHostsInRange));
  }
  return Range{*from, *to, low.size()};
}

/// Expands the names of one list into `names`.
class Expander {
 public:
  Expander(std::string_view text, size_t limit) : text_(text), limit_(limit) {}

  absl::StatusOr<std::vector<std::string>> run() {
    size_t at = 0;
    while (at < text_.size()) {
      if (is_separator(text_[at])) {
        ++at;
        continue;
      }
      if (absl::Status status = name(at); !status.ok()) return status;
    }
    return std::move(names_);
  }

 private:
  /// Reads and expands the name that starts at `at`; leaves `at` after it.
  absl::Status name(size_t& at) {
    parts_.clear();
    size_t begin = at;
    for (; at < text_.size() && !is_separator(text_[at]); ++at) {
      if (text_[at] == ']') return fault(at, "']' without a '[' before it");
      if (text_[at] != '[') continue;
      const std::string_view before = text_.substr(begin, at - begin);
      const size_t close = text_.find_first_of("[]", at + 1);
      if (close == std::string_view::npos) return fault(at, "'[' is not closed");
      if (text_[close] == '[') return fault(close, "'[' within brackets");
      Part part{before, {}};
      if (absl::Status status = group(at + 1, close, part); !status.ok()) return status;
      parts_.push_back(std::move(part));
      at = close;
      begin = close + 1;
    }
    const std::string_view rest = text_.substr(begin, at - begin);
    if (parts_.empty()) return append(std::string(rest));
    if (!rest.empty()) {
      return fault(
          begin, fmt::format("{} after a bracket group, expected a comma or the end", quote(rest)));
    }
    return expand();
  }

  absl::Status group(size_t begin, size_t end, Part& part) {
    while (true) {
      const size_t comma = std::min(text_.find(',', begin), end);
      absl::StatusOr<Range> range = parse_range(text_.substr(begin, comma - begin), begin);
      if (!range.ok()) return range.status();
      part.ranges.push_back(*range);
      if (comma == end) return absl::OkStatus();
      begin = comma + 1;
    }
  }

  /// The last group counts fastest, then the first, the second, and so on.
  absl::Status expand() {
    size_t total = 1;
    for (const Part& part : parts_) {
      total *= part.count();  // below 2^64: at most 2^20 so far, times 2^16 a range of the text
      if (total > limit_) return too_many();
    }
    if (names_.size() + total > limit_) return too_many();
    std::vector<std::vector<std::string>> leading;
    for (size_t i = 0; i + 1 < parts_.size(); ++i) leading.push_back(numbers(parts_[i]));
    const Part& last = parts_.back();
    std::vector<size_t> chosen(leading.size(), 0);
    while (true) {
      std::string prefix;
      for (size_t i = 0; i < leading.size(); ++i) {
        prefix.append(parts_[i].text).append(leading[i][chosen[i]]);
      }
      prefix += last.text;
      for (const Range& range : last.ranges) {
        for (uint64_t step = 0; step < range.count(); ++step) {
          std::string whole = prefix;
          range.append_to(whole, range.low + step);
          if (absl::Status status = append(std::move(whole)); !status.ok()) return status;
        }
      }
      size_t i = 0;
      while (i < chosen.size() && ++chosen[i] == leading[i].size()) chosen[i++] = 0;
      if (i == chosen.size()) return absl::OkStatus();
    }
  }

  static std::vector<std::string> numbers(const Part& part) {
    std::vector<std::string> out;
    for (const Range& range : part.ranges) {
      for (uint64_t step = 0; step < range.count(); ++step) {
        out.emplace_back();
        range.append_to(out.back(), range.low + step);
      }
    }
    return out;
  }

  absl::Status append(std::string whole) {
    bytes_ += whole.size();
    if (names_.size() >= limit_) return too_many();
    if (bytes_ > kMaxHostBytes) {
      return absl::InvalidArgumentError(
          fmt::format("stands for too many names, expected at most {} MiB", kMaxHostBytes >> 20));
    }
    names_.push_back(std::move(whole));
    return absl::OkStatus();
  }

  absl::Status too_many() const {
    return absl::ResourceExhaustedError(
        fmt::format("stands for too many names, expected at most {}", limit_));
  }

  std::string_view text_;
  size_t limit_;
  size_t bytes_ = 0;
  std::vector<Part> parts_;
  std::vector<std::string> names_;
};

/// A name as text and the number that ends it; `digits` is empty where none does.
struct Numbered {
  std::string_view text;
  std::string_view digits;
  uint64_t number = 0;
};

Numbered split_number(std::string_view name) {
  size_t at = name.size();
  while (at > 0 && is_digit(name[at - 1])) --at;
  Numbered out{name.substr(0, at), name.substr(at), 0};
  if (out.digits.empty()) return out;
  if (const std::optional<uint64_t> number = parse_number(out.digits)) {
    out.number = *number;
  } else {
    out = {name, {}, 0};
  }
  return out;
}

/// 0 where numbers are written without leading zeros, so that 9 and 10 stand in one run.
size_t padding_of(const Numbered& name) {
  return name.digits.size() > 1 && name.digits[0] == '0' ? name.digits.size() : 0;
}

bool follows(const Numbered& before, const Numbered& next) {
  if (before.number + 1 != next.number || before.number == UINT64_MAX) return false;
  return before.digits.size() == next.digits.size() ||
         (padding_of(before) == 0 && padding_of(next) == 0) ||
         (padding_of(before) != 0 && next.digits.size() == before.digits.size());
}

}  // namespace

absl::StatusOr<std::vector<std::string>> expand_hostlist(std::string_view text, size_t limit) {
  return Expander(text, limit).run();
}

bool number_exceeds_slurm(std::string_view name) {
  size_t at = name.size();
  while (at > 0 && is_digit(name[at - 1])) --at;
  return at < name.size() && !parse_number(name.substr(at));
}

std::string compress_hostlist(const std::vector<std::string>& names) {
  std::vector<Numbered> parts;
  parts.reserve(names.size());
  for (const std::string& name : names) parts.push_back(split_number(name));
  const auto key = [](const Numbered& n) {
    return std::make_tuple(n.text, n.number, n.digits.size());
  };
  std::sort(parts.begin(), parts.end(),
            [&](const Numbered& a, const Numbered& b) { return key(a) < key(b); });
  const auto same = [](const Numbered& a, const Numbered& b) {
    return a.text == b.text && a.digits == b.digits;
  };
  parts.erase(std::unique(parts.begin(), parts.end(), same), parts.end());

  std::string out;
  for (size_t i = 0; i < parts.size();) {
    if (!out.empty()) out += ',';
    size_t end = i + 1;
    while (end < parts.size() && parts[end].text == parts[i].text && !parts[end].digits.empty() &&
           !parts[i].digits.empty()) {
      ++end;
    }
    out += parts[i].text;
    if (end == i + 1) {
      out += parts[i++].digits;
      continue;
    }
    out += '[';
    for (size_t first = i; i < end; first = i) {
      while (i + 1 < end && follows(parts[i], parts[i + 1])) ++i;
      if (out.back() != '[') out += ',';
      out += parts[first].digits;
      if (i > first) out.append("-").append(parts[i].digits);
      ++i;
    }
    out += ']';
  }
  return out;
}

}  // namespace monkeytree
