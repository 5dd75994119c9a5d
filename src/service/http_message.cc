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

bool is_sound_path(std::string_view path) {
  const bool has_control = std::any_of(path.begin(), path.end(), [](char c) {
    return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
  });
  return !has_control && valid_utf8_prefix(path) == path.size() &&
         path.find('\\') == std::string_view::npos && path.find("//") == std::string_view::npos;
}

std::optional<HttpFault> read_query(std::string_view text, HttpRequest& request) {
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
      return HttpFault{400, "a query that is not well written"};
    }
    if (!request.query.emplace(*key, *value).second) {
      return HttpFault{400, "a field of the query that stands there twice"};
    }
    if (request.query.size() > kMaxHttpQuery) return HttpFault{400, "a query of too many fields"};
  }
  return std::nullopt;
}

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

std::optional<HttpFault> read_target(std::string_view target, HttpRequest& request) {
  if (target.size() > kMaxHttpTarget) {
    return HttpFault{414, fmt::format("a path of more than {} bytes", kMaxHttpTarget)};
  }
  if (!target.starts_with('/') || !std::all_of(target.begin(), target.end(), is_visible) ||
      target.find('#') != std::string_view::npos) {
    return HttpFault{400, "a path that does not begin with / or holds what no path may hold"};
  }
  const size_t mark = target.find('?');
  const std::optional<std::string> path = percent_decoded(target.substr(0, mark), false);
  if (!path || !is_sound_path(*path)) return HttpFault{400, "a path that is not well written"};
  if ((*path + "/").find("/../") != std::string::npos ||
      (*path + "/").find("/./") != std::string::npos) {
    return HttpFault{400, "a path with . or .. in it"};
  }
  request.path = *path;
  if (mark == std::string_view::npos) return std::nullopt;
  return read_query(target.substr(mark + 1), request);
}

std::optional<HttpFault> read_header(std::string_view name, std::string_view value,
                                     HttpRequest& request) {
  if (!is_token(name)) return HttpFault{400, "a header line that is not NAME: VALUE"};
  const bool sound = std::all_of(value.begin(), value.end(), [](char c) {
    return c == '\t' || (static_cast<unsigned char>(c) >= 0x20 && c != 0x7f);
  });
  if (!sound) return HttpFault{400, "a header with control characters"};
  const std::string key = lower(name);
  const auto [at, is_new] = request.headers.emplace(key, value);
  if (!is_new && std::find(kOnce.begin(), kOnce.end(), key) != kOnce.end()) {
    return HttpFault{400, fmt::format("{} stands there twice", key)};
  }
  if (!is_new) at->second += fmt::format(", {}", value);
  if (request.headers.size() > kMaxHttpHeaders) return HttpFault{431, "too many headers"};
  return std::nullopt;
}

std::optional<HttpFault> check_head(const HttpRequest& request, bool old, size_t most_body) {
  if (!is_token(request.method) || request.method.size() > 16) return HttpFault{400, "no method"};
  if (!old && request.header("host").empty()) return HttpFault{400, "no Host"};
  if (request.headers.contains("transfer-encoding")) {
    return HttpFault{501, "a transfer encoding, expected Content-Length"};
  }
  if (!request.header("content-encoding").empty()) {
    return HttpFault{501, "a content encoding, expected plain content"};
  }
  const uint64_t bytes = announced_bytes(request);
  if (bytes == UINT64_MAX) return HttpFault{400, "a Content-Length that is no number"};
  if (bytes > most_body) {
    return HttpFault{413, fmt::format("a body of more than {} bytes", most_body)};
  }
  return std::nullopt;
}

uint64_t announced_bytes(const HttpRequest& request) {
  if (!request.headers.contains("content-length")) return 0;
  const std::string_view length = request.header("content-length");
  uint64_t bytes = 0;
  const auto [end, error] = std::from_chars(length.data(), length.data() + length.size(), bytes);
  const bool whole = !length.empty() && end == length.data() + length.size();
  if (error == std::errc::result_out_of_range && whole) return UINT64_MAX - 1;
  return whole && error == std::errc() ? bytes : UINT64_MAX;
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
