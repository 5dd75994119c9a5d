#include "kubernetes/webhook.h"

#include <fmt/format.h>
#include <httplib.h>

#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "base/file.h"
#include "identity/openssl.h"

namespace monkeytree {
namespace {

/// Pods of several plans may wait at the same time, each for some seconds.
constexpr size_t kThreads = 64;
constexpr size_t kMostBytes = 8 << 20;
constexpr time_t kPatience_s = 10;

absl::Status unfit(const std::string& what) {
  return absl::FailedPreconditionError(fmt::format("scheduler: webhook: {}", what));
}

class HttpsWebhook final : public KubeWebhook {
 public:
  HttpsWebhook(X509* certificate, EVP_PKEY* key) : server_(certificate, key) {}
  ~HttpsWebhook() override {
    server_.stop();
    if (thread_.joinable()) thread_.join();
  }

  absl::Status start(const KubeWebhookSettings& settings,
                     std::function<std::string(const std::string&)> answer) {
    if (!server_.is_valid()) return unfit("its certificate and key do not fit");
    server_.new_task_queue = [] { return new httplib::ThreadPool(kThreads); };
    server_.set_payload_max_length(kMostBytes);
    server_.set_read_timeout(kPatience_s);
    server_.set_write_timeout(kPatience_s);
    server_.Post("/pods", [answer = std::move(answer)](const httplib::Request& request,
                                                       httplib::Response& response) {
      const std::string text = answer(request.body);
      if (text.empty()) response.status = 400;
      if (!text.empty()) response.set_content(text, "application/json");
    });
    port_ = settings.port;
    const bool bound = settings.port == 0 ? (port_ = server_.bind_to_any_port(settings.host)) > 0
                                          : server_.bind_to_port(settings.host, settings.port);
    if (!bound) return unfit(fmt::format("cannot listen at {}:{}", settings.host, settings.port));
    thread_ = std::jthread([this] { server_.listen_after_bind(); });
    // One that is stopped before it runs would run for ever.
    while (!server_.is_running()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return absl::OkStatus();
  }

  int port() const override { return port_; }

 private:
  httplib::SSLServer server_;
  int port_ = 0;
  std::jthread thread_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<KubeWebhook>> KubeWebhook::listen(
    const KubeWebhookSettings& settings, std::function<std::string(const std::string&)> answer) {
  const absl::StatusOr<std::string> certificate = read_file(settings.certificate);
  if (!certificate.ok()) return unfit(std::string(certificate.status().message()));
  const absl::StatusOr<std::string> key = read_file(settings.key);
  if (!key.ok()) return unfit(std::string(key.status().message()));
  const std::vector<X509Pointer> chain = certificates_in(*certificate);
  const KeyPointer private_key = key_in(*key);
  if (chain.empty() || !private_key) return unfit("its certificate or key cannot be read");
  auto webhook = std::make_unique<HttpsWebhook>(chain.front().get(), private_key.get());
  if (absl::Status status = webhook->start(settings, std::move(answer)); !status.ok()) {
    return status;
  }
  return webhook;
}

}  // namespace monkeytree
