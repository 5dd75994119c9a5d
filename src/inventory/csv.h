#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostics.h"

namespace monkeytree {

/// A table whose first row names the columns.
struct CsvTable {
  struct Row {
    int line = 0;
    std::vector<std::string> cells;  ///< as many as there are columns
  };
  std::vector<std::string> columns;
  std::vector<Row> rows;

  std::optional<size_t> column(std::string_view name) const;
};

/// RFC 4180, with LF or CRLF, a byte order mark, and blank lines between rows. Errors, each with
/// its line: no header, a column named twice, a row with more or fewer cells, a quote that is not
/// closed or has text after it, a NUL byte. nullopt exactly when there was an error. O(bytes).
std::optional<CsvTable> parse_csv(std::string_view text, std::string_view file,
                                  Diagnostics& diagnostics);

/// Text as a cell: quoted where it must be.
std::string csv_cell(std::string_view text);

}  // namespace monkeytree
