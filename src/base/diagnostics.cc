#include "base/diagnostics.h"

#include <fmt/format.h>

#include <utility>

namespace monkeytree {

std::string Finding::text() const {
  std::string out = file;
  if (line > 0) out += fmt::format(":{}", line);
  if (!out.empty()) out += ": ";
  if (!path.empty()) out += path + ": ";
  if (severity == Severity::kWarning) out += "warning: ";
  if (severity == Severity::kNote) out += "note: ";
  return out + message;
}

void Diagnostics::add(Finding finding) {
  size_t& count = finding.severity == Severity::kError     ? errors_
                  : finding.severity == Severity::kWarning ? warnings_
                                                           : notes_;
  const size_t limit = finding.severity == Severity::kError ? kMaxErrors : kMaxWarnings;
  if (count++ < limit) findings_.push_back(std::move(finding));
}

void Diagnostics::error(std::string_view file, int line, std::string_view path,
                        std::string message) {
  add({Severity::kError, std::string(file), line, std::string(path), std::move(message)});
}

void Diagnostics::warning(std::string_view file, int line, std::string_view path,
                          std::string message) {
  add({Severity::kWarning, std::string(file), line, std::string(path), std::move(message)});
}

void Diagnostics::note(std::string_view file, int line, std::string_view path,
                       std::string message) {
  add({Severity::kNote, std::string(file), line, std::string(path), std::move(message)});
}

void Diagnostics::promote_warnings() {
  for (Finding& finding : findings_) {
    if (finding.severity == Severity::kWarning) finding.severity = Severity::kError;
  }
  errors_ += warnings_;
  warnings_ = 0;
}

std::string Diagnostics::text() const {
  std::string out;
  size_t kept[3] = {0, 0, 0};
  for (Severity wanted : {Severity::kError, Severity::kWarning, Severity::kNote}) {
    for (const Finding& finding : findings_) {
      if (finding.severity != wanted) continue;
      out += finding.text() + "\n";
      ++kept[static_cast<int>(wanted)];
    }
  }
  const auto rest = [&](size_t total, Severity severity, std::string_view what) {
    const size_t more = total - kept[static_cast<int>(severity)];
    if (more > 0) out += fmt::format("... and {} more {}{}\n", more, what, more == 1 ? "" : "s");
  };
  rest(errors_, Severity::kError, "error");
  rest(warnings_, Severity::kWarning, "warning");
  rest(notes_, Severity::kNote, "note");
  return out;
}

}  // namespace monkeytree
