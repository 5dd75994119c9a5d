#pragma once

#include <optional>
#include <string_view>

#include "base/diagnostics.h"
#include "study/study.h"

namespace monkeytree {

/// Reads a study of one's own (docs/studies.md, "Your own study"); nullopt after an error. Every
/// scenario of its grid is read, so that a value that none can have is found before the first run.
std::optional<Study> parse_study(std::string_view text, std::string_view file,
                                 const FileReader& read, Diagnostics& diagnostics);

}  // namespace monkeytree
