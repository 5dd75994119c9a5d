#include "report/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/json_syntax.h"

namespace monkeytree {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";
constexpr std::string_view kThinSpace = "\xE2\x80\xAF";  // U+202F, does not break
constexpr std::string_view kMinus = "\xE2\x88\x92";

constexpr double kTooLong = 1e15;  // beyond this digits are no longer known, nor read

/// Takes the first character off well-formed UTF-8.
char32_t take_character(std::string_view& text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  const size_t length = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  char32_t c = length == 1 ? lead : lead & (0x7Fu >> length);
  for (size_t i = 1; i < length; ++i) c = c << 6 | (static_cast<unsigned char>(text[i]) & 0x3F);
  text.remove_prefix(length);
  return c;
}

/// Calls `each` with the characters and their bytes; a byte that is no UTF-8 is U+FFFD.
template <class Each>
void for_each_character(std::string_view text, Each each) {
  while (!text.empty()) {
    std::string_view good = text.substr(0, valid_utf8_prefix(text));
    text.remove_prefix(good.size());
    while (!good.empty()) {
      const std::string_view before = good;
      const char32_t c = take_character(good);
      each(c, before.substr(0, before.size() - good.size()));
    }
    if (text.empty()) return;
    each(char32_t{0xFFFD}, kReplacement);
    text.remove_prefix(1);
  }
}

bool combines(char32_t c) {
  return (c >= 0x300 && c <= 0x36F) || (c >= 0x200B && c <= 0x200F) ||
         (c >= 0x202A && c <= 0x202E) || (c >= 0x2060 && c <= 0x2064) ||
         (c >= 0xFE00 && c <= 0xFE0F) || (c >= 0x20D0 && c <= 0x20F0) || c == 0xFEFF;
}

bool is_wide(char32_t c) {
  return (c >= 0x1100 && c <= 0x115F) || (c >= 0x2E80 && c <= 0xA4CF) ||
         (c >= 0xAC00 && c <= 0xD7A3) || (c >= 0xF900 && c <= 0xFAFF) ||
         (c >= 0xFE30 && c <= 0xFE6F) || (c >= 0xFF00 && c <= 0xFF60) ||
         (c >= 0xFFE0 && c <= 0xFFE6) || (c >= 0x1F300 && c <= 0x1FAFF) ||
         (c >= 0x20000 && c <= 0x3FFFD);
}

/// Width of a character in a wide sans-serif font at size 1.
double relative_width(char32_t c) {
  if (combines(c)) return 0;
  if (is_wide(c)) return 1.05;
  if (c > 0x7F) return c == 0x202F || c == 0xB7 ? 0.3 : 0.72;
  const char ascii = static_cast<char>(c);
  if (std::string_view("iljI.,:;|'! ").find(ascii) != std::string_view::npos) return 0.34;
  if (std::string_view("ftr()[]/-\"").find(ascii) != std::string_view::npos) return 0.43;
  if (std::string_view("mwMW%@").find(ascii) != std::string_view::npos) return 0.97;
  if (ascii >= 'A' && ascii <= 'Z') return 0.7;
  return 0.62;
}

/// Signs as typographers set them: a minus, not a hyphen.
std::string with_minus(const std::string& number) {
  return number.starts_with('-') ? std::string(kMinus) + number.substr(1) : number;
}

std::string group_digits(const std::string& number) {
  const size_t begin = number.starts_with('-') ? 1 : 0;
  const size_t end = std::min(number.find('.'), number.size());
  if (end - begin < 5) return number;
  std::string grouped = number.substr(0, begin);
  for (size_t i = begin; i < end; ++i) {
    if (i > begin && (end - i) % 3 == 0) grouped += kThinSpace;
    grouped += number[i];
  }
  return grouped + number.substr(end);
}

std::string without_trailing_zeros(std::string number) {
  if (number.find('.') == std::string::npos) return number;
  number.erase(number.find_last_not_of('0') + 1);
  if (number.ends_with('.')) number.pop_back();
  return number;
}

}  // namespace

