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

/// Where a controller is asked, and by what right.
struct ApiServer {
  ListenAddress address;
  /// PEM of the CAs that may have signed its certificate: it is then asked by HTTPS and never
  /// otherwise. "": by HTTP.
  std::string authorities;
  std::string token;  ///< "": without
};

/// One request to a controller's HTTP interface. Errors: Unavailable (nobody listens there, or what
/// listens is no controller), PermissionDenied (its certificate is not to be believed; nothing was
/// sent), DeadlineExceeded; the message names the address.
absl::StatusOr<ApiAnswer> call_api(const ApiServer& server, std::string_view method,
                                   std::string_view target, std::string_view body,
                                   std::chrono::milliseconds limit);

}  // namespace monkeytree
