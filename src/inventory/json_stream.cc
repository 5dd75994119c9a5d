#include "inventory/json_stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/json_syntax.h"

namespace monkeytree {
namespace {

constexpr size_t kReadBytes = size_t{256} << 10;

bool is_space(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

/// Overwrites NaN, Infinity and -Infinity outside strings by a null or 0 of the same length.
/// False where there were none.
bool replace_nan(std::string& text) {
  bool replaced = false;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"') in_string = !in_string;
    if (in_string && text[i] == '\\') ++i;
    if (in_string) continue;
    for (std::string_view word : {"NaN", "-NaN", "Infinity", "-Infinity"}) {
      if (text.compare(i, word.size(), word) != 0) continue;
      const std::string_view instead = word.size() == 3 ? "0" : "null";
      std::fill_n(text.begin() + static_cast<ptrdiff_t>(i), word.size(), ' ');
      std::copy(instead.begin(), instead.end(), text.begin() + static_cast<ptrdiff_t>(i));
      replaced = true;
      break;
    }
  }
  return replaced;
}

/// The bytes that have been read and not yet used.
class Window {
 public:
  explicit Window(const ReadBytes& read) : read_(read) {}

  std::string_view rest() const { return {buffer_.data() + begin_, end_ - begin_}; }
  const char* data() const { return buffer_.data() + begin_; }

  /// Uses up `bytes`, counting lines.
  void skip(size_t bytes) {
    lines_ += std::count(data(), data() + bytes, '\n');
    begin_ += bytes;
  }
  int line() const { return static_cast<int>(std::min<int64_t>(lines_ + 1, INT32_MAX)); }

  /// Reads more; false at the end of the input. Room for simdjson's padding stays behind `end_`.
  absl::StatusOr<bool> more() {
    if (begin_ > 0) {
      std::memmove(buffer_.data(), data(), end_ - begin_);
      end_ -= begin_;
      begin_ = 0;
    }
    if (buffer_.size() < end_ + kReadBytes + simdjson::SIMDJSON_PADDING) {
      buffer_.resize(std::max(buffer_.size() * 2, end_ + kReadBytes + simdjson::SIMDJSON_PADDING));
    }
    const size_t room = buffer_.size() - end_ - simdjson::SIMDJSON_PADDING;
    absl::StatusOr<size_t> got = read_(buffer_.data() + end_, room);
    if (!got.ok()) return got.status();
    end_ += *got;
    return *got > 0;
  }

 private:
  const ReadBytes& read_;
  std::vector<char> buffer_;
  size_t begin_ = 0;
  size_t end_ = 0;
  int64_t lines_ = 0;
};

/// Walks the top-level object.
class Walker {
 public:
  Walker(const ReadBytes& read, std::string_view file, Diagnostics& diagnostics,
         const std::function<void(const JsonPiece&)>& take)
      : window_(read), file_(file), diagnostics_(diagnostics), take_(take) {}

  bool run() {
    if (!peek()) return failed_ ? false : fail("empty, expected a JSON object");
    if (!expect('{', "'{'")) return false;
    if (peek() == '}') {
      window_.skip(1);
      return finish();
    }
    do {
      if (!field()) return false;
    } while (take_if(','));
    return expect('}', "',' or '}'") && finish();
  }

  std::set<std::string> take_keys() { return std::move(keys_); }

 private:
  bool fail(std::string message) {
    if (!failed_) diagnostics_.error(file_, window_.line(), "", std::move(message));
    failed_ = true;
    return false;
  }

  bool grow() {
    absl::StatusOr<bool> more = window_.more();
    if (more.ok()) return *more;
    if (!failed_) {
      diagnostics_.error(file_, 0, "", std::string(more.status().message()));
      failed_ = true;
    }
    return false;
  }

  /// The next byte that is no blank; 0 at the end, or where a NUL byte stands.
  char peek() {
    while (true) {
      const std::string_view rest = window_.rest();
      const auto at = std::find_if_not(rest.begin(), rest.end(), is_space);
      const bool found = at != rest.end();
      const char c = found ? *at : '\0';
      window_.skip(static_cast<size_t>(at - rest.begin()));
      if (found && c == '\0') {
        fail("NUL byte, expected JSON");
        return '\0';
      }
      if (found) return c;
      if (failed_ || !grow()) return '\0';
    }
  }

  bool take_if(char wanted) {
    if (peek() != wanted) return false;
    window_.skip(1);
    return true;
  }

