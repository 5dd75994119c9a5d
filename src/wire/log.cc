#include "wire/log.h"

#include <fmt/format.h>

#include <cctype>

#include "base/json.h"

namespace monkeytree {
namespace {

std::string value_text(std::string_view value) {
  bool plain = !value.empty();
  for (char c : value) {
    const auto byte = static_cast<unsigned char>(c);
    plain = plain && (std::isalnum(byte) != 0 ||
                      std::string_view("._/:@+-,").find(c) != std::string_view::npos);
  }
  if (plain) return std::string(value);
  std::string out = "\"";
  for (char c : printable(value)) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

}  // namespace

std::string log_line(std::string_view event, const LogFields& fields) {
  std::string out = fmt::format("event={}", value_text(event));
  for (const auto& [name, value] : fields) out += fmt::format(" {}={}", name, value_text(value));
  return out;
}

}  // namespace monkeytree
