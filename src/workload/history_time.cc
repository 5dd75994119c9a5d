#include <charconv>
#include <chrono>
#include <cmath>
#include <cstddef>

#include "workload/history.h"
#include "workload/number.h"

namespace monkeytree {
namespace {

constexpr int64_t kSecond = 1'000'000;

/// Takes number after number off a text.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  bool done() const { return text_.empty(); }
  bool take(char c) {
    if (text_.empty() || text_[0] != c) return false;
    text_.remove_prefix(1);
    return true;
  }
  /// 1 to `most` digits.
  std::optional<int64_t> digits(size_t most) {
    size_t count = 0;
    int64_t value = 0;
    while (count < most && count < text_.size() && text_[count] >= '0' && text_[count] <= '9') {
      value = value * 10 + (text_[count++] - '0');
    }
    if (count == 0) return std::nullopt;
    text_.remove_prefix(count);
    return value;
  }
  /// `.digits` as µs, what is beyond them dropped; 0 where there is none.
  std::optional<int64_t> fraction() {
    if (!take('.')) return 0;
    int64_t unit = kSecond / 10, sum = 0;
    bool any = false;
    for (; !text_.empty() && text_[0] >= '0' && text_[0] <= '9'; text_.remove_prefix(1)) {
      sum += unit * (text_[0] - '0');
      unit /= 10;
      any = true;
    }
    return any ? std::optional(sum) : std::nullopt;
  }

 private:
  std::string_view text_;
};

/// `Z`, `+08:00`, `+0800`, `+08` or nothing: minutes east.
std::optional<int64_t> offset_minutes(Scanner& in) {
  if (in.done() || in.take('Z')) return 0;
  const bool west = in.take('-');
  if (!west && !in.take('+')) return std::nullopt;
  const std::optional<int64_t> hours = in.digits(2);
  if (!hours || *hours > 14) return std::nullopt;
  int64_t minutes = 0;
  if (!in.done()) {
    in.take(':');
    const std::optional<int64_t> found = in.digits(2);
    if (!found || *found > 59) return std::nullopt;
    minutes = *found;
  }
  minutes += *hours * 60;
  return west ? -minutes : minutes;
}

std::optional<int64_t> day_us(Scanner& in) {
  const auto year = in.digits(4);
  if (!year || *year < 1970 || !in.take('-')) return std::nullopt;
  const auto month = in.digits(2);
  if (!month || !in.take('-')) return std::nullopt;
  const auto day = in.digits(2);
  if (!day) return std::nullopt;
  const std::chrono::year_month_day date(std::chrono::year(static_cast<int>(*year)),
                                         std::chrono::month(static_cast<unsigned>(*month)),
                                         std::chrono::day(static_cast<unsigned>(*day)));
  if (!date.ok()) return std::nullopt;
  return std::chrono::sys_days(date).time_since_epoch().count() * 86'400 * kSecond;
}

}  // namespace

std::optional<int64_t> time_us(std::string_view text) {
  Scanner in(trimmed(text));
  const std::optional<int64_t> day = day_us(in);
  if (!day || !(in.take('T') || in.take(' '))) return std::nullopt;
  const auto hours = in.digits(2);
  if (!hours || *hours > 23 || !in.take(':')) return std::nullopt;
  const auto minutes = in.digits(2);
  if (!minutes || *minutes > 59) return std::nullopt;
  int64_t seconds_part = 0;
  if (in.take(':')) {
    const auto seconds = in.digits(2);
    const auto fraction = in.fraction();
    if (!seconds || *seconds > 60 || !fraction) return std::nullopt;  // 60: a leap second
    seconds_part = *seconds * kSecond + *fraction;
  }
  const auto offset = offset_minutes(in);
  if (!offset || !in.done()) return std::nullopt;
  return *day + (*hours * 60 + *minutes - *offset) * 60 * kSecond + seconds_part;
}

std::optional<int64_t> duration_us(std::string_view text) {
  text = trimmed(text);
  int64_t days = 0;
  if (const size_t dash = text.find('-'); dash != std::string_view::npos) {
    Scanner in(text.substr(0, dash));
    const auto found = in.digits(6);
    if (!found || !in.done()) return std::nullopt;
    days = *found;
    text.remove_prefix(dash + 1);
  }
  Scanner in(text);
  int64_t sum = 0;
  int parts = 0;
  do {
    const auto part = in.digits(7);
    if (!part || (parts > 0 && *part > 59)) return std::nullopt;
    sum = sum * 60 + *part;
    ++parts;
  } while (in.take(':'));
  const auto fraction = in.fraction();
  if (!fraction || !in.done() || parts < 2 || parts > 3) return std::nullopt;
  return (days * 86'400 + sum) * kSecond + *fraction;
}

std::optional<int64_t> seconds_us(std::string_view text) {
  text = trimmed(text);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  if (!(std::abs(value) <= 1e12)) return std::nullopt;
  return std::llround(value * 1e6);
}

}  // namespace monkeytree
