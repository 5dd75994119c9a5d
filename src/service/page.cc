#include "service/page.h"

#include <fmt/format.h>

#include <array>
#include <map>
#include <string>

#include "base/json.h"
#include "base/sha256.h"

namespace monkeytree {
namespace {

struct Page {
  std::string_view path, file, content_type;
};

constexpr std::array<Page, 4> kPages = {{
    {"/", "index.html", "text/html; charset=utf-8"},
    {"/app.js", "app.js", "text/javascript; charset=utf-8"},
    {"/app.css", "app.css", "text/css; charset=utf-8"},
    {"/panel", "panel.html", "text/html; charset=utf-8"},
}};

constexpr std::string_view kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; frame-ancestors 'none'; form-action 'self'";

/// Of each file, once: the bytes are the program's own.
const std::string& tag_of(const PageFile& file) {
  static const std::map<std::string_view, std::string> kTags = [] {
    std::map<std::string_view, std::string> tags;
    for (const PageFile& each : page_files()) {
      tags[each.name] = fmt::format("\"{}\"", sha256(each.bytes).substr(0, 32));
    }
    return tags;
  }();
  return kTags.at(file.name);
}

HttpResponse page(const Page& page, const PageFile& file, std::string_view known) {
  HttpResponse response;
  response.content_type = page.content_type;
  // A page in one file names its script and style by their hashes; all else stays as strict.
  const std::string_view own = policy_in(file.bytes);
  response.headers = {
      {"Content-Security-Policy",
       own.empty() ? std::string(kPolicy) : fmt::format("{}; frame-ancestors 'none'", own)},
      {"Referrer-Policy", "no-referrer"},
      {"Cross-Origin-Opener-Policy", "same-origin"},
      {"Cross-Origin-Resource-Policy", "same-origin"},
      {"Cache-Control", "no-cache"},
      {"ETag", tag_of(file)}};
  if (known.find(tag_of(file)) != std::string_view::npos) {
    response.status = 304;
  } else {
    response.body = file.bytes;
  }
  return response;
}

}  // namespace

std::string_view policy_in(std::string_view html) {
  constexpr std::string_view kMeta = "<meta http-equiv=\"Content-Security-Policy\" content=\"";
  const size_t at = html.find(kMeta);
  if (at == std::string_view::npos) return "";
  const std::string_view rest = html.substr(at + kMeta.size());
  return rest.substr(0, rest.find('"'));
}

HttpResponse page_answer(const HttpRequest& request) {
  for (const Page& each : kPages) {
    if (request.path != each.path) continue;
    for (const PageFile& file : page_files()) {
      if (file.name == each.file) return page(each, file, request.header("if-none-match"));
    }
  }
  return http_error(404, fmt::format("there is no {}", quote(request.path)));
}

}  // namespace monkeytree
