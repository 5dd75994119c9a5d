#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace monkeytree {

enum class Severity { kError, kWarning, kNote };

/// One thing a reader has to say about its input.
struct Finding {
  Severity severity = Severity::kError;
  std::string file;     ///< as the user named it; "-" is standard input
  int line = 0;         ///< from 1; 0 where the place is a JSON path or the whole file
  std::string path;     ///< JSON path ("/jobs/3/groups/0"), or empty
  std::string message;  ///< what is wrong, and what was expected

  /// `file:line: /json/path: message`, with `warning: ` or `note: ` before the message.
  std::string text() const;
};

/// Collects all findings of one run, errors apart from warnings. Errors beyond kMaxErrors and
/// warnings beyond kMaxWarnings are counted and not kept, so that a hostile file cannot flood.
class Diagnostics {
 public:
  static constexpr size_t kMaxErrors = 20;
  static constexpr size_t kMaxWarnings = 200;

  void add(Finding finding);
  void error(std::string_view file, int line, std::string_view path, std::string message);
  void warning(std::string_view file, int line, std::string_view path, std::string message);
  void note(std::string_view file, int line, std::string_view path, std::string message);

  bool has_errors() const { return errors_ > 0; }
  size_t error_count() const { return errors_; }
  size_t warning_count() const { return warnings_; }
  const std::vector<Finding>& findings() const { return findings_; }

  /// Turns every warning into an error (`--strict`).
  void promote_warnings();

  /// All findings, a line each, errors first, then "… and N more errors" where some were not kept.
  std::string text() const;

 private:
  std::vector<Finding> findings_;
  size_t errors_ = 0;
  size_t warnings_ = 0;
  size_t notes_ = 0;
};

}  // namespace monkeytree
