#pragma once

#include <absl/status/statusor.h>

#include <functional>
#include <memory>
#include <string>

namespace monkeytree {

/// Where the server asks about pods that are about to be made; empty where nothing is moved.
struct KubeWebhookSettings {
  std::string host;              ///< "" where there is none
  int port = 0;                  ///< 0: a free one
  std::string certificate, key;  ///< files, PEM
  bool configured() const { return !host.empty(); }
  friend bool operator==(const KubeWebhookSettings&, const KubeWebhookSettings&) = default;
};

/// Answers admission reviews over HTTPS, many at once.
class KubeWebhook {
 public:
  /// FailedPrecondition where the certificate cannot be used or the address is taken.
  static absl::StatusOr<std::unique_ptr<KubeWebhook>> listen(
      const KubeWebhookSettings& settings, std::function<std::string(const std::string&)> answer);
  virtual ~KubeWebhook() = default;
  virtual int port() const = 0;
};

}  // namespace monkeytree
