#include "workload/number.h"

#include <cstddef>

namespace monkeytree {
namespace {

constexpr int kMaxDigits = 18;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// The exponent of `e…`, up to ±99; nullopt where it is none.
std::optional<int> exponent_of(std::string_view text) {
  bool negative = false;
  if (!text.empty() && (text[0] == '+' || text[0] == '-')) {
    negative = text[0] == '-';
    text.remove_prefix(1);
  }
  if (text.empty() || text.size() > 2) return std::nullopt;
  int value = 0;
  for (char c : text) {
    if (!is_digit(c)) return std::nullopt;
    value = value * 10 + (c - '0');
  }
  return negative ? -value : value;
}

}  // namespace

std::optional<int64_t> whole_number(std::string_view text) {
  bool negative = false;
  if (!text.empty() && (text[0] == '+' || text[0] == '-')) {
    negative = text[0] == '-';
    text.remove_prefix(1);
  }
  // The digits without leading zeros as one number, times ten to a power.
  int64_t value = 0;
  int power = 0, digits = 0;
  bool any = false, fraction = false;
  size_t at = 0;
  for (; at < text.size() && (is_digit(text[at]) || (text[at] == '.' && !fraction)); ++at) {
    if (text[at] == '.') {
      fraction = true;
      continue;
    }
    any = true;
    if (value != 0 || text[at] != '0') ++digits;
    if (digits > kMaxDigits) return std::nullopt;
    value = value * 10 + (text[at] - '0');
    if (fraction) --power;
  }
  if (!any) return std::nullopt;
  if (at < text.size()) {
    if (text[at] != 'e' && text[at] != 'E') return std::nullopt;
    const std::optional<int> exponent = exponent_of(text.substr(at + 1));
    if (!exponent) return std::nullopt;
    power += *exponent;
  }
  for (; power > 0 && value != 0; --power) {
    if (++digits > kMaxDigits) return std::nullopt;
    value *= 10;
  }
  for (; power < 0 && value != 0; ++power) {
    if (value % 10 != 0) return std::nullopt;
    value /= 10;
  }
  return negative ? -value : value;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

}  // namespace monkeytree
