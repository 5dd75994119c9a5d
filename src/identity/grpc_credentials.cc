#include "identity/grpc_credentials.h"

#include <grpc/grpc_security_constants.h>
#include <grpc/support/log.h>
#include <grpcpp/security/auth_context.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_certificate_verifier.h>
#include <grpcpp/security/tls_credentials_options.h>

#include <string_view>
#include <utility>
#include <vector>

namespace monkeytree {
namespace {

namespace tls = grpc::experimental;

constexpr unsigned kWatch_s = 1;

std::string_view text_of(const grpc::string_ref& text) { return {text.data(), text.size()}; }

/// Judges the certificates of peers, in the handshake.
class Judge final : public tls::ExternalCertificateVerifier {
 public:
  using Rule = std::function<absl::Status(std::string_view chain)>;
  Judge(Rule rule, VerdictSink verdicts) : rule_(std::move(rule)), verdicts_(std::move(verdicts)) {}

  bool Verify(tls::TlsCustomVerificationCheckRequest* request,
              std::function<void(grpc::Status)> /*later*/, grpc::Status* verdict) override {
    // Of a client the chain lacks the certificate itself, of a server it begins with it.
    std::string chain(text_of(request->peer_cert()));
    if (!chain.empty()) chain += text_of(request->peer_cert_full_chain());
    const absl::Status status = rule_(chain);
    verdicts_(status);
    if (!status.ok()) {
      *verdict = grpc::Status(grpc::StatusCode::UNAUTHENTICATED, std::string(status.message()));
    }
    return true;  // at once
  }
  void Cancel(tls::TlsCustomVerificationCheckRequest* /*request*/) override {}

 private:
  const Rule rule_;
  const VerdictSink verdicts_;
};

std::shared_ptr<tls::CertificateVerifier> judge_by(Judge::Rule rule, VerdictSink verdicts) {
#ifdef __clang_analyzer__
  // It takes gRPC's own keeping of the new one for a leak.
  const Judge judge(std::move(rule), std::move(verdicts));
  return nullptr;
#else
  return tls::ExternalCertificateVerifier::Create<Judge>(std::move(rule), std::move(verdicts));
#endif
}

}  // namespace

std::shared_ptr<grpc::ServerCredentials> tls_server_credentials(const TlsFiles& files,
                                                                VerdictSink verdicts) {
  tls::TlsServerCredentialsOptions options(std::make_shared<tls::FileWatcherCertificateProvider>(
      files.key, files.certificate, kWatch_s));
  options.watch_identity_key_cert_pairs();
  // Asked for, and judged by us: the library could refuse, but not say whom and why.
  options.set_cert_request_type(GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_BUT_DONT_VERIFY);
  options.set_check_call_host(false);
  options.set_certificate_verifier(judge_by(
      [file = files.ca](std::string_view chain) {
        const absl::StatusOr<std::string> ca = read_authorities(file);
        if (!ca.ok()) return ca.status();
        return verify_certificate(chain, *ca, CertificateRole::kNode, unix_now_s());
      },
      std::move(verdicts)));
  return tls::TlsServerCredentials(options);
}

std::shared_ptr<grpc::ChannelCredentials> tls_channel_credentials(const TlsIdentity& identity,
                                                                  const std::string& host,
                                                                  VerdictSink verdicts) {
  tls::TlsChannelCredentialsOptions options;
  options.set_certificate_provider(std::make_shared<tls::StaticDataCertificateProvider>(
      identity.ca,
      std::vector<tls::IdentityKeyCertPair>{{identity.own.key, identity.own.certificate}}));
  options.watch_root_certs();
  options.watch_identity_key_cert_pairs();
  options.set_verify_server_certs(false);  // by the library: by us it is
  options.set_check_call_host(false);
  options.set_certificate_verifier(judge_by(
      [ca = identity.ca, host](std::string_view chain) {
        absl::Status status =
            verify_certificate(chain, ca, CertificateRole::kController, unix_now_s());
        return status.ok() ? verify_host(chain, host) : status;
      },
      std::move(verdicts)));
  return tls::TlsCredentials(options);
}

void tell_of_grpc(std::function<void(const std::string&)> report) {
  // Never given back: gRPC's threads may outlive everything.
  static auto* const reports = new std::function<void(const std::string&)>(std::move(report));
  gpr_set_log_function([](gpr_log_func_args* line) {
    if (line->severity != GPR_LOG_SEVERITY_ERROR) return;
    std::string text = line->message;
    for (const char* sign : {"wrong version number", "http request"}) {
      if (text.find(sign) != std::string::npos) text = "what came spoke no TLS";
    }
    (*reports)(text);
  });
}

std::optional<std::vector<std::string>> names_of_peer(const grpc::AuthContext& context) {
  const std::vector<grpc::string_ref> pem =
      context.FindPropertyValues(GRPC_X509_PEM_CERT_PROPERTY_NAME);
  if (pem.empty()) return std::nullopt;
  absl::StatusOr<Certificate> certificate = read_certificate(text_of(pem.front()));
  if (!certificate.ok()) return std::nullopt;
  return std::move(certificate->hosts);
}

}  // namespace monkeytree
