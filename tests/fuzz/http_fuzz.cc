// Any bytes as a request's path and headers, and as what clients may put into it: a notification, a
// change, a number, a host. Refused with a reason, or something that is safe to act on.

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/json_syntax.h"
#include "bytes.h"
#include "service/address.h"
#include "service/api_input.h"
#include "service/http_message.h"

using namespace monkeytree;  // NOLINT: a program of one function

namespace {

bool printable_line(std::string_view text) {
  return valid_utf8_prefix(text) == text.size() &&
         std::none_of(text.begin(), text.end(),
                      [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
}

/// The next line of `bytes`, which it leaves behind.
std::string_view line_of(std::string_view& bytes) {
  const size_t end = std::min(bytes.find('\n'), bytes.size());
  const std::string_view line = bytes.substr(0, end);
  bytes.remove_prefix(std::min(end + 1, bytes.size()));
  return line;
}

bool refused(const std::optional<HttpFault>& fault) {
  if (!fault) return false;
  require(fault->status >= 400 && !fault->message.empty());
  require(!http_error(fault->status, fault->message).body.empty());
  return true;
}

/// A path and its headers, one a line, as the HTTP library hands them over.
void check_request(std::string_view bytes) {
  HttpRequest request;
  request.method = "GET";
  if (refused(read_target(line_of(bytes), request))) return;
  while (!bytes.empty()) {
    const std::string_view line = line_of(bytes);
    const size_t colon = std::min(line.find(':'), line.size());
    const std::string_view value = line.substr(std::min(colon + 1, line.size()));
    if (refused(read_header(line.substr(0, colon), value, request))) return;
  }
  if (refused(check_head(request, false))) return;
  require(announced_bytes(request) <= kMaxHttpBody);
  require(request.path.starts_with('/') && printable_line(request.path));
  require((request.path + "/").find("/../") == std::string::npos);
  require(request.path.find("//") == std::string::npos);
  require(request.query.size() <= kMaxHttpQuery && request.headers.size() <= kMaxHttpHeaders);
  require(!request.headers.contains("transfer-encoding"));
  for (const auto& [name, value] : request.headers) {
    require(value.find_first_of("\r\n") == std::string::npos);
  }
  // The path as we would write it is read back as the same.
  const std::string again = "/" + percent_encoded(request.path.substr(1));
  if (again.size() > kMaxHttpTarget) return;
  HttpRequest same;
  require(!read_target(again, same) && same.path == request.path);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  check_request(bytes);
  if (const auto why = parse_notification(bytes); why.ok()) {
    require(why->size() <= 4 * kMaxNote && printable_line(*why));
  } else {
    require(!why.status().message().empty());
  }
  if (const auto change = parse_change(bytes); change.ok()) {
    require(printable_line(change->by) && printable_line(change->why));
  }
  if (const auto number = parse_number(bytes); number.ok()) {
    require(*number >= 0 && std::to_string(*number) == bytes);
  }
  if (const std::optional<std::string> host = host_in(bytes)) require(!host->empty());
  if (const std::optional<ListenAddress> address = parse_address(bytes)) {
    require(parse_address(to_string(*address)) == address);
  }
  require(percent_decoded(percent_encoded(bytes), false) == bytes);
  return 0;
}
