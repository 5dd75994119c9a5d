#pragma once

#include <absl/status/statusor.h>

#include <chrono>
#include <mutex>
#include <string>
#include <string_view>

#include "kubernetes/access.h"

namespace monkeytree {

/// Who we are to the server now. Thread-safe; all connections share one, so that a program that
/// gives out credentials runs once and not for each.
class KubeCredentials {
 public:
  using Clock = std::chrono::steady_clock;

  struct Identity {
    std::string token;             ///< "" for none
    std::string certificate, key;  ///< PEM, or ""
    int generation = 0;            ///< grows with each change
  };

  explicit KubeCredentials(const KubeAccess& access) : access_(access) {}

  /// A token's file is read anew after a minute; a program is asked again when what it gave ends.
  /// Errors: Unauthenticated, with what went wrong.
  absl::StatusOr<Identity> now(Clock::time_point deadline);
  /// The server has refused this identity: it is not used again.
  void refused(int generation);

 private:
  absl::Status ask_file();
  absl::Status ask_program(Clock::time_point deadline);

  const KubeAccess& access_;
  std::mutex mutex_;
  Identity identity_;
  bool known_ = false;
  Clock::time_point until_{};
};

/// What an exec program printed: an ExecCredential. Seconds since 1970 when it ends, or infinity.
struct ExecCredential {
  std::string token, certificate, key;
  double ends_s = 0;
};
absl::StatusOr<ExecCredential> parse_exec_credential(std::string_view text);

}  // namespace monkeytree
