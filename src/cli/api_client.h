#pragma once

#include <absl/status/statusor.h>

#include <chrono>
#include <string>
#include <string_view>

#include "service/address.h"

namespace monkeytree {

/// What the controller answered.
struct ApiAnswer {
  int status = 0;  ///< of HTTP
  std::string body;
};

/// One request to a controller's HTTP interface. `token` "": without. Errors: Unavailable (nobody
/// listens there, or what listens is no controller), DeadlineExceeded; the message names the
/// address.
absl::StatusOr<ApiAnswer> call_api(const ListenAddress& address, std::string_view method,
                                   std::string_view target, std::string_view body,
                                   std::string_view token, std::chrono::milliseconds limit);

}  // namespace monkeytree
