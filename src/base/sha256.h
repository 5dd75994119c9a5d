#pragma once

#include <string>
#include <string_view>

namespace monkeytree {

/// SHA-256 of the bytes as 64 lower-case hexadecimal digits. Empty only where libcrypto refuses to
/// hash (a machine restricted to other algorithms).
std::string sha256(std::string_view bytes);

}  // namespace monkeytree
