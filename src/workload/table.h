#pragma once

#include <cstddef>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace monkeytree {

/// Reads a table a row at a time, so that large logs need no memory of their size. Rows end in LF
/// or CRLF; a byte order mark and blank lines are passed over. With `,` cells may be quoted as in
/// RFC 4180; with any other separator a quote is a letter like others.
///
///     TableReader table(text, ',');
///     while (table.next()) use(table.cells());
///     if (!table.fault().empty()) …
class TableReader {
 public:
  TableReader(std::string_view text, char separator);

  /// Goes to the next row; false at the end, and where the rest cannot be made sense of.
  bool next();
  /// Of the row; good until next() is called.
  const std::vector<std::string>& cells() const { return cells_; }
  int line() const { return row_line_; }  ///< of the row's beginning, from 1
  /// Why next() stopped, at line(); empty at the end of the text.
  const std::string& fault() const { return fault_; }

 private:
  bool read_cells();
  bool plain(std::string& cell);
  bool quoted(std::string& cell);

  std::string_view text_;
  char separator_;
  size_t at_ = 0;
  int line_ = 1, row_line_ = 0;
  std::vector<std::string> cells_;
  std::string fault_;
};

/// The columns of a table by name; of two with one name the first.
class Columns {
 public:
  explicit Columns(const std::vector<std::string>& header);

  size_t count() const { return names_.size(); }
  /// The first of `names` that the table has.
  std::optional<size_t> find(std::initializer_list<std::string_view> names) const;
  /// Those of `names` that are missing, as text: "a, b"; empty where there are all.
  std::string missing(std::initializer_list<std::string_view> names) const;

 private:
  std::vector<std::string> names_;
};

}  // namespace monkeytree
