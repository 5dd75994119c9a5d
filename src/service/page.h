#pragma once

#include <span>
#include <string_view>

#include "service/http_message.h"

/// The web pages that are part of the program: the dashboard at `/`, its script and style beside
/// it, the teaching panel at `/panel`.
namespace monkeytree {

/// A file of web/dist as it was when the program was built.
struct PageFile {
  std::string_view name;  ///< "index.html"
  std::string_view bytes;
};
std::span<const PageFile> page_files();

/// The page or a part of it, with its policy: it loads nothing from elsewhere, runs no script that
/// is not in a file of ours, and nobody may frame it. 304 where the browser has it already. 404
/// where there is no such page.
HttpResponse page_answer(const HttpRequest& request);

/// The policy in a page's own `<meta http-equiv="Content-Security-Policy">`; "" where it has none.
std::string_view policy_in(std::string_view html);

}  // namespace monkeytree
