#include "service/http_message.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>

#include "base/json_syntax.h"
#include "base/status.h"

namespace monkeytree {
namespace {

bool is_token_character(char c) {
  constexpr std::string_view kOther = "!#$%&'*+-.^_`|~";
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         kOther.find(c) != std::string_view::npos;
}
bool is_token(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), is_token_character);
}
bool is_visible(char c) { return c > ' ' && c < 0x7f; }

/// Headers that we look at; others may be lists, written in several lines.
constexpr std::array<std::string_view, 7> kOnce = {
    "authorization", "content-encoding", "content-length", "content-type",
    "host",          "last-event-id",    "origin"};

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

int hex(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::string_view reason_of(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 202:
      return "Accepted";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 409:
      return "Conflict";
    case 411:
      return "Length Required";
    case 413:
      return "Content Too Large";
    case 414:
      return "URI Too Long";
    case 421:
      return "Misdirected Request";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return "Other";
  }
}

/// The word that programs look at.
std::string_view code_of(int status) {
  switch (status) {
    case 400:
      return "bad_request";
    case 401:
      return "unauthenticated";
    case 403:
      return "forbidden";
    case 404:
      return "not_found";
    case 405:
      return "method_not_allowed";
    case 408:
      return "too_slow";
    case 409:
      return "refused";
    case 411:
    case 413:
    case 414:
    case 431:
      return "too_large";
    case 421:
      return "foreign_host";
    case 429:
      return "too_many";
    case 503:
      return "unavailable";
    case 504:
      return "deadline";
    default:
      return status < 500 ? "bad_request" : "internal";
  }
}

/// The parts of a head, one after the other; stops at the first fault.
class HeadReader {
 public:
  HeadReader(std::string_view text, HttpFault& fault) : text_(text), fault_(fault) {}

  std::optional<HttpHead> read() {
    if (!read_request_line()) return std::nullopt;
    while (true) {
      const std::optional<std::string_view> line = next_line();
      if (!line) return std::nullopt;
      if (line->empty()) break;
      if (!read_header(*line)) return std::nullopt;
    }
    if (!read_length()) return std::nullopt;
    return std::move(head_);
  }

 private:
  bool refuse(int status, std::string message) {
    fault_ = {status, std::move(message)};
    return false;
  }

  std::optional<std::string_view> next_line() {
    const size_t end = text_.find("\r\n");
    if (end == std::string_view::npos) {
      refuse(400, "a line that does not end in CR LF");
      return std::nullopt;
    }
    const std::string_view line = text_.substr(0, end);
    text_.remove_prefix(end + 2);
    return line;
  }

  bool read_request_line() {
    const std::optional<std::string_view> line = next_line();
    if (!line) return false;
    const size_t first = line->find(' ');
    const size_t last = line->rfind(' ');
    if (first == std::string_view::npos || first == last) {
      return refuse(400, "expected METHOD PATH HTTP/1.1");
    }
    const std::string_view method = line->substr(0, first);
    const std::string_view target = line->substr(first + 1, last - first - 1);
    const std::string_view version = line->substr(last + 1);
    if (!is_token(method) || method.size() > 16) return refuse(400, "no method");
    if (version != "HTTP/1.1" && version != "HTTP/1.0") {
      return version.starts_with("HTTP/") ? refuse(505, "expected HTTP/1.1")
                                          : refuse(400, "expected METHOD PATH HTTP/1.1");
    }
    old_ = version == "HTTP/1.0";
    head_.request.method = method;
    if (target.size() > kMaxHttpTarget) {
      return refuse(414, fmt::format("a path of more than {} bytes", kMaxHttpTarget));
    }
    return read_target(target);
  }

  bool read_target(std::string_view target) {
    if (target.empty() || target.front() != '/' ||
        !std::all_of(target.begin(), target.end(), is_visible) ||
        target.find('#') != std::string_view::npos) {
      return refuse(400, "a path that does not begin with / or holds what no path may hold");
    }
    const size_t mark = target.find('?');
    const std::optional<std::string> path = percent_decoded(target.substr(0, mark), false);
    if (!path || valid_utf8_prefix(*path) < path->size() ||
        std::any_of(path->begin(), path->end(),
                    [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }) ||
        path->find('\\') != std::string::npos || path->find("//") != std::string::npos) {
      return refuse(400, "a path that is not well written");
    }
    if ((*path + "/").find("/../") != std::string::npos ||
        (*path + "/").find("/./") != std::string::npos) {
      return refuse(400, "a path with . or .. in it");
    }
    head_.request.path = *path;
    return mark == std::string_view::npos || read_query(target.substr(mark + 1));
  }

  bool read_query(std::string_view text) {
    while (!text.empty()) {
      const size_t end = std::min(text.find('&'), text.size());
      const std::string_view pair = text.substr(0, end);
      text.remove_prefix(std::min(end + 1, text.size()));
      const size_t equals = std::min(pair.find('='), pair.size());
      const std::optional<std::string> key = percent_decoded(pair.substr(0, equals), true);
      const std::optional<std::string> value =
          percent_decoded(pair.substr(std::min(equals + 1, pair.size())), true);
      if (!key || key->empty() || !value || valid_utf8_prefix(*key) < key->size() ||
          valid_utf8_prefix(*value) < value->size()) {
        return refuse(400, "a query that is not well written");
      }
      if (!head_.request.query.emplace(*key, *value).second) {
        return refuse(400, "a field of the query that stands there twice");
      }
      if (head_.request.query.size() > kMaxHttpQuery) {
        return refuse(400, "a query of too many fields");
      }
    }
    return true;
  }

