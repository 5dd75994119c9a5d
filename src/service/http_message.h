#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

/// What is asked of us and what we answer, apart from how it comes: as strictly as our few clients
/// allow, so that nobody in front of us can read a request in another way than we do.
namespace monkeytree {

class HttpStream;

struct HttpRequest {
  std::string method;  ///< "GET"
  std::string path;    ///< percent-decoded, begins with '/', no ".." and no control characters
  std::map<std::string, std::string, std::less<>> query;
  std::map<std::string, std::string, std::less<>> headers;  ///< names in lower case, each once
  std::string body;
  /// Whether nobody waits for the answer any more, so that computing it may end; empty: somebody
  /// does.
  std::function<bool()> forsaken;
  std::string peer;    ///< numeric address of who asks
  std::string caller;  ///< the name of their token, once that is known

  /// "" where there is none.
  std::string_view header(std::string_view name) const;
};

struct HttpResponse {
  int status = 200;
  std::string body;
  std::string content_type = "application/json";
  std::map<std::string, std::string> headers;  ///< further ones
  /// What comes after the body for as long as both sides like; null: nothing.
  std::shared_ptr<HttpStream> stream;
};

/// {"error": {"code": …, "message": …}}, and the status that goes with the code.
HttpResponse http_error(int status, std::string_view message);
HttpResponse http_error(const absl::Status& status);

// Limits of a request, in bytes and in number.
inline constexpr size_t kMaxHttpHead = 32 << 10;
inline constexpr size_t kMaxHttpTarget = 2 << 10;
inline constexpr size_t kMaxHttpBody = 64 << 10;
inline constexpr size_t kMaxHttpHeaders = 64;
inline constexpr size_t kMaxHttpQuery = 16;

/// Why a request was refused, as HTTP's status.
struct HttpFault {
  int status = 400;
  std::string message;
  friend bool operator==(const HttpFault&, const HttpFault&) = default;
};

// Each reads a part of a request as it came into `request`; nullopt where it is sound.

/// "/a%20b?limit=5": path and query.
std::optional<HttpFault> read_target(std::string_view target, HttpRequest& request);
/// One header; those that may come in several lines are joined.
std::optional<HttpFault> read_header(std::string_view name, std::string_view value,
                                     HttpRequest& request);
/// The method, and what the headers say together. `old`: HTTP/1.0, which needs no Host.
std::optional<HttpFault> check_head(const HttpRequest& request, bool old,
                                    size_t most_body = kMaxHttpBody);
/// How much content the headers announce; UINT64_MAX where that is no number.
uint64_t announced_bytes(const HttpRequest& request);

/// `%41` to `A`; nullopt where the text is not so written. `plus` is for queries, where it is a
/// space.
std::optional<std::string> percent_decoded(std::string_view text, bool plus);
/// All but letters, digits and "-._~" as %XX.
std::string percent_encoded(std::string_view text);

}  // namespace monkeytree
