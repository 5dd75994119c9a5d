#include "report/data_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <sstream>

#include "base/json.h"
#include "report/text.h"

namespace monkeytree {
namespace {

constexpr size_t kGap = 2;
constexpr size_t kLongWord = 24;  // words up to this are kept whole
constexpr size_t kNarrowest = 8;

/// A text in lines of at most `width`, broken at blanks, inside a word where it must be.
std::vector<std::string> wrap(const std::string& text, size_t width) {
  std::vector<std::string> lines;
  std::string line;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    while (columns_of(word) > width) {
      size_t bytes = word.size();
      while (bytes > 1 && (columns_of(std::string_view(word).substr(0, bytes)) > width ||
                           (static_cast<unsigned char>(word[bytes]) & 0xC0) == 0x80)) {
        --bytes;
      }
      if (!line.empty()) lines.push_back(line);
      line.clear();
      lines.push_back(word.substr(0, bytes));
      word.erase(0, bytes);
    }
    if (word.empty()) continue;
    if (!line.empty() && columns_of(line) + 1 + columns_of(word) > width) {
      lines.push_back(line);
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
  }
  if (!line.empty() || lines.empty()) lines.push_back(line);
  return lines;
}

size_t longest_word(const std::string& text) {
  size_t longest = 0;
  std::istringstream words(text);
  for (std::string word; words >> word;) longest = std::max(longest, columns_of(word));
  return longest;
}

/// Lays a table out for a width: which columns stand, and how wide.
class TextLayout {
 public:
  TextLayout(const DataTable& table, size_t width) : table_(table), width_(width) {
    for (size_t c = 0; c < table.columns.size(); ++c) {
      numeric_.push_back(table.is_numeric(c));
      kept_.push_back(c);
      widest_.push_back(columns_of(header(c)));
      size_t cells = 0;
      size_t word = 0;
      for (size_t r = 0; r < table.rows.size(); ++r) {
        const std::string text = table.at(r, c).text();
        cells = std::max(cells, columns_of(text));
        word = std::max(word, longest_word(text));
      }
      widest_[c] = std::max(widest_[c], cells);
      // Numbers are never broken, names are, headers at blanks only.
      const size_t least = numeric_[c] ? cells : std::min(word, kLongWord);
      least_.push_back(std::max({least, std::min(longest_word(header(c)), width), size_t{1}}));
    }
    leave_out();
    share_out();
  }

  std::string text() const {
    std::string out;
    if (!table_.title.empty()) {
      for (const std::string& line : wrap(printable(table_.title), width_)) out += line + "\n";
    }
    if (kept_.empty()) return out;
    out += line_of([&](size_t c) { return header(c); });
    std::string rule;
    for (const size_t c : kept_) {
      if (!rule.empty()) rule += std::string(kGap, ' ');
      for (size_t i = 0; i < widths_[c]; ++i) rule += "─";
    }
    out += rule + "\n";
    for (size_t r = 0; r < table_.rows.size(); ++r) {
      out += line_of([&](size_t c) { return table_.at(r, c).text(); });
    }
    if (!left_out_.empty()) {
      std::sort(left_out_.begin(), left_out_.end());
      std::string names;
      for (const size_t c : left_out_) names += (names.empty() ? "" : ", ") + header(c);
      for (const std::string& line : wrap("Not shown for want of room: " + names, width_)) {
        out += line + "\n";
      }
    }
    return out;
  }

 private:
  std::string header(size_t c) const { return printable(table_.columns[c].header()); }

  size_t total(const std::vector<size_t>& widths) const {
    size_t sum = kept_.empty() ? 0 : kGap * (kept_.size() - 1);
    for (const size_t c : kept_) sum += widths[c];
    return sum;
  }

  void leave_out() {
    while (kept_.size() > 1 && total(least_) > width_) {
      size_t worst = kept_.size() - 1;
      for (size_t k = kept_.size() - 1; k >= 1; --k) {
        if (table_.columns[kept_[k]].rank > table_.columns[kept_[worst]].rank) worst = k;
      }
      left_out_.push_back(kept_[worst]);
      kept_.erase(kept_.begin() + static_cast<std::ptrdiff_t>(worst));
    }
  }

  /// Full width where there is room; else the widest columns that may give way give way first.
  void share_out() {
    widths_ = widest_;
    while (!kept_.empty() && total(widths_) > width_) {
      size_t widest = table_.columns.size();
      for (const size_t c : kept_) {
        const bool can = widths_[c] > least_[c];
        if (can && (widest == table_.columns.size() || widths_[c] > widths_[widest])) widest = c;
      }
      if (widest == table_.columns.size()) {
        widths_[kept_[0]] = std::min(widths_[kept_[0]], width_);
        return;
      }
      --widths_[widest];
    }
  }

