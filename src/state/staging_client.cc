#include "state/connection.h"
#include "state/staging.h"

namespace monkeytree {
namespace {

using std::chrono::milliseconds;

/// Asks one question and gives the connection, the reply being OK. The server may take its time
/// up to the deadline.
absl::StatusOr<std::unique_ptr<Connection>> ask(const Endpoint& server, const std::string& access,
                                                const TlsFiles& tls, FrameType type,
                                                std::string_view body, Deadline deadline) {
  absl::StatusOr<std::unique_ptr<Connection>> connection =
      Connection::connect(server, "", deadline, milliseconds(10000));
  if (!connection.ok()) return connection;
  absl::Status status;
  if (tls.configured() && server.transport == Endpoint::Transport::kTcp) {
    status = (*connection)->start_tls(tls, TlsSession::Side::kCalls);
    if (!status.ok()) return status;
  }
  status = (*connection)->write_frame(FrameType::kHello, 0, encode_hello({Role::kStaging, access}));
  if (status.ok()) status = (*connection)->write_frame(type, 0, body);
  if (status.ok()) status = (*connection)->read_reply(nullptr, true);
  if (!status.ok()) return status;
  return connection;
}

TransferReport read_report(WireReader& in) {
  TransferReport report;
  report.epoch = in.number();
  report.bytes = in.number();
  report.sent_bytes = in.number();
  report.connections_lost = static_cast<int>(in.number());
  report.seconds = static_cast<double>(in.number()) * 1e-9;
  return report;
}

absl::Status check_key(std::string_view key) {
  if (!key.empty() && key.size() <= kMaxKeyBytes) return absl::OkStatus();
  return absl::InvalidArgumentError("a key has 1 to 200 bytes");
}

}  // namespace

absl::StatusOr<Token> StagingClient::reserve(std::string_view key, const Layout& layout,
                                             Deadline deadline) {
  if (absl::Status status = check_key(key); !status.ok()) return status;
  const std::string body = encode_reserve({std::string(key), layout.size(), encode_layout(layout)});
  absl::StatusOr<std::unique_ptr<Connection>> connection =
      ask(server_, access_, tls_, FrameType::kReserve, body, deadline);
  if (!connection.ok()) return connection.status();
  return (*connection)->read_frame(FrameType::kReserve);
}

absl::StatusOr<TransferReport> StagingClient::put(std::string_view key, const Arena& arena,
                                                  const SendOptions& options) {
  const absl::StatusOr<Token> token = reserve(key, arena.layout(), options.deadline);
  if (!token.ok()) return token.status();
  SendOptions sending = options;
  sending.tls = tls_;
  absl::StatusOr<TransferReport> report = send(arena, server_, *token, sending);
  if (!report.ok()) confirm(key, deadline_in(milliseconds(1000))).IgnoreError();
  return report;
}

absl::StatusOr<TransferReport> StagingClient::forward(std::string_view key, const Endpoint& to,
                                                      const Token& token,
                                                      const SendOptions& options) {
  if (absl::Status status = check_key(key); !status.ok()) return status;
  ForwardRequest request;
  request.key = key;
  request.endpoint = to.text();
  request.token = token;
  request.timeout_ms = UINT64_MAX;
  if (options.deadline != Deadline::max()) {
    const auto left = std::chrono::duration_cast<milliseconds>(options.deadline - Clock::now());
    if (left <= milliseconds(0)) return absl::DeadlineExceededError("the deadline has passed");
    request.timeout_ms = static_cast<uint64_t>(left.count());
  }
  request.streams = static_cast<uint64_t>(options.streams);
  request.min_bytes_per_s = options.min_bytes_per_s;
  absl::StatusOr<std::unique_ptr<Connection>> connection =
      ask(server_, access_, tls_, FrameType::kForward, encode_forward(request), options.deadline);
  if (!connection.ok()) return connection.status();
  const absl::StatusOr<std::string> body = (*connection)->read_frame(FrameType::kForward);
  if (!body.ok()) return body.status();
  WireReader in(*body);
  const TransferReport report = read_report(in);
  if (!in.complete()) return absl::DataLossError("a report that does not hold");
  return report;
}

absl::StatusOr<TransferReport> StagingClient::get(std::string_view key,
                                                  std::shared_ptr<Arena> target,
                                                  const SendOptions& options) {
  ReceiverOptions listening;
  listening.addresses = {"shm:"};
  if (server_.transport == Endpoint::Transport::kTcp) {
    // The address by which the server is reached is the one by which it reaches us.
    const absl::StatusOr<std::unique_ptr<Connection>> probe =
        Connection::connect(server_, options.from_address, options.deadline, options.idle_timeout);
    if (!probe.ok()) return probe.status();
    listening.addresses = {Endpoint{Endpoint::Transport::kTcp, (*probe)->own_host(), 0, ""}.text()};
  }
  listening.idle_timeout = options.idle_timeout;
  listening.tls = tls_;
  const absl::StatusOr<std::unique_ptr<Receiver>> receiver = Receiver::listen(listening);
  if (!receiver.ok()) return receiver.status();
  const Token token = random_token();
  absl::Status status = (*receiver)->expect(token, std::move(target), options.deadline);
  if (!status.ok()) return status;
  const absl::StatusOr<TransferReport> report =
      forward(key, (*receiver)->endpoints().front(), token, options);
  if (!report.ok()) return report.status();
  return (*receiver)->wait(token, options.deadline);
}

absl::Status StagingClient::confirm(std::string_view key, Deadline deadline) {
  if (absl::Status status = check_key(key); !status.ok()) return status;
  return ask(server_, access_, tls_, FrameType::kConfirm, key, deadline).status();
}

absl::StatusOr<std::vector<StagedState>> StagingClient::states(Deadline deadline) {
  absl::StatusOr<std::unique_ptr<Connection>> connection =
      ask(server_, access_, tls_, FrameType::kStates, "", deadline);
  if (!connection.ok()) return connection.status();
  const absl::StatusOr<FrameHeader> header = (*connection)->read_header_of(FrameType::kStates);
  if (!header.ok()) return header.status();
  const absl::StatusOr<std::string> body = (*connection)->read_body(*header);
  if (!body.ok()) return body.status();
  WireReader in(*body);
  std::vector<StagedState> all;
  while (in.ok() && all.size() < header->argument) {
    StagedState state;
    state.key = in.text(kMaxKeyBytes);
    state.bytes = in.number();
    state.epoch = in.number();
    state.complete = in.number() != 0;
    all.push_back(std::move(state));
  }
  if (!in.complete()) return absl::DataLossError("a list of states that does not hold");
  return all;
}

}  // namespace monkeytree