std::string escape(std::string_view text) {
  std::string escaped;
  escaped.reserve(text.size());
  for_each_character(text, [&](char32_t c, std::string_view bytes) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        return;
      case '<':
        escaped += "&lt;";
        return;
      case '>':
        escaped += "&gt;";
        return;
      case '"':
        escaped += "&quot;";
        return;
      case '\'':
        escaped += "&#39;";
        return;
      default:
        break;
    }
    const bool blank = c == '\t' || c == '\n' || c == '\r';
    const bool allowed = (c >= 0x20 && (c < 0x7F || c > 0x9F)) || blank;
    escaped += allowed && c != 0xFFFE && c != 0xFFFF ? bytes : kReplacement;
  });
  return escaped;
}

std::string fixed_text(double value, int decimals) {
  if (!std::isfinite(value)) return "–";
  if (std::abs(value) >= kTooLong) return fmt::format("{:.4g}", value);
  std::string text = fmt::format("{:.{}f}", value, std::clamp(decimals, 0, 20));
  if (text.starts_with('-') && text.find_first_not_of("-0.") == std::string::npos) text.erase(0, 1);
  return text;
}

std::string grouped_text(double value, int decimals) {
  if (std::isfinite(value) && std::abs(value) >= kTooLong) return short_text(value);
  return with_minus(group_digits(fixed_text(value, decimals)));
}

std::string short_text(double value, int digits) {
  if (!std::isfinite(value)) return "–";
  if (value == 0) return "0";
  const std::string scientific = fmt::format("{:.{}e}", value, digits - 1);
  const size_t e = scientific.find('e');
  const int exponent = std::stoi(scientific.substr(e + 1));
  if (exponent < -4 || exponent > 6) {
    return with_minus(without_trailing_zeros(scientific.substr(0, e))) + "×" +
           power_of_ten(exponent);
  }
  const std::string text = fixed_text(value, std::max(0, digits - 1 - exponent));
  return with_minus(group_digits(without_trailing_zeros(text)));
}

int decimals_for(double value) {
  if (!std::isfinite(value) || value == 0) return 0;
  if (value == std::round(value) && std::abs(value) < 1e15) return 0;
  const int exponent = static_cast<int>(std::floor(std::log10(std::abs(value))));
  return std::clamp(3 - exponent, 0, 9);
}

std::string power_of_ten(int exponent) {
  static constexpr std::string_view kRaised[] = {"⁰", "¹", "²", "³", "⁴", "⁵", "⁶", "⁷", "⁸", "⁹"};
  std::string text = "10";
  if (exponent < 0) text += "⁻";
  for (const char digit : fmt::format("{}", std::abs(exponent))) text += kRaised[digit - '0'];
  return text;
}

std::string coordinate(double value) {
  return without_trailing_zeros(fixed_text(std::isfinite(value) ? value : 0, 2));
}

size_t columns_of(std::string_view text) {
  size_t columns = 0;
  for_each_character(text, [&](char32_t c, std::string_view) {
    columns += combines(c) ? 0 : is_wide(c) ? 2 : 1;
  });
  return columns;
}

double text_width(std::string_view text, double size) {
  double width = 0;
  for_each_character(text,
                     [&](char32_t c, std::string_view) { width += relative_width(c) * size; });
  return width;
}

std::string shorten(std::string_view text, double width, double size) {
  if (text_width(text, size) <= width) return std::string(text);
  std::vector<std::pair<std::string, double>> characters;
  for_each_character(text, [&](char32_t c, std::string_view bytes) {
    characters.emplace_back(bytes, relative_width(c) * size);
  });
  double room = width - relative_width(U'…') * size;
  std::string begin;
  std::string end;
  size_t first = 0;
  size_t last = characters.size();
  // Two characters of the beginning for each of the end.
  for (size_t turn = 0; first < last; ++turn) {
    const auto& [bytes, taken] = characters[turn % 3 < 2 ? first : last - 1];
    room -= taken;
    if (room < 0) break;
    if (turn % 3 < 2) {
      begin += bytes;
      ++first;
    } else {
      end.insert(0, bytes);
      --last;
    }
  }
  return begin + "…" + end;
}

std::string count_text(size_t count, std::string_view noun) {
  return fmt::format("{} {}{}", grouped_text(static_cast<double>(count), 0), noun,
                     count == 1 ? "" : "s");
}

}  // namespace monkeytree
