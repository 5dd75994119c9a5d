#include "inventory/csv.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/json.h"

namespace monkeytree {
namespace {

constexpr size_t kMaxColumns = 10000;

class CsvParser {
 public:
  CsvParser(std::string_view text, std::string_view file, Diagnostics& diagnostics)
      : text_(text), file_(file), diagnostics_(diagnostics) {}

  std::optional<CsvTable> parse() {
    if (text_.starts_with("\xef\xbb\xbf")) text_.remove_prefix(3);
    const size_t before = diagnostics_.error_count();
    CsvTable table;
    bool have_header = false;
    while (at_ < text_.size()) {
      const int line = line_;
      std::vector<std::string> cells;
      if (!read_row(cells)) return std::nullopt;
      if (cells.size() == 1 && cells[0].empty()) continue;  // a blank line
      if (!std::exchange(have_header, true)) {
        table.columns = std::move(cells);
        check_header(table.columns, line);
      } else if (cells.size() != table.columns.size()) {
        error(line, fmt::format("{} cells, expected {} as in the header", cells.size(),
                                table.columns.size()));
      } else {
        table.rows.push_back({line, std::move(cells)});
      }
    }
    if (!have_header) error(0, "empty, expected a header and rows");
    if (diagnostics_.error_count() > before) return std::nullopt;
    return table;
  }

 private:
  void error(int line, std::string message) {
    diagnostics_.error(file_, line, "", std::move(message));
  }

  void check_header(const std::vector<std::string>& columns, int line) {
    std::set<std::string_view> seen;
    for (const std::string& name : columns) {
      if (!seen.insert(name).second) {
        error(line, fmt::format("the column {} stands there twice", quote(name)));
      }
    }
  }

  /// Reads one row and its line end; false where the rest cannot be made sense of.
  bool read_row(std::vector<std::string>& cells) {
    while (true) {
      cells.emplace_back();
      if (cells.size() > kMaxColumns) return fail("too many cells in a row");
      if (!(at_ < text_.size() && text_[at_] == '"' ? quoted(cells.back()) : plain(cells.back()))) {
        return false;
      }
      if (at_ >= text_.size()) return true;
      const char c = text_[at_++];
      if (c == ',') continue;
      if (c == '\r' && at_ < text_.size() && text_[at_] == '\n') ++at_;
      ++line_;
      return true;
    }
  }

  bool plain(std::string& cell) {
    const size_t end =
        std::min(text_.find_first_of(std::string_view(",\r\n\0", 4), at_), text_.size());
    cell = text_.substr(at_, end - at_);
    at_ = end;
    return at_ < text_.size() && text_[at_] == '\0' ? fail("NUL byte, expected text") : true;
  }

  bool quoted(std::string& cell) {
    const int first = line_;
    ++at_;
    while (true) {
      const size_t end = text_.find_first_of(std::string_view("\"\n\0", 3), at_);
      if (end == std::string_view::npos) {
        error(first, "a quote that is not closed");
        return false;
      }
      cell += text_.substr(at_, end - at_);
      at_ = end + 1;
      if (text_[end] == '\0') return fail("NUL byte, expected text");
      if (text_[end] == '\n') {
        cell += '\n';
        ++line_;
      } else if (at_ < text_.size() && text_[at_] == '"') {
        cell += '"';
        ++at_;
      } else {
        break;
      }
    }
    if (at_ < text_.size() &&
        std::string_view(",\r\n").find(text_[at_]) == std::string_view::npos) {
      return fail("text after a closing quote, expected a comma or the line's end");
    }
    return true;
  }

  bool fail(std::string message) {
    error(line_, std::move(message));
    return false;
  }

  std::string_view text_;
  std::string_view file_;
  Diagnostics& diagnostics_;
  size_t at_ = 0;
  int line_ = 1;
};

}  // namespace

std::optional<size_t> CsvTable::column(std::string_view name) const {
  const auto found = std::find(columns.begin(), columns.end(), name);
  if (found == columns.end()) return std::nullopt;
  return static_cast<size_t>(found - columns.begin());
}

std::optional<CsvTable> parse_csv(std::string_view text, std::string_view file,
                                  Diagnostics& diagnostics) {
  return CsvParser(text, file, diagnostics).parse();
}

std::string csv_cell(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string out = "\"";
  for (char c : text) {
    if (c == '"') out += '"';
    out += c;
  }
  return out + "\"";
}

}  // namespace monkeytree
