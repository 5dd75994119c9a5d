#include "service/api_common.h"

#include <fmt/format.h>

#include <utility>

#include "service/address.h"
#include "service/api_input.h"

namespace monkeytree {

HttpResponse json_answer(std::string body) {
  HttpResponse response;
  response.body = std::move(body);
  return response;
}

std::optional<HttpResponse> refuse_foreign(const HttpRequest& request, bool loopback) {
  // A page of somebody else's, whose name was made to point at us, asks with its own name.
  const std::optional<std::string> host = host_in(request.header("host"));
  if (loopback && !request.header("host").empty() && (!host || !is_loopback(*host))) {
    return http_error(421,
                      "asked for under a name that is not ours: expected localhost or "
                      "127.0.0.1 in Host");
  }
  if (request.method == "GET" || request.method == "HEAD") return std::nullopt;
  const std::string_view origin = request.header("origin");
  const bool same_host = origin == fmt::format("http://{}", request.header("host")) ||
                         origin == fmt::format("https://{}", request.header("host"));
  const std::string_view site = request.header("sec-fetch-site");
  if ((!origin.empty() && !same_host) || site == "cross-site" || site == "same-site") {
    return http_error(403, "a page of another site may not ask for this");
  }
  return std::nullopt;
}

}  // namespace monkeytree