  template <class CellText>
  std::string line_of(CellText cell) const {
    std::vector<std::vector<std::string>> lines;
    size_t height = 1;
    for (const size_t c : kept_) {
      lines.push_back(wrap(cell(c), widths_[c]));
      height = std::max(height, lines.back().size());
    }
    std::string out;
    for (size_t h = 0; h < height; ++h) {
      std::string line;
      for (size_t k = 0; k < kept_.size(); ++k) {
        const std::string text = h < lines[k].size() ? lines[k][h] : "";
        const std::string pad(widths_[kept_[k]] - std::min(widths_[kept_[k]], columns_of(text)),
                              ' ');
        if (k > 0) line += std::string(kGap, ' ');
        line += numeric_[kept_[k]] ? pad + text : text + pad;
      }
      line.erase(line.find_last_not_of(' ') + 1);
      out += line + "\n";
    }
    return out;
  }

  const DataTable& table_;
  size_t width_;
  std::vector<bool> numeric_;
  std::vector<size_t> widest_, least_, widths_;
  std::vector<size_t> kept_;
  mutable std::vector<size_t> left_out_;
};

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

}  // namespace

std::string DataCell::text() const {
  if (const auto* text = std::get_if<std::string>(&value_)) return printable(*text);
  if (const auto* whole = std::get_if<int64_t>(&value_)) return fmt::format("{}", *whole);
  return fixed_text(std::get<double>(value_), decimals_);
}

std::string DataCell::page_text() const {
  if (const auto* text = std::get_if<std::string>(&value_)) return *text;
  if (const auto* whole = std::get_if<int64_t>(&value_)) {
    return grouped_text(static_cast<double>(*whole), 0);
  }
  return grouped_text(std::get<double>(value_), decimals_);
}

std::string DataCell::exact() const {
  if (const auto* text = std::get_if<std::string>(&value_)) return *text;
  if (const auto* whole = std::get_if<int64_t>(&value_)) return fmt::format("{}", *whole);
  const double number = std::get<double>(value_);
  return std::isnan(number) ? "" : fmt::format("{}", number);
}

std::string DataColumn::header() const {
  return unit.empty() ? name : fmt::format("{} ({})", name, unit);
}

const DataCell& DataTable::at(size_t row, size_t column) const {
  static const DataCell kEmpty;
  return column < rows[row].size() ? rows[row][column] : kEmpty;
}

bool DataTable::is_numeric(size_t column) const {
  bool some = false;
  for (size_t row = 0; row < rows.size(); ++row) {
    const DataCell& cell = at(row, column);
    if (cell.is_text() && !cell.exact().empty()) return false;
    some = some || !cell.is_text();
  }
  return some;
}

std::string text_of(const DataTable& table, size_t width) {
  return TextLayout(table, std::max(width, kNarrowest)).text();
}

std::string csv_of(const DataTable& table) {
  std::string out;
  for (size_t c = 0; c < table.columns.size(); ++c) {
    const DataColumn& column = table.columns[c];
    if (c > 0) out += ",";
    out += csv_field(column.unit.empty() ? column.name : column.name + "_" + column.unit);
  }
  out += "\n";
  for (size_t r = 0; r < table.rows.size(); ++r) {
    for (size_t c = 0; c < table.columns.size(); ++c) {
      if (c > 0) out += ",";
      out += csv_field(table.at(r, c).exact());
    }
    out += "\n";
  }
  return out;
}

std::string html_of(const DataTable& table) {
  std::string out = "<table>\n";
  if (!table.title.empty()) out += "<caption>" + escape(table.title) + "</caption>\n";
  std::vector<std::string> kinds;
  out += "<thead><tr>";
  for (size_t c = 0; c < table.columns.size(); ++c) {
    kinds.emplace_back(table.is_numeric(c) ? " class=\"number\"" : "");
    out += fmt::format("<th scope=\"col\"{}>{}</th>", kinds[c], escape(table.columns[c].header()));
  }
  out += "</tr></thead>\n<tbody>\n";
  for (size_t r = 0; r < table.rows.size(); ++r) {
    out += "<tr>";
    for (size_t c = 0; c < table.columns.size(); ++c) {
      out += fmt::format("<td{}>{}</td>", kinds[c], escape(table.at(r, c).page_text()));
    }
    out += "</tr>\n";
  }
  return out + "</tbody>\n</table>\n";
}

}  // namespace monkeytree
