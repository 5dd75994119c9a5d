#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <list>
#include <map>
#include <thread>

#include "state/connection.h"
#include "state/incoming.h"
#include "state/memory_copy.h"
#include "state/receiving.h"
#include "state/transfer.h"

namespace monkeytree {
namespace {

/// Takes a connection out of its transfer at the end of a scope.
class Attachment {
 public:
  Attachment(Incoming& incoming, Connection& connection)
      : incoming_(incoming), connection_(connection) {}
  ~Attachment() { incoming_.detach(connection_); }
  Attachment(const Attachment&) = delete;
  Attachment& operator=(const Attachment&) = delete;

 private:
  Incoming& incoming_;
  Connection& connection_;
};

class ReceiverOfSockets : public Receiver {
 public:
  ReceiverOfSockets(ReceiverOptions options, StagingHandler handler)
      : options_(std::move(options)), staging_(std::move(handler)) {}
  ~ReceiverOfSockets() override;

  absl::Status start();

  std::vector<Endpoint> endpoints() const override;
  absl::Status expect(const Token& token, std::shared_ptr<Arena> target,
                      Deadline deadline) override;
  absl::StatusOr<TransferReport> wait(const Token& token, Deadline deadline) override;
  bool ended(const Token& token) const override;
  uint64_t received_bytes(const Token& token) const override;
  void cancel(const Token& token) override;

 private:
  /// A thread and the connection that it serves.
  struct Served {
    std::unique_ptr<Connection> connection;
    std::thread thread;
    std::atomic<bool> done = false;
  };
  /// A transfer that ended well and was waited for: its sender may still ask.
  struct Finished {
    Token token;
    uint64_t epoch;
  };
  static constexpr size_t kFinishedKept = 1024;

  void accept_loop();
  void admit(Fd socket);
  void reap(bool all);
  bool agree_on_tls(Connection& connection);
  void serve(Connection& connection);
  absl::Status greet(Connection& connection, const Hello& hello);
  absl::Status serve_control(Connection& connection, Incoming& incoming);
  absl::Status take_layout(Connection& connection, Incoming& incoming);
  absl::StatusOr<Arena> take_memory(Connection& connection, const Incoming& incoming);
  absl::Status open_path(Connection& connection, const FrameHeader& header,
                         std::unique_ptr<UcxPath>& path);
  absl::Status take_probe(Connection& connection, const FrameHeader& header, UcxPath* path);
  absl::Status take_state(Connection& connection, Incoming& incoming, const FrameHeader& header,
                          const Arena* source, UcxPath* path);
  absl::Status take_chunks(Connection& connection, Incoming& incoming, UcxPath& path,
                           const std::vector<size_t>& buffers, const std::vector<bool>& have);
  absl::Status serve_stream(Connection& connection, Incoming& incoming);
  std::shared_ptr<Incoming> find(const Token& token) const;

  const ReceiverOptions options_;
  const StagingHandler staging_;
  std::vector<Listener> listeners_;
  Fd stop_;
  std::thread acceptor_;

