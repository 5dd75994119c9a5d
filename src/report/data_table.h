#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

/// One table for all its readers: text for a terminal, CSV for programs, HTML in a page.
///
///     DataTable table{.title = "Slowdown",
///                     .columns = {{"system"}, {.name = "average"}, {.name = "p99"}}};
///     table.rows.push_back({"ecmp", DataCell(1.5812, 2), DataCell(3.44, 2)});
///     print(text_of(table));                    // rounded, fits 80 columns
///     write_file("slowdown.csv", csv_of(table));  // every digit
namespace monkeytree {

/// A text or a number. A number knows how many decimals people want to see; programs get all.
class DataCell {
 public:
  DataCell() : DataCell(std::string()) {}
  DataCell(std::string text) : value_(std::move(text)) {}  // NOLINT: a cell is what it holds
  DataCell(const char* text) : value_(std::string(text)) {}
  DataCell(std::string_view text) : value_(std::string(text)) {}
  template <std::integral Number>
  DataCell(Number number) : value_(static_cast<int64_t>(number)) {}
  DataCell(double number, int decimals) : value_(number), decimals_(decimals) {}

  bool is_text() const { return std::holds_alternative<std::string>(value_); }
  /// For a terminal: "1.58"; control characters made visible; "–" for NaN.
  std::string text() const;
  /// For a page, not yet escaped: digits in groups.
  std::string page_text() const;
  /// For programs: the shortest digits that read back as the same number; nothing for NaN.
  std::string exact() const;

 private:
  std::variant<std::string, int64_t, double> value_;
  int decimals_ = 0;
};

struct DataColumn {
  std::string name;
  std::string unit = {};  ///< "s", "GB"; empty for a count, a ratio or a name
  /// Where a text is too wide for its columns, those of the highest rank are left out first.
  int rank = 0;

  std::string header() const;  ///< "pause (s)"
};

struct DataTable {
  std::string title = {};
  std::vector<DataColumn> columns = {};
  std::vector<std::vector<DataCell>> rows = {};  ///< short rows are filled up with empty cells

  const DataCell& at(size_t row, size_t column) const;
  /// Every cell that is not empty is a number; stands to the right.
  bool is_numeric(size_t column) const;
};

inline constexpr size_t kTerminalColumns = 80;

/// Aligned text whose lines are at most `width` wide, names broken at blanks where they must be.
/// What still does not fit is left out, last columns first within a rank and never the first
/// column, and a line below says which. O(cells · columns).
std::string text_of(const DataTable& table, size_t width = kTerminalColumns);

/// RFC 4180, with a header line "name_unit" and lines that end in "\n" alone as in all our files.
std::string csv_of(const DataTable& table);

/// An HTML table, everything escaped.
std::string html_of(const DataTable& table);

}  // namespace monkeytree
