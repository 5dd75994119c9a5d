#include "base/json_syntax.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <system_error>
#include <utility>
#include <vector>

#include "base/json.h"

namespace monkeytree {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_hex(char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

bool is_continuation(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

/// Length of the UTF-8 sequence at the start of `text`, or 0 where there is none.
size_t utf8_sequence(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  if (lead < 0x80) return 1;
  const size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if (!is_continuation(text[i])) return 0;
  }
  const auto second = static_cast<unsigned char>(text[1]);
  const bool overlong = (lead == 0xE0 && second < 0xA0) || (lead == 0xF0 && second < 0x90);
  const bool surrogate = lead == 0xED && second >= 0xA0;
  const bool too_high = lead == 0xF4 && second >= 0x90;
  return overlong || surrogate || too_high ? 0 : length;
}

template <class Number>
bool fits(std::string_view text) {
  Number number{};
  return std::from_chars(text.data(), text.data() + text.size(), number).ec == std::errc();
}

bool fits_64_bits(const std::string& number) {
  if (number.find_first_of(".eE") == std::string::npos) {
    return fits<int64_t>(number) || fits<uint64_t>(number);
  }
  return std::isfinite(std::strtod(number.c_str(), nullptr));
}

/// Walks a text by the grammar of JSON, with the open containers on a stack of its own.
class Scanner {
 public:
  /// `fit`: a number that the parser has no place for is a fault, too.
  explicit Scanner(std::string_view text, bool fit = false) : text_(text), fit_(fit) {}

  std::optional<JsonSyntaxError> scan() {
    skip_space();
    if (at_end()) return fail("nothing here, expected a JSON value");
    while (value()) {
      if (!after_value()) break;
    }
    return error_;
  }

 private:
  bool at_end() const { return at_ >= text_.size(); }
  char peek() const { return text_[at_]; }

  void skip_space() {
    while (!at_end() && (peek() == ' ' || peek() == '\t' || peek() == '\n' || peek() == '\r')) {
      ++at_;
    }
  }

  std::optional<JsonSyntaxError> fail(std::string message) {
    error_ = JsonSyntaxError{at_, std::move(message)};
    return error_;
  }

  bool fail_here(std::string_view expected) {
    fail(fmt::format("{}, expected {}", found(), expected));
    return false;
  }

  std::string found() const {
    if (at_end()) return "the text ends here";
    const auto c = static_cast<unsigned char>(peek());
    if (c == 0) return "a NUL byte";
    if (c < 0x20 || c >= 0x7F) return fmt::format("byte 0x{:02x}", c);
    return fmt::format("'{}'", peek());
  }

  /// Consumes one value, or opens containers until the first value inside. An empty container is a
  /// value that has ended.
  bool value() {
    for (;;) {
      skip_space();
      if (at_end()) return fail_here("a value");
      const char c = peek();
      if (c != '{' && c != '[') return scalar();
      if (open_.size() == kMaxJsonDepth) {
        fail(fmt::format("nested more than {} levels deep", kMaxJsonDepth));
        return false;
      }
      open_.push_back({c, 0, {}});
      ++at_;
      skip_space();
      if (!at_end() && peek() == (c == '{' ? '}' : ']')) {
        open_.pop_back();
        ++at_;
        return true;
      }
      if (c == '{' && !key()) return false;
    }
  }

  bool key() {
    skip_space();
    if (at_end() || peek() != '"') return fail_here("a field name in double quotes");
    const size_t start = at_ + 1;
    if (!string()) return false;
    open_.back().key = text_.substr(start, at_ - 1 - start);
    skip_space();
    if (at_end() || peek() != ':') return fail_here("':' after the field name");
    ++at_;
    return true;
  }

  /// Closes containers that end here; true when another value follows.
  bool after_value() {
    for (;;) {
      skip_space();
      if (open_.empty()) {
        if (!at_end()) fail_here("the end of the text after the value");
        return false;
      }
      const bool object = open_.back().kind == '{';
      if (!at_end() && peek() == ',') {
        ++at_;
        ++open_.back().index;
        return object ? key() : true;
      }
      if (at_end() || peek() != (object ? '}' : ']')) {
        return fail_here(object ? "',' or '}'" : "',' or ']'");
      }
      open_.pop_back();
      ++at_;
    }
  }

  bool scalar() {
    const char c = peek();
    if (c == '"') return string();
    if (c == '-' || is_digit(c)) return number();
    for (std::string_view word : {"true", "false", "null"}) {
      if (text_.substr(at_, word.size()) == word) {
        at_ += word.size();
        return true;
      }
    }
    return fail_here("a value");
  }

  bool string() {
    const size_t start = at_++;
    while (!at_end() && peek() != '"') {
      if (static_cast<unsigned char>(peek()) < 0x20) {
        return fail_here("no control character inside a string");
      }
      if (peek() == '\\' && !escape()) return false;
      ++at_;
    }
    if (at_end()) {
      at_ = start;
      fail("a string begins here that never ends, expected a closing '\"'");
      return false;
    }
    ++at_;
    return true;
  }

  /// Stops on the last character of the escape.
  bool escape() {
    ++at_;
    if (at_end()) return fail_here("the rest of an escape");
    if (peek() != 'u') {
      if (std::string_view("\"\\/bfnrt").find(peek()) == std::string_view::npos) {
        return fail_here("one of \" \\ / b f n r t u after a backslash");
      }
      return true;
    }
    const size_t start = at_ - 1;
    const int unit = hex_unit();
    if (unit < 0) return false;
    bool paired = unit < 0xD800 || unit > 0xDFFF;
    if (unit >= 0xD800 && unit < 0xDC00 && text_.substr(at_ + 1, 2) == "\\u") {
      at_ += 2;
      const int low = hex_unit();
      if (low < 0) return false;
      paired = low >= 0xDC00 && low <= 0xDFFF;
    }
    if (paired) return true;
    at_ = start;
    fail("half of a surrogate pair, expected both halves");
    return false;
  }

  /// The four digits after the 'u' under the cursor; stops on the last. -1 where they are not hex.
  int hex_unit() {
    int unit = 0;
    for (int i = 0; i < 4; ++i) {
      ++at_;
      if (at_end() || !is_hex(peek())) {
        fail_here("four hexadecimal digits after \\u");
        return -1;
      }
      const char c = peek();
      unit = unit * 16 + (is_digit(c) ? c - '0' : (c | 0x20) - 'a' + 10);
    }
    return unit;
  }

  bool digits() {
    if (at_end() || !is_digit(peek())) return fail_here("a digit");
    while (!at_end() && is_digit(peek())) ++at_;
    return true;
  }

  bool number() {
    const size_t start = at_;
    if (peek() == '-') ++at_;
    const bool zero = !at_end() && peek() == '0';
    const size_t first = at_;
    if (!digits()) return false;
    if (zero && at_ > first + 1) {
      at_ = start;
      fail("a number with a leading zero, expected none");
      return false;
    }
    if (!at_end() && peek() == '.') {
      ++at_;
      if (!digits()) return false;
    }
    if (!at_end() && (peek() == 'e' || peek() == 'E')) {
      ++at_;
      if (!at_end() && (peek() == '+' || peek() == '-')) ++at_;
      if (!digits()) return false;
    }
    const std::string_view token = text_.substr(start, at_ - start);
    if (!fit_ || fits_64_bits(std::string(token))) return true;
    at_ = start;
    const size_t shown = std::min(token.size(), kLongestNumber);
    fail(fmt::format("expected a number that fits 64 bits, found {}{}", token.substr(0, shown),
                     shown < token.size() ? "..." : ""));
    for (const Container& container : open_) {
      error_->path += "/" + (container.kind == '{' ? pointer_step(container.key)
                                                   : std::to_string(container.index));
    }
    return false;
  }

  static constexpr size_t kLongestNumber = 40;

  struct Container {
    char kind;             ///< '{' or '['
    size_t index;          ///< of the value under the cursor
    std::string_view key;  ///< of the value under the cursor, escapes as they are written
  };

  std::string_view text_;
  bool fit_;
  size_t at_ = 0;
  std::vector<Container> open_;
  std::optional<JsonSyntaxError> error_;
};

}  // namespace

size_t valid_utf8_prefix(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    const size_t length = utf8_sequence(text.substr(at));
    if (length == 0) break;
    at += length;
  }
  return at;
}