  bool read_header(std::string_view line) {
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos || !is_token(line.substr(0, colon))) {
      return refuse(400, "a header line that is not NAME: VALUE");
    }
    std::string_view value = line.substr(colon + 1);
    const size_t first = value.find_first_not_of(" \t");
    value = first == std::string_view::npos ? std::string_view() : value.substr(first);
    value = value.substr(0, value.find_last_not_of(" \t") + 1);
    const bool sound = std::all_of(value.begin(), value.end(), [](char c) {
      return c == '\t' || (static_cast<unsigned char>(c) >= 0x20 && c != 0x7f);
    });
    if (!sound) return refuse(400, "a header with control characters");
    if (++headers_ > kMaxHttpHeaders) return refuse(431, "too many headers");
    const std::string name = lower(line.substr(0, colon));
    const auto [at, is_new] = head_.request.headers.emplace(name, value);
    if (is_new) return true;
    const bool once = std::find(kOnce.begin(), kOnce.end(), name) != kOnce.end();
    if (once) return refuse(400, fmt::format("{} stands there twice", name));
    at->second += fmt::format(", {}", value);
    return true;
  }

  bool read_length() {
    const HttpRequest& request = head_.request;
    if (!old_ && request.header("host").empty()) return refuse(400, "no Host");
    if (request.headers.contains("transfer-encoding")) {
      return refuse(501, "a transfer encoding, expected Content-Length");
    }
    if (!request.header("content-encoding").empty()) {
      return refuse(501, "a content encoding, expected plain content");
    }
    const std::string_view length = request.header("content-length");
    if (!request.headers.contains("content-length")) return true;
    uint64_t bytes = 0;
    const auto [end, error] = std::from_chars(length.data(), length.data() + length.size(), bytes);
    if (error == std::errc::result_out_of_range) bytes = UINT64_MAX;
    if (length.empty() || error == std::errc::invalid_argument ||
        end != length.data() + length.size()) {
      return refuse(400, "a Content-Length that is no number");
    }
    if (bytes > kMaxHttpBody) {
      return refuse(413, fmt::format("a body of more than {} bytes", kMaxHttpBody));
    }
    head_.body_bytes = bytes;
    return true;
  }

  std::string_view text_;
  HttpFault& fault_;
  HttpHead head_;
  size_t headers_ = 0;
  bool old_ = false;
};

}  // namespace

std::string_view HttpRequest::header(std::string_view name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? std::string_view() : found->second;
}

HttpResponse http_error(int status, std::string_view message) {
  using Json = nlohmann::ordered_json;
  HttpResponse response;
  response.status = status;
  const Json json = {{"error", {{"code", code_of(status)}, {"message", message}}}};
  response.body = json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  return response;
}

HttpResponse http_error(const absl::Status& status) {
  const int code = [&] {
    switch (status.code()) {
      case absl::StatusCode::kInvalidArgument:
        return 400;
      case absl::StatusCode::kNotFound:
        return 404;
      case absl::StatusCode::kFailedPrecondition:
      case absl::StatusCode::kAborted:
        return 409;
      case absl::StatusCode::kUnavailable:
      case absl::StatusCode::kResourceExhausted:
        return 503;
      case absl::StatusCode::kDeadlineExceeded:
        return 504;
      default:
        return 500;
    }
  }();
  return http_error(code, message_of(status));
}

std::optional<size_t> end_of_http_head(std::string_view bytes) {
  const size_t end = bytes.find("\r\n\r\n");
  if (end == std::string_view::npos) return std::nullopt;
  return end + 4;
}

std::optional<HttpHead> parse_http_head(std::string_view head, HttpFault& fault) {
  return HeadReader(head, fault).read();
}

std::string write_http_response(const HttpResponse& response, bool with_body) {
  std::string out = fmt::format("HTTP/1.1 {} {}\r\nContent-Type: {}\r\n", response.status,
                                reason_of(response.status), response.content_type);
  if (!response.stream) out += fmt::format("Content-Length: {}\r\n", response.body.size());
  for (const auto& [name, value] : response.headers) out += fmt::format("{}: {}\r\n", name, value);
  // One request a connection: nothing of one can be taken for the next.
  out += "Connection: close\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n\r\n";
  if (with_body) out += response.body;
  return out;
}

std::optional<std::string> percent_decoded(std::string_view text, bool plus) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '+' && plus) {
      out += ' ';
    } else if (text[i] != '%') {
      out += text[i];
    } else {
      if (i + 2 >= text.size() || hex(text[i + 1]) < 0 || hex(text[i + 2]) < 0) {
        return std::nullopt;
      }
      out += static_cast<char>(hex(text[i + 1]) * 16 + hex(text[i + 2]));
      i += 2;
    }
  }
  return out;
}

std::string percent_encoded(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       std::string_view("-._~").find(c) != std::string_view::npos;
    if (plain) {
      out += c;
    } else {
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return out;
}

}  // namespace monkeytree
