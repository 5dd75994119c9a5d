#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace monkeytree {

/// A whole number as `3`, `-3`, `3.0` or `1.2e10`; nullopt where the text is anything else, or no
/// whole number, or beyond 18 digits.
std::optional<int64_t> whole_number(std::string_view text);

/// Text without the blanks around it.
std::string_view trimmed(std::string_view text);

}  // namespace monkeytree
