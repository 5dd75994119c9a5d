// Any bytes as a request's head, and as what clients may put into it: a notification, a change, a
// number, a host. Refused with a reason, or something that is safe to act on.

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

void check_head(std::string_view bytes) {
  HttpFault fault;
  const std::optional<HttpHead> head = parse_http_head(bytes, fault);
  if (!head) {
    require(fault.status >= 400 && !fault.message.empty());
    require(!write_http_response(http_error(fault.status, fault.message), true).empty());
    return;
  }
  const HttpRequest& request = head->request;
  require(head->body_bytes <= kMaxHttpBody);
  require(!request.method.empty() && request.path.starts_with('/') && printable_line(request.path));
  require((request.path + "/").find("/../") == std::string::npos);
  require(request.path.find("//") == std::string::npos);
  require(request.query.size() <= kMaxHttpQuery && request.headers.size() <= kMaxHttpHeaders);
  require(!request.headers.contains("transfer-encoding"));
  for (const auto& [name, value] : request.headers) {
    require(value.find_first_of("\r\n") == std::string::npos);
  }
  // The path as we would write it is read back as the same.
  const std::string again = "GET /" + percent_encoded(request.path.substr(1)) + " HTTP/1.0\r\n\r\n";
  if (again.size() <= kMaxHttpTarget) {
    require(parse_http_head(again, fault).value().request.path == request.path);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const std::optional<size_t> end = end_of_http_head(bytes);
  check_head(bytes.substr(0, end.value_or(bytes.size())));
  const std::string_view body = bytes.substr(end.value_or(0));
  if (const auto why = parse_notification(body); why.ok()) {
    require(why->size() <= 4 * kMaxNote && printable_line(*why));
  } else {
    require(!why.status().message().empty());
  }
  if (const auto change = parse_change(body); change.ok()) {
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
