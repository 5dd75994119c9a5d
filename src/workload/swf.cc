#include "workload/swf.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "workload/number.h"

namespace monkeytree {
namespace {

constexpr size_t kFields = 18;
using Fields = std::array<std::string_view, kFields>;

/// The fields of a line; false where there are not 18.
bool split(std::string_view line, Fields& fields) {
  constexpr std::string_view kBlanks = " \t\r";
  size_t count = 0, at = 0;
  while ((at = line.find_first_not_of(kBlanks, at)) != std::string_view::npos) {
    const size_t end = std::min(line.find_first_of(kBlanks, at), line.size());
    if (count == kFields) return false;
    fields[count++] = line.substr(at, end - at);
    at = end;
  }
  return count == kFields;
}

/// A whole number, -1 where it is none.
int64_t count_of(std::string_view text) { return whole_number(text).value_or(-1); }

class SwfReader {
 public:
  explicit SwfReader(ImportCounts& counts) : counts_(counts) {}

  std::vector<PastJob> read(std::string_view text) {
    for (int line = 1; !text.empty(); ++line) {
      const size_t end = std::min(text.find('\n'), text.size());
      std::string_view row = text.substr(0, end);
      text.remove_prefix(std::min(end + 1, text.size()));
      row = trimmed(row.substr(0, row.find(';')));
      if (!row.empty()) read_row(row, line);
    }
    return std::move(jobs_);
  }
  int64_t good_rows() const { return good_rows_; }

 private:
  void read_row(std::string_view row, int line) {
    ++counts_.rows;
    Fields fields;
    if (!split(row, fields)) return counts_.skip("not the 18 fields of the format", line);
    const auto submit = seconds_us(fields[1]), wait = seconds_us(fields[2]);
    const auto run = seconds_us(fields[3]);
    if (!submit || !wait || !run) return counts_.skip("a time that is no number", line);
    ++good_rows_;
    const int64_t status = count_of(fields[10]);
    if (status >= 2 && status <= 4) {
      return counts_.skip("a partial run, whose job has a line of its own", line);
    }
    if (*submit < 0) return counts_.skip("submitted at an unknown time", line);
    if (*run < 0) return counts_.skip("ran for an unknown time", line);
    PastJob job{*submit, *submit + std::max<int64_t>(*wait, 0), *run, count_of(fields[4]), line};
    if (job.gpus <= 0 && count_of(fields[7]) > 0) {
      counts_.mend("allocated processors unknown: the requested ones taken", line);
      job.gpus = count_of(fields[7]);
    }
    jobs_.push_back(job);
  }

  ImportCounts& counts_;
  std::vector<PastJob> jobs_;
  int64_t good_rows_ = 0;
};

}  // namespace

std::optional<ImportedTrace> import_swf(std::string_view text, std::string_view file,
                                        const ImportOptions& options, Diagnostics& diagnostics) {
  ImportedTrace out;
  SwfReader reader(out.counts);
  std::vector<PastJob> jobs = reader.read(text);
  if (reader.good_rows() == 0) {
    diagnostics.error(file, 0, "",
                      "no line of the Standard Workload Format, expected 18 numbers a line");
    return std::nullopt;
  }
  out.trace = trace_of(std::move(jobs), options, out.counts);
  return out;
}

}  // namespace monkeytree
