#pragma once

#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "identity/tls_files.h"

namespace grpc {
class AuthContext;
}

/// Mutual TLS over gRPC: no side speaks before it has judged the other's certificate by
/// verify_certificate(), so that a refusal can say why. Nothing here ever falls back to plain text.
namespace monkeytree {

/// Told of each certificate that was judged: OK, or why it was refused. From gRPC's threads.
using VerdictSink = std::function<void(const absl::Status&)>;

/// For a controller. Certificate and key are looked at each second, the CAs at each handshake: new
/// files hold from the next connection on. A peer without a certificate is refused too.
std::shared_ptr<grpc::ServerCredentials> tls_server_credentials(const TlsFiles& files,
                                                                VerdictSink verdicts);

/// For an agent that calls the controller `host`.
std::shared_ptr<grpc::ChannelCredentials> tls_channel_credentials(const TlsIdentity& identity,
                                                                  const std::string& host,
                                                                  VerdictSink verdicts);

/// For the rest of the process: `report` is told what gRPC would write to standard error, a line
/// each; a peer without TLS among it. From many threads.
void tell_of_grpc(std::function<void(const std::string&)> report);

/// Whom the peer's certificate names; nullopt where the connection has none.
std::optional<std::vector<std::string>> names_of_peer(const grpc::AuthContext& context);

}  // namespace monkeytree
