#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "kubernetes/access.h"
#include "kubernetes/credentials.h"

namespace monkeytree {

/// One connection to the server, for one thread; it is made anew where it broke.
///
/// Errors of all calls: Unauthenticated (401, also with fresh credentials), PermissionDenied (403),
/// NotFound, OutOfRange (410: what was asked for is too old), ResourceExhausted (429, too many
/// requests; see retry_after()), InvalidArgument (400), Aborted (409, or 422 for a patch whose test
/// failed: the object is another by now), Unavailable (no answer, a broken one, any other status),
/// DeadlineExceeded, Cancelled (after stop()). Messages say the path and what the server said.
class KubeConnection {
 public:
  using Clock = std::chrono::steady_clock;

  /// Both must outlive it. InvalidArgument where a certificate cannot be read.
  static absl::StatusOr<std::unique_ptr<KubeConnection>> open(const KubeAccess& access,
                                                              KubeCredentials& credentials);
  virtual ~KubeConnection() = default;

  /// A whole answer, up to 512 MiB.
  virtual absl::StatusOr<std::string> get(const std::string& path, Clock::time_point deadline) = 0;

  /// A call that changes something; its answer. Not repeated where the answer was lost.
  virtual absl::StatusOr<std::string> change(const std::string& method, const std::string& path,
                                             const std::string& body, const std::string& type,
                                             Clock::time_point deadline) = 0;

  /// An answer without end, handed on as it comes, until it ends (OK), `take` wants no more (OK),
  /// or nothing has come for `silence`. `take` is first called with nothing, once a good answer has
  /// begun; data of another is not handed on.
  virtual absl::Status stream(const std::string& path, std::chrono::milliseconds silence,
                              const std::function<bool(std::string_view)>& take) = 0;

  /// Ends what is under way and all further calls. From any thread.
  virtual void stop() = 0;

  /// How long the last ResourceExhausted or Unavailable answer asked to wait.
  virtual std::optional<std::chrono::milliseconds> retry_after() const = 0;
};

/// The message of a Status object, or the front of what else the server said.
std::string kube_complaint(std::string_view body);

}  // namespace monkeytree
