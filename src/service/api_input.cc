#include "service/api_input.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <memory>

#include "base/diagnostics.h"
#include "base/json.h"

namespace monkeytree {
namespace {

absl::Status first_error(const Diagnostics& findings) {
  const Finding& finding = findings.findings().front();
  return absl::InvalidArgumentError(finding.path.empty()
                                        ? fmt::format("the body: {}", finding.message)
                                        : fmt::format("{}: {}", finding.path, finding.message));
}

/// A short text of one line; an error where it is longer.
std::string read_note(JsonObject& object, std::string_view key) {
  const std::optional<JsonValue> value = object.find(key);
  if (!value) return "";
  const std::optional<std::string_view> text = value->string();
  if (!text) return "";
  if (text->size() > kMaxNote) {
    value->error(fmt::format("{} bytes, expected at most {}", text->size(), kMaxNote));
    return "";
  }
  return printable(*text);
}

template <class Read>
absl::Status read_body(std::string_view body, UnknownField unknown, const Read& read) {
  if (body.find_first_not_of(" \t\r\n") == std::string_view::npos) return absl::OkStatus();
  Diagnostics findings;
  const std::unique_ptr<JsonDocument> document = JsonDocument::parse(body, "body", findings);
  if (document) {
    if (std::optional<JsonObject> object = document->root().object()) {
      read(*object);
      object->finish(unknown);
    }
  }
  return findings.has_errors() ? first_error(findings) : absl::OkStatus();
}

}  // namespace

absl::StatusOr<int64_t> parse_number(std::string_view text) {
  int64_t number = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool digits = !text.empty() && text.front() >= '0' && text.front() <= '9' &&
                      (text.front() != '0' || text.size() == 1);
  if (!digits || fault != std::errc() || end != text.data() + text.size()) {
    return absl::InvalidArgumentError(fmt::format("expected a number, found {}", quote(text)));
  }
  return number;
}

absl::StatusOr<std::string> parse_notification(std::string_view body) {
  std::string why;
  const absl::Status status = read_body(
      body, UnknownField::kIgnore, [&](JsonObject& object) { why = read_note(object, "why"); });
  if (!status.ok()) return status;
  return why;
}

absl::StatusOr<Change> parse_change(std::string_view body) {
  Change change;
  const absl::Status status = read_body(body, UnknownField::kError, [&](JsonObject& object) {
    change.by = read_note(object, "by");
    change.why = read_note(object, "why");
  });
  if (!status.ok()) return status;
  return change;
}

std::optional<std::string> host_in(std::string_view text) {
  const size_t scheme = text.find("://");
  if (scheme != std::string_view::npos) text.remove_prefix(scheme + 3);
  std::string host;
  std::string_view port;
  if (text.starts_with('[')) {
    const size_t end = text.find(']');
    if (end == std::string_view::npos) return std::nullopt;
    host = text.substr(1, end - 1);
    port = text.substr(end + 1);
  } else {
    const size_t colon = std::min(text.find(':'), text.size());
    host = text.substr(0, colon);
    port = text.substr(colon);
  }
  const bool sound_port =
      port.empty() ||
      (port.front() == ':' && port.size() <= 6 &&
       std::all_of(port.begin() + 1, port.end(), [](char c) { return c >= '0' && c <= '9'; }));
  if (host.empty() || !sound_port || host.find_first_of("/@?# \t") != std::string::npos) {
    return std::nullopt;
  }
  for (char& c : host) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return host;
}

}  // namespace monkeytree