  bool expect(char wanted, std::string_view what) {
    if (take_if(wanted)) return true;
    if (failed_) return false;
    const std::string_view rest = window_.rest();
    if (rest.empty()) return fail(fmt::format("the text ends here, expected {}", what));
    return fail(fmt::format("{}: expected {}", quote(rest.substr(0, 20)), what));
  }

  bool finish() {
    if (peek() == '\0') return !failed_;
    return fail(
        fmt::format("{} after the end of the JSON text", quote(window_.rest().substr(0, 20))));
  }

  bool field() {
    if (peek() != '"') return expect('"', "a field's name in quotes");
    const size_t length = scan();
    if (length == std::string_view::npos) return false;
    const std::string key(window_.rest().substr(1, length - 2));
    if (!keys_.insert(key).second)
      return fail(fmt::format("the field {} stands there twice", quote(key)));
    if (keys_.size() > 1000) return fail("too many fields, expected an object that holds a list");
    window_.skip(length);
    if (!expect(':', "':'")) return false;
    return peek() == '[' ? list(key) : piece(key, -1);
  }

  bool list(const std::string& key) {
    window_.skip(1);
    if (take_if(']')) return true;
    int64_t index = 0;
    do {
      if (!piece(key, index++)) return false;
    } while (take_if(','));
    return expect(']', "',' or ']'");
  }

  /// Bytes of the value at the front of the window; npos after an error.
  size_t scan() {
    ScanState state;
    while (true) {
      const size_t length = value_length(window_.rest(), &state);
      if (length != std::string_view::npos) return length;
      if (window_.rest().size() > kMaxPieceBytes) {
        fail(fmt::format("a value of more than {} MiB", kMaxPieceBytes >> 20));
        return std::string_view::npos;
      }
      if (!grow()) {
        window_.skip(window_.rest().size());
        fail("the text ends within a value: it was cut short");
        return std::string_view::npos;
      }
    }
  }

  bool piece(const std::string& key, int64_t index) {
    if (peek() == '\0') return expect('x', "a value");
    const size_t length = scan();
    if (length == std::string_view::npos) return false;
    JsonPiece piece{key, index, window_.line(), {}};
    if (!parse(length, piece)) return false;
    take_(piece);
    window_.skip(length);
    return true;
  }

  bool parse(size_t length, JsonPiece& piece) {
    if (parser_.parse(window_.data(), length, /*realloc_if_needed=*/false).get(piece.value) ==
        simdjson::SUCCESS) {
      return true;
    }
    std::string text(window_.rest().substr(0, length));
    if (replace_nan(text)) {
      text.reserve(text.size() + simdjson::SIMDJSON_PADDING);
      if (parser_.parse(text).get(piece.value) == simdjson::SUCCESS) return true;
    }
    return explain(text, piece);
  }

  /// simdjson says that something is wrong; this says where and what.
  bool explain(std::string_view text, const JsonPiece& piece) {
    std::optional<JsonSyntaxError> fault = find_json_syntax_error(text);
    if (!fault) fault = find_unfit_number(text);
    if (!fault) fault = {0, "a value that cannot be read", ""};
    const auto end = text.begin() + static_cast<ptrdiff_t>(fault->offset);
    const auto lines = static_cast<int>(std::count(text.begin(), end, '\n'));
    if (!failed_) {
      diagnostics_.error(file_, piece.line + lines, piece.path() + fault->path, fault->message);
    }
    failed_ = true;
    return false;
  }

  Window window_;
  std::string_view file_;
  Diagnostics& diagnostics_;
  const std::function<void(const JsonPiece&)>& take_;
  simdjson::dom::parser parser_;
  std::set<std::string> keys_;
  bool failed_ = false;
};

}  // namespace

ReadBytes bytes_of(std::string_view text) {
  return [text](char* buffer, size_t bytes) mutable -> absl::StatusOr<size_t> {
    const size_t count = std::min(bytes, text.size());
    std::memcpy(buffer, text.data(), count);
    text.remove_prefix(count);
    return count;
  };
}

std::string JsonPiece::path() const {
  std::string out = "/" + printable(key.substr(0, 60));
  if (index >= 0) out += fmt::format("/{}", index);
  return out;
}

std::optional<std::set<std::string>> read_json_pieces(
    const ReadBytes& read, std::string_view file, Diagnostics& diagnostics,
    const std::function<void(const JsonPiece&)>& take) {
  Walker walker(read, file, diagnostics, take);
  if (!walker.run()) return std::nullopt;
  return walker.take_keys();
}

}  // namespace monkeytree
