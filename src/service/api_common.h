#pragma once

#include <optional>
#include <string>

#include "service/http_message.h"

/// What the APIs of a controller and of a file share.
namespace monkeytree {

HttpResponse json_answer(std::string body);

/// An answer where the request must not be let in, from its addresses: another name than ours on
/// loopback, a changing or computing call from a page of another site. nullopt where it may.
std::optional<HttpResponse> refuse_foreign(const HttpRequest& request, bool loopback);

}  // namespace monkeytree