  mutable std::mutex mutex_;
  bool stopping_ = false;
  std::map<Token, std::shared_ptr<Incoming>> incoming_;
  std::deque<Finished> finished_;
  std::list<Served> served_;
};

// Compares in the same time wherever they differ.
bool same(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned different = 0;
  for (size_t i = 0; i < a.size(); ++i) different |= static_cast<unsigned>(a[i] ^ b[i]);
  return different == 0;
}

absl::Status ReceiverOfSockets::start() {
  if (options_.addresses.empty()) {
    return absl::InvalidArgumentError("no address to listen at");
  }
  for (const std::string& text : options_.addresses) {
    const absl::StatusOr<Endpoint> endpoint = Endpoint::parse(text);
    if (!endpoint.ok()) return endpoint.status();
    if (endpoint->transport == Endpoint::Transport::kUcx) {
      if (absl::Status status = ucx_status(); !status.ok()) return status;
      if (options_.tls.configured()) {
        return absl::InvalidArgumentError("state does not travel by ucx and TLS at once");
      }
    }
    absl::StatusOr<Listener> listener = listen_at(*endpoint);
    if (!listener.ok()) return listener.status();
    listeners_.push_back(*std::move(listener));
  }
  stop_ = Fd(eventfd(0, EFD_CLOEXEC));
  if (!stop_.valid()) return absl::ResourceExhaustedError("no more file descriptors");
  acceptor_ = std::thread([this] { accept_loop(); });
  return absl::OkStatus();
}

ReceiverOfSockets::~ReceiverOfSockets() {
  const uint64_t one = 1;
  if (stop_.valid() && write(stop_.get(), &one, sizeof(one)) < 0) std::terminate();
  if (acceptor_.joinable()) acceptor_.join();
  std::map<Token, std::shared_ptr<Incoming>> incoming;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    incoming.swap(incoming_);
    for (Served& each : served_) each.connection->shutdown();
  }
  for (auto& [token, each] : incoming) each->end(absl::CancelledError("the receiver has stopped"));
  reap(true);
  for (const Listener& listener : listeners_) {
    const std::string& path = listener.endpoint.path;
    if (!path.empty() && !path.starts_with('@')) unlink(path.c_str());
  }
}

std::vector<Endpoint> ReceiverOfSockets::endpoints() const {
  std::vector<Endpoint> all;
  for (const Listener& listener : listeners_) all.push_back(listener.endpoint);
  return all;
}

absl::Status ReceiverOfSockets::expect(const Token& token, std::shared_ptr<Arena> target,
                                       Deadline deadline) {
  const std::lock_guard lock(mutex_);
  const bool finished = std::any_of(finished_.begin(), finished_.end(),
                                    [&](const Finished& each) { return each.token == token; });
  if (finished || incoming_.contains(token)) {
    return absl::AlreadyExistsError("this token is in use");
  }
  incoming_.emplace(token, std::make_shared<Incoming>(std::move(target), deadline));
  return absl::OkStatus();
}

std::shared_ptr<Incoming> ReceiverOfSockets::find(const Token& token) const {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<Incoming> found;
  for (const auto& [known, incoming] : incoming_) {
    if (same(known, token)) found = incoming;
  }
  return found;
}

absl::StatusOr<TransferReport> ReceiverOfSockets::wait(const Token& token, Deadline deadline) {
  const std::shared_ptr<Incoming> incoming = find(token);
  if (incoming == nullptr) return absl::NotFoundError("no transfer is expected under this token");
  const std::optional<absl::StatusOr<TransferReport>> result = incoming->wait(deadline);
  if (!result) return absl::DeadlineExceededError("the state has not arrived yet");
  const std::lock_guard lock(mutex_);
  if (incoming_.erase(token) > 0 && result->ok()) {
    finished_.push_back({token, (*result)->epoch});
    if (finished_.size() > kFinishedKept) finished_.pop_front();
  }
  return *result;
}

bool ReceiverOfSockets::ended(const Token& token) const {
  const std::shared_ptr<Incoming> incoming = find(token);
  return incoming == nullptr || incoming->ended();
}

uint64_t ReceiverOfSockets::received_bytes(const Token& token) const {
  const std::shared_ptr<Incoming> incoming = find(token);
  return incoming == nullptr ? 0 : incoming->received_bytes();
}

void ReceiverOfSockets::cancel(const Token& token) {
  const std::shared_ptr<Incoming> incoming = find(token);
  if (incoming == nullptr) return;
  incoming->end(absl::CancelledError("the receiver has cancelled the transfer"));
  const std::lock_guard lock(mutex_);
  incoming_.erase(token);
}

void ReceiverOfSockets::accept_loop() {
  std::vector<pollfd> entries;
  for (const Listener& listener : listeners_) entries.push_back({listener.socket.get(), POLLIN, 0});
  entries.push_back({stop_.get(), POLLIN, 0});
  while (true) {
    if (poll(entries.data(), entries.size(), -1) < 0) continue;
    if (entries.back().revents != 0) return;
    reap(false);
    for (size_t i = 0; i + 1 < entries.size(); ++i) {
      if (entries[i].revents == 0) continue;
      Fd socket(accept4(entries[i].fd, nullptr, nullptr, SOCK_CLOEXEC));
      if (socket.valid()) {
        admit(std::move(socket));
      } else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
    }
  }
}

void ReceiverOfSockets::admit(Fd socket) {
  const std::lock_guard lock(mutex_);
  if (served_.size() >= static_cast<size_t>(options_.max_connections)) return;
  Served& served = served_.emplace_back();
  served.connection = std::make_unique<Connection>(std::move(socket), options_.idle_timeout);
  try {
    served.thread = std::thread([this, &served] {
      serve(*served.connection);
      served.connection->shutdown();
      served.done = true;
    });
  } catch (const std::system_error&) {
    served_.pop_back();  // no more threads: the peer finds the connection closed
  }
}

void ReceiverOfSockets::reap(bool all) {
  std::list<Served> gone;
  {
    const std::lock_guard lock(mutex_);
    for (auto at = served_.begin(); at != served_.end();) {
      const auto next = std::next(at);
      if (all || at->done) gone.splice(gone.end(), served_, at);
      at = next;
    }
  }
  for (Served& each : gone) each.thread.join();
}

bool ReceiverOfSockets::agree_on_tls(Connection& connection) {
  const bool wanted = options_.tls.configured();
  if (connection.begins_tls() != wanted) {
    // In plain, which a peer with TLS takes for what it is.
    connection
        .write_reply(
            absl::UnauthenticatedError(wanted ? "TLS is expected here, and the peer has none"
                                              : "no TLS is expected here, and the peer has it"))
        .IgnoreError();
    return false;
  }
  return !wanted || connection.start_tls(options_.tls, TlsSession::Side::kCalled).ok();
}

void ReceiverOfSockets::serve(Connection& connection) {
  connection.set_deadline(Clock::now() + options_.idle_timeout);
  if (!connection.is_local() && !agree_on_tls(connection)) return;
  const absl::StatusOr<std::string> body = connection.read_frame(FrameType::kHello);
  if (!body.ok()) return;
  const absl::StatusOr<Hello> hello = decode_hello(*body);
  if (!hello.ok()) return;
  if (const absl::Status peer = connection.tls_peer(); !peer.ok()) {
    connection.write_reply(peer).IgnoreError();
    return;
  }
  if (hello->role == Role::kStaging && staging_) {
    staging_(connection, hello->token);
    return;
  }
  const absl::Status status = greet(connection, *hello);
  // The last word, where the peer still listens.
  if (!status.ok()) connection.write_reply(status).IgnoreError();
}

absl::Status ReceiverOfSockets::greet(Connection& connection, const Hello& hello) {
  const std::shared_ptr<Incoming> incoming = find(hello.token);
  if (incoming == nullptr) {
    const std::lock_guard lock(mutex_);
    for (const Finished& each : finished_) {
      // The sender did not hear that its state has arrived.
      if (same(each.token, hello.token)) {
        return connection.write_reply(
            absl::AlreadyExistsError("a state has arrived under this token"), each.epoch);
      }
    }
    return absl::UnauthenticatedError("no transfer is expected under this token");
  }
  const bool control = hello.role == Role::kControl;
  absl::Status status = control ? incoming->attach_control(connection, hello.part, hello.session)
                                : incoming->attach_stream(connection, hello.part, hello.session);
  if (!status.ok()) return status;
  const Attachment attachment(*incoming, connection);
  if (absl::Status sent = connection.write_reply(absl::OkStatus()); !sent.ok()) return sent;
  const absl::Status served =
      control ? serve_control(connection, *incoming) : serve_stream(connection, *incoming);
  // Said before the connection leaves the transfer, which may end once it has.
  if (!served.ok()) connection.write_reply(served).IgnoreError();
  return absl::OkStatus();
}

absl::Status ReceiverOfSockets::serve_control(Connection& connection, Incoming& incoming) {
  if (absl::Status status = take_layout(connection, incoming); !status.ok()) return status;
  std::optional<Arena> source;
  if (connection.is_local()) {
    absl::StatusOr<Arena> memory = take_memory(connection, incoming);
    if (!memory.ok()) return memory.status();
    source = *std::move(memory);
  }
  std::unique_ptr<UcxPath> path;  // gone before the target is let go of
  while (true) {
    const absl::StatusOr<FrameHeader> header = connection.read_header(true);
    if (!header.ok()) return header.status();
    absl::Status status = absl::InvalidArgumentError("a frame out of turn");
    if (header->type == FrameType::kMemory) status = open_path(connection, *header, path);
    if (header->type == FrameType::kProbe) status = take_probe(connection, *header, path.get());
    if (header->type == FrameType::kBegin) {
      return take_state(connection, incoming, *header, source ? &*source : nullptr, path.get());
    }
    if (!status.ok()) return status;
  }
}

absl::Status ReceiverOfSockets::take_layout(Connection& connection, Incoming& incoming) {
  const absl::StatusOr<FrameHeader> header = connection.read_header_of(FrameType::kLayout);
  if (!header.ok()) return header.status();
  const absl::StatusOr<std::string> body = connection.read_body(*header);
  if (!body.ok()) return body.status();
  // The usual case needs no decoding.
  if (*body != encode_layout(incoming.layout())) {
    const absl::StatusOr<Layout> theirs = decode_layout(*body, header->argument);
    if (!theirs.ok()) return theirs.status();
    return absl::FailedPreconditionError("the state has another layout than its target: " +
                                         layout_difference(*theirs, incoming.layout()));
  }
  return connection.write_reply(absl::OkStatus());
}

absl::StatusOr<Arena> ReceiverOfSockets::take_memory(Connection& connection,
                                                     const Incoming& incoming) {
  absl::StatusOr<Fd> fd = connection.read_descriptor();
  if (!fd.ok()) return fd.status();
  absl::StatusOr<Arena> source = Arena::open(*std::move(fd), {.own_file = true});
  if (!source.ok()) return source.status();
  if (source->layout() != incoming.layout()) {
    return absl::InvalidArgumentError("the memory that was passed has another layout");
  }
  if (absl::Status status = connection.write_reply(absl::OkStatus()); !status.ok()) return status;
  return source;
}

absl::Status ReceiverOfSockets::open_path(Connection& connection, const FrameHeader& header,
                                          std::unique_ptr<UcxPath>& path) {
  if (const auto body = connection.read_body(header); !body.ok()) return body.status();
  if (connection.has_tls()) {
    return absl::InvalidArgumentError("state does not travel by ucx and TLS at once");
  }
  path.reset();
  absl::StatusOr<std::unique_ptr<UcxPath>> made = UcxPath::create();
  if (!made.ok()) return made.status();
  path = *std::move(made);
  return connection.write_frame(FrameType::kMemory, 0, path->address());
}

absl::Status ReceiverOfSockets::take_probe(Connection& connection, const FrameHeader& header,
                                           UcxPath* path) {
  const absl::StatusOr<std::string> body = connection.read_body(header);
  if (!body.ok()) return body.status();
  if (path != nullptr && header.argument > 0) {
    if (header.argument > max_body_bytes(FrameType::kProbe)) {
      return absl::InvalidArgumentError("a probe that is too long");
    }
    std::vector<std::byte> bytes(header.argument);
    absl::Status status = path->receive(
        1,
        [&](size_t) {
          return UcxPath::Message{kProbeMessage, bytes};
        },
        [](size_t) {}, connection.limits());
    if (!status.ok()) return status;
  }
  return connection.write_reply(absl::OkStatus());
}

absl::Status ReceiverOfSockets::take_state(Connection& connection, Incoming& incoming,
                                           const FrameHeader& header, const Arena* source,
                                           UcxPath* path) {
  const absl::StatusOr<std::string> body = connection.read_body(header);
  if (!body.ok()) return body.status();
  const absl::StatusOr<std::vector<bool>> wanted = decode_bits(*body, incoming.layout().size());
  if (!wanted.ok()) return wanted.status();
  std::vector<size_t> buffers;
  for (size_t i = 0; i < wanted->size(); ++i) {
    if ((*wanted)[i]) buffers.push_back(i);
  }
  const absl::StatusOr<std::vector<bool>> have = incoming.begin(connection, header.argument);
  if (!have.ok()) return have.status();
  std::vector<uint64_t> sums;
  if (source != nullptr) {
    absl::Status copied =
        copy_memory(*source, header.argument, buffers, incoming, connection, options_.copy_threads);
    if (!copied.ok()) return copied;
    for (const size_t buffer : buffers) sums.push_back(incoming.buffer_sum(buffer));
  } else {
    if (absl::Status status = connection.write_frame(FrameType::kHave, 0, encode_bits(*have));
        !status.ok()) {
      return status;
    }
    if (path != nullptr) {
      absl::Status taken = take_chunks(connection, incoming, *path, buffers, *have);
      if (!taken.ok()) return taken;
    }
    const absl::StatusOr<std::string> finish = connection.read_frame(FrameType::kFinish, true);
    if (!finish.ok()) return finish.status();
    if (finish->size() != buffers.size() * sizeof(uint64_t)) {
      return absl::DataLossError("checksums of other buffers than were begun");
    }
    sums.resize(buffers.size());
    if (!sums.empty()) std::memcpy(sums.data(), finish->data(), finish->size());
  }
  const absl::StatusOr<bool> whole = incoming.finish(buffers, sums);
  if (!whole.ok()) return whole.status();
  return connection.write_reply(absl::OkStatus(), *whole ? 1 : 0);
}

absl::Status ReceiverOfSockets::take_chunks(Connection& connection, Incoming& incoming,
                                            UcxPath& path, const std::vector<size_t>& buffers,
                                            const std::vector<bool>& have) {
  struct Coming {
    uint64_t chunk;
    std::span<std::byte> bytes;
    bool ours = false;
    std::vector<std::byte> scratch;  ///< of a chunk that another sender brings
  };
  std::vector<Coming> coming;
  for (const size_t buffer : buffers) {
    for (uint64_t i = incoming.chunks().first(buffer); i < incoming.chunks().end(buffer); ++i) {
      if (!have[i]) coming.push_back({i, {}, false, {}});
    }
  }
  const auto next = [&](size_t i) {
    Coming& each = coming[i];
    const ChunkPlace place = incoming.chunks().place(each.chunk);
    each.ours = incoming.claim(connection, each.chunk);
    if (!each.ours) each.scratch.resize(place.bytes);
    each.bytes = each.ours ? incoming.bytes_of(place) : std::span(each.scratch);
    return UcxPath::Message{each.chunk, each.bytes};
  };
  const auto then = [&](size_t i) {
    Coming& each = coming[i];
    incoming.count_received(each.bytes.size());
    if (options_.harm) options_.harm(each.bytes);
    if (each.ours) incoming.complete(each.chunk, checksum(each.bytes));
    each.ours = false;
    each.scratch = {};
  };
  absl::Status status = path.receive(coming.size(), next, then, connection.limits());
  if (status.ok()) return status;
  path.end();  // nothing is written to what is released now
  for (const Coming& each : coming) {
    if (each.ours) incoming.release(each.chunk);
  }
  return status;
}

absl::Status ReceiverOfSockets::serve_stream(Connection& connection, Incoming& incoming) {
  std::vector<std::byte> scratch;
  uint64_t damaged = 0;
  while (true) {
    const absl::StatusOr<FrameHeader> header = connection.read_header(true);
    if (!header.ok()) return header.status();
    if (header->type == FrameType::kStreamEnd) {
      return connection.write_reply(absl::OkStatus(), damaged);
    }
    const uint64_t chunk = header->argument;
    if (header->type != FrameType::kChunk || chunk >= incoming.chunks().count()) {
      return absl::InvalidArgumentError("a frame out of turn");
    }
    const ChunkPlace place = incoming.chunks().place(chunk);
    if (header->body_bytes != place.bytes) {
      return absl::InvalidArgumentError("a chunk of the wrong size");
    }
    const bool ours = incoming.claim(connection, chunk);
    if (!ours) scratch.resize(kChunkBytes);
    const std::span<std::byte> bytes =
        ours ? incoming.bytes_of(place) : std::span(scratch).first(place.bytes);
    const absl::StatusOr<Connection::Chunk> read = connection.read_chunk(bytes);
    if (read.ok()) incoming.count_received(place.bytes);
    if (ours && read.ok() && read->whole) {
      incoming.complete(chunk, read->sum);
      continue;
    }
    if (ours) incoming.release(chunk);
    if (!read.ok()) return read.status();
    if (!ours) continue;
    ++damaged;
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<Receiver>> listen_with_staging(ReceiverOptions options,
                                                              StagingHandler handler) {
  auto receiver = std::make_unique<ReceiverOfSockets>(std::move(options), std::move(handler));
  if (absl::Status status = receiver->start(); !status.ok()) return status;
  return receiver;
}

absl::StatusOr<std::unique_ptr<Receiver>> Receiver::listen(ReceiverOptions options) {
  return listen_with_staging(std::move(options), nullptr);
}

}  // namespace monkeytree
