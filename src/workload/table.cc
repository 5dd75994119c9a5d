#include "workload/table.h"

#include <algorithm>

#include "workload/number.h"

namespace monkeytree {
namespace {

constexpr size_t kMaxCells = 4096;

}  // namespace

TableReader::TableReader(std::string_view text, char separator)
    : text_(text), separator_(separator) {
  if (text_.starts_with("\xef\xbb\xbf")) text_.remove_prefix(3);
}

bool TableReader::next() {
  while (fault_.empty() && at_ < text_.size()) {
    row_line_ = line_;
    if (!read_cells()) return false;
    if (cells_.size() > 1 || !trimmed(cells_[0]).empty()) return true;
  }
  return false;
}

bool TableReader::read_cells() {
  size_t count = 0;
  while (true) {
    if (++count > kMaxCells) {
      fault_ = "too many cells in a row";
      return false;
    }
    if (cells_.size() < count) cells_.emplace_back();
    std::string& cell = cells_[count - 1];
    cell.clear();
    const bool quote = separator_ == ',' && at_ < text_.size() && text_[at_] == '"';
    if (!(quote ? quoted(cell) : plain(cell))) return false;
    if (at_ < text_.size() && text_[at_++] == separator_) continue;
    cells_.resize(count);
    return true;
  }
}

/// Leaves at_ on the separator, or on the last byte of the row's end.
bool TableReader::plain(std::string& cell) {
  const char ends[] = {separator_, '\n', '\0'};
  const size_t end = std::min(text_.find_first_of(std::string_view(ends, 3), at_), text_.size());
  cell = text_.substr(at_, end - at_);
  at_ = end;
  if (at_ == text_.size() || text_[at_] == separator_) {
    if (at_ == text_.size() && cell.ends_with('\r')) cell.pop_back();
    return true;
  }
  if (text_[at_] == '\0') {
    fault_ = "NUL byte, expected text";
    return false;
  }
  ++line_;
  if (cell.ends_with('\r')) cell.pop_back();
  return true;
}

bool TableReader::quoted(std::string& cell) {
  ++at_;
  while (true) {
    const size_t end = text_.find('"', at_);
    if (end == std::string_view::npos) {
      fault_ = "a quote that is not closed";
      return false;
    }
    const std::string_view part = text_.substr(at_, end - at_);
    cell += part;
    line_ += static_cast<int>(std::count(part.begin(), part.end(), '\n'));
    at_ = end + 1;
    if (at_ == text_.size() || text_[at_] != '"') break;
    cell += '"';
    ++at_;
  }
  if (at_ < text_.size() && text_[at_] == '\r') ++at_;
  if (at_ == text_.size() || text_[at_] == separator_) return true;
  if (text_[at_] != '\n') {
    fault_ = "text after a closing quote, expected a comma or the line's end";
    return false;
  }
  ++line_;
  return true;
}

Columns::Columns(const std::vector<std::string>& header) {
  for (const std::string& name : header) names_.emplace_back(trimmed(name));
}

std::optional<size_t> Columns::find(std::initializer_list<std::string_view> names) const {
  for (std::string_view name : names) {
    const auto found = std::find(names_.begin(), names_.end(), name);
    if (found != names_.end()) return static_cast<size_t>(found - names_.begin());
  }
  return std::nullopt;
}

std::string Columns::missing(std::initializer_list<std::string_view> names) const {
  std::string out;
  for (std::string_view name : names) {
    if (find({name})) continue;
    if (!out.empty()) out += ", ";
    out += name;
  }
  return out;
}

}  // namespace monkeytree