std::optional<JsonSyntaxError> find_json_syntax_error(std::string_view text) {
  const size_t valid = valid_utf8_prefix(text);
  if (valid < text.size()) {
    return JsonSyntaxError{valid, fmt::format("byte 0x{:02x} is not UTF-8, expected UTF-8 text",
                                              static_cast<unsigned char>(text[valid]))};
  }
  return Scanner(text).scan();
}

std::optional<JsonSyntaxError> find_unfit_number(std::string_view text) {
  return Scanner(text, /*fit=*/true).scan();
}

bool has_more_values(std::string_view text, size_t most) {
  size_t values = 1;
  bool in_string = false;
  for (size_t i = 0; i < text.size() && values <= most; ++i) {
    const char c = text[i];
    if (in_string && c == '\\') {
      ++i;
    } else if (c == '"') {
      in_string = !in_string;
    } else if (!in_string && (c == ',' || c == ':' || c == '[' || c == '{')) {
      ++values;
    }
  }
  return values > most;
}

std::string pointer_step(std::string_view key) {
  constexpr size_t kLongestStep = 240;
  std::string escaped;
  for (char c : key.substr(0, kLongestStep)) {
    if (c == '~') {
      escaped += "~0";
    } else if (c == '/') {
      escaped += "~1";
    } else {
      escaped += c;
    }
  }
  return printable(escaped);
}

}  // namespace monkeytree
