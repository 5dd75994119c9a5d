#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <numeric>
#include <thread>

#include "base/json.h"
#include "state/chunks.h"
#include "state/connection.h"
#include "state/transfer.h"

namespace monkeytree {
namespace {

using std::chrono::milliseconds;

uint64_t random_session() { return std::stoull(random_token().substr(0, 16), nullptr, 16); }

absl::Status check_options(const Arena& arena, const SendOptions& options) {
  if (options.streams < 1 || options.streams > 64) {
    return absl::InvalidArgumentError(fmt::format("{} streams, expected 1 to 64", options.streams));
  }
  if (options.probe_bytes < 4096 || options.probe_bytes > uint64_t{32} << 20) {
    return absl::InvalidArgumentError(
        fmt::format("a probe of {} bytes, expected 4 KiB to 32 MiB", options.probe_bytes));
  }
  for (const size_t buffer : options.buffers) {
    if (buffer < arena.buffer_count()) continue;
    return absl::InvalidArgumentError(fmt::format("buffer {} of {}", buffer, arena.buffer_count()));
  }
  return absl::OkStatus();
}

class SenderOfSockets : public Sender {
 public:
  SenderOfSockets(const Arena& arena, Endpoint endpoint, Token token, SendOptions options)
      : arena_(arena),
        endpoint_(std::move(endpoint)),
        token_(std::move(token)),
        options_(std::move(options)),
        chunks_(arena.layout()),
        deadline_(options_.deadline),
        sums_(chunks_.count()),
        summed_(chunks_.count(), 0) {
    if (options_.buffers.empty()) {
      options_.buffers.resize(arena.buffer_count());
      std::iota(options_.buffers.begin(), options_.buffers.end(), 0);
    }
    std::sort(options_.buffers.begin(), options_.buffers.end());
    const auto twins = std::unique(options_.buffers.begin(), options_.buffers.end());
    options_.buffers.erase(twins, options_.buffers.end());
  }

  /// Connects and does all that does not need the state.
  absl::Status prepare();

  absl::StatusOr<TransferReport> send() override { return send(options_.deadline); }
  absl::StatusOr<TransferReport> send(Deadline deadline) override;
  void cancel() override;
  double probed_bytes_per_s() const override { return probed_; }

 private:
  /// AlreadyExists: a state has arrived before.
  absl::Status connect();
  absl::Status measure();
  bool local() const { return endpoint_.transport == Endpoint::Transport::kShm; }
  bool by_ucx() const { return endpoint_.transport == Endpoint::Transport::kUcx; }
  absl::Status open_path();
  absl::Status probe(const std::string& bytes);
  absl::StatusOr<std::unique_ptr<Connection>> open(Role role, uint64_t* argument);
  absl::Status pass_layout();
  absl::Status attempt(uint64_t epoch);
  absl::Status check_committed(uint64_t epoch) const;
  absl::Status send_chunks(uint64_t epoch);
  absl::Status run_streams(const std::vector<uint64_t>& missing);
  absl::Status run_path(const std::vector<uint64_t>& missing);
  absl::Status run_stream(Connection& connection, const std::vector<uint64_t>& missing,
                          std::atomic<size_t>& next);
  absl::StatusOr<std::vector<uint64_t>> buffer_sums();
  bool worth_another(const absl::Status& status) const;
  absl::Status pause_before(int attempt);
  void disconnect();
  absl::Status cancelled() const { return absl::CancelledError("the transfer was cancelled"); }

  const Arena& arena_;
  const Endpoint endpoint_;
  const Token token_;
  SendOptions options_;
  const ChunkMap chunks_;
  Deadline deadline_;
  uint64_t session_ = 0;
  uint64_t arrived_epoch_ = 0;  ///< where connect() says AlreadyExists
  double probed_ = 0;

  // Of chunks that have been read: each is written by the one stream that sends it.
  std::vector<uint64_t> sums_;
  std::vector<uint8_t> summed_;
  std::atomic<uint64_t> sent_bytes_ = 0;
  int lost_ = 0;

  std::mutex mutex_;  ///< over what cancel() touches
  std::condition_variable woken_;
  bool cancelled_ = false;
  std::unique_ptr<Connection> control_;
  std::vector<std::unique_ptr<Connection>> streams_;
  std::unique_ptr<UcxPath> path_;  ///< of ucx, in place of streams
};

absl::StatusOr<std::unique_ptr<Connection>> SenderOfSockets::open(Role role, uint64_t* argument) {
  absl::StatusOr<std::unique_ptr<Connection>> connection =
      Connection::connect(endpoint_, options_.from_address, deadline_, options_.idle_timeout);
  if (!connection.ok()) return connection.status();
  if (options_.tls.configured() && !local()) {
    absl::Status status = (*connection)->start_tls(options_.tls, TlsSession::Side::kCalls);
    if (!status.ok()) return status;
  }
  const std::string hello = encode_hello({role, token_, options_.part, session_});
  if (absl::Status status = (*connection)->write_frame(FrameType::kHello, 0, hello); !status.ok()) {
    return status;
  }
  if (absl::Status status = (*connection)->read_reply(argument); !status.ok()) return status;
  return connection;
}

absl::Status SenderOfSockets::connect() {
  session_ = random_session();
  absl::StatusOr<std::unique_ptr<Connection>> control = open(Role::kControl, &arrived_epoch_);
  if (!control.ok()) return control.status();
  {
    const std::lock_guard lock(mutex_);
    if (cancelled_) return cancelled();
    control_ = *std::move(control);
  }
  if (absl::Status status = pass_layout(); !status.ok()) return status;
  if (by_ucx()) return open_path();
  for (int i = 0; i < options_.streams && !local(); ++i) {
    absl::StatusOr<std::unique_ptr<Connection>> stream = open(Role::kStream, nullptr);
    if (!stream.ok()) return stream.status();
    const std::lock_guard lock(mutex_);
    if (cancelled_) return cancelled();
    streams_.push_back(*std::move(stream));
  }
  return absl::OkStatus();
}

// The first bytes of a path cost most, so some go before the pause.
absl::Status SenderOfSockets::open_path() {
  if (options_.tls.configured()) {
    return absl::InvalidArgumentError("state does not travel by ucx and TLS at once");
  }
  absl::Status status = control_->write_frame(FrameType::kMemory, 0, "");
  if (!status.ok()) return status;
  const absl::StatusOr<FrameHeader> header = control_->read_header();
  if (!header.ok()) return header.status();
  const absl::StatusOr<std::string> address = control_->read_body(*header);
  if (!address.ok()) return address.status();
  if (header->type == FrameType::kReply) return decode_status(*address);
  if (header->type != FrameType::kMemory) {
    return absl::InvalidArgumentError("the receiver does not say where its memory is");
  }
  absl::StatusOr<std::unique_ptr<UcxPath>> path = UcxPath::create();
  if (!path.ok()) return path.status();
  path_ = *std::move(path);
  status = path_->connect(*address);
  return status.ok() ? probe(std::string(size_t{64} << 10, 'p')) : status;
}

absl::Status SenderOfSockets::probe(const std::string& bytes) {
  if (!path_) {
    const absl::Status status = control_->write_frame(FrameType::kProbe, 0, bytes);
    return status.ok() ? control_->read_reply() : status;
  }
  absl::Status status = control_->write_frame(FrameType::kProbe, bytes.size(), "");
  if (!status.ok()) return status;
  // Sending does not write.
  const std::span<std::byte> all(reinterpret_cast<std::byte*>(const_cast<char*>(bytes.data())),
                                 bytes.size());
  status = path_->send(
      1,
      [&](size_t) {
        return UcxPath::Message{kProbeMessage, all};
      },
      [](size_t) {}, control_->limits());
  return status.ok() ? control_->read_reply() : status;
}

absl::Status SenderOfSockets::prepare() {
  for (int tries = 0;; ++tries) {
    absl::Status status = tries > 0 ? pause_before(tries) : absl::OkStatus();
    if (status.ok()) status = connect();
    if (status.ok()) status = measure();
    if (status.ok()) return status;
    disconnect();
    if (absl::IsAlreadyExists(status)) return absl::OkStatus();  // send() tells of which epoch
    if (tries >= options_.resumes || !worth_another(status)) return status;
  }
}

absl::Status SenderOfSockets::pass_layout() {
  absl::Status status = control_->write_frame(FrameType::kLayout, arena_.buffer_count(),
                                              encode_layout(arena_.layout()));
  if (status.ok()) status = control_->read_reply();
  if (!status.ok() || !local()) return status;
  status = control_->write_descriptor(arena_.fd());
  if (status.ok()) status = control_->read_reply();
  return status;
}

// The first half warms the path; the second is timed. A path below the floor is known to be so as
// soon as the time has passed in which one at the floor would have answered.
absl::Status SenderOfSockets::measure() {
  if (options_.min_bytes_per_s == 0 || local()) return absl::OkStatus();
  const std::string half(options_.probe_bytes / 2, 'p');
  const double floor_s =
      static_cast<double>(half.size()) / static_cast<double>(options_.min_bytes_per_s);
  const auto too_slow = [&](std::string_view measured) {
    return absl::FailedPreconditionError(
        fmt::format("the path to {} is too slow: {}, the floor is {:.1f} MB/s", endpoint_.text(),
                    measured, static_cast<double>(options_.min_bytes_per_s) * 1e-6));
  };
  for (const double allowed_s : {2 * floor_s + 0.1, floor_s}) {
    const auto start = Clock::now();
    const Deadline until =
        start + std::chrono::duration_cast<Clock::duration>(
                    std::chrono::duration<double>(std::min(allowed_s + 0.002, 1e6)));
    control_->set_deadline(std::min(until, deadline_));
    absl::Status status = probe(half);
    const double took_s = std::chrono::duration<double>(Clock::now() - start).count();
    control_->set_deadline(deadline_);
    if (absl::IsDeadlineExceeded(status) && Clock::now() < deadline_) {
      return too_slow(fmt::format("{} bytes took more than {:.3f} s", half.size(), allowed_s));
    }
    if (!status.ok()) return status;
    probed_ = static_cast<double>(half.size()) / took_s;
  }
  if (probed_ >= static_cast<double>(options_.min_bytes_per_s)) return absl::OkStatus();
  return too_slow(fmt::format("{:.1f} MB/s measured", probed_ * 1e-6));
}

absl::Status SenderOfSockets::check_committed(uint64_t epoch) const {
  if (arena_.committed_epoch() == epoch) return absl::OkStatus();
  return absl::FailedPreconditionError("the state to send is not committed, or was changed");
}

absl::StatusOr<TransferReport> SenderOfSockets::send(Deadline deadline) {
  const auto start = Clock::now();
  deadline_ = std::min(deadline, options_.deadline);
  const std::optional<uint64_t> epoch = arena_.committed_epoch();
  if (!epoch) return absl::FailedPreconditionError("the state to send is not committed");
  std::fill(summed_.begin(), summed_.end(), 0);
  absl::Status status;
  for (int tries = 0;; ++tries) {
    if (tries > 0) status = pause_before(tries);
    if (status.ok() && control_ == nullptr) status = connect();
    if (absl::IsAlreadyExists(status) && arrived_epoch_ == *epoch)
      status = absl::OkStatus();
    else if (status.ok())
      status = attempt(*epoch);
    if (status.ok()) break;
    disconnect();
    {
      const std::lock_guard lock(mutex_);
      if (cancelled_) return cancelled();
    }
    if (tries >= options_.resumes || !worth_another(status)) return status;
    ++lost_;
  }
  disconnect();
  TransferReport report;
  report.epoch = *epoch;
  for (const size_t buffer : options_.buffers) report.bytes += arena_.layout()[buffer].bytes;
  report.sent_bytes = sent_bytes_;
  report.connections_lost = lost_;
  report.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return report;
}

bool SenderOfSockets::worth_another(const absl::Status& status) const {
  if (Clock::now() >= deadline_) return false;
  // Over shm nothing can be damaged on the way; what is wrong is the source.
  return absl::IsUnavailable(status) || (absl::IsDataLoss(status) && !local());
}

absl::Status SenderOfSockets::pause_before(int attempt) {
  const auto pause = milliseconds(std::min(10 << std::min(attempt, 7), 1000));
  std::unique_lock lock(mutex_);
  woken_.wait_until(lock, std::min(Clock::now() + pause, deadline_), [&] { return cancelled_; });
  return cancelled_ ? cancelled() : absl::OkStatus();
}

absl::Status SenderOfSockets::attempt(uint64_t epoch) {
  control_->set_deadline(deadline_);
  for (const auto& stream : streams_) stream->set_deadline(deadline_);
  std::vector<bool> wanted(arena_.buffer_count());
  for (const size_t buffer : options_.buffers) wanted[buffer] = true;
  if (absl::Status status = control_->write_frame(FrameType::kBegin, epoch, encode_bits(wanted));
      !status.ok()) {
    return status;
  }
  if (!local()) return send_chunks(epoch);
  absl::Status status = control_->read_reply();
  if (status.ok()) {
    for (const size_t buffer : options_.buffers) sent_bytes_ += arena_.layout()[buffer].bytes;
  }
  return status;
}

absl::Status SenderOfSockets::send_chunks(uint64_t epoch) {
  absl::StatusOr<FrameHeader> header = control_->read_header();
  if (!header.ok()) return header.status();
  const absl::StatusOr<std::string> body = control_->read_body(*header);
  if (!body.ok()) return body.status();
  if (header->type == FrameType::kReply) return decode_status(*body);
  if (header->type != FrameType::kHave) {
    return absl::InvalidArgumentError("the receiver does not say what it has");
  }
  const absl::StatusOr<std::vector<bool>> have = decode_bits(*body, chunks_.count());
  if (!have.ok()) return have.status();
  std::vector<uint64_t> missing;
  for (const size_t buffer : options_.buffers) {
    for (uint64_t i = chunks_.first(buffer); i < chunks_.end(buffer); ++i) {
      if (!(*have)[i]) missing.push_back(i);
    }
  }
  absl::Status moved = path_ ? run_path(missing) : run_streams(missing);
  if (!moved.ok()) return moved;
  const absl::StatusOr<std::vector<uint64_t>> sums = buffer_sums();
  if (!sums.ok()) return sums.status();
  if (absl::Status status = check_committed(epoch); !status.ok()) return status;
  const std::string_view bytes(reinterpret_cast<const char*>(sums->data()), sums->size() * 8);
  if (absl::Status status = control_->write_frame(FrameType::kFinish, 0, bytes); !status.ok()) {
    return status;
  }
  return control_->read_reply();
}

absl::Status SenderOfSockets::run_path(const std::vector<uint64_t>& missing) {
  const auto next = [&](size_t i) {
    const ChunkPlace place = chunks_.place(missing[i]);
    const auto bytes = arena_.buffer(place.buffer).subspan(place.offset, place.bytes);
    // Sending does not write.
    return UcxPath::Message{missing[i], {const_cast<std::byte*>(bytes.data()), bytes.size()}};
  };
  const auto then = [&](size_t i) {
    const std::span<const std::byte> bytes = next(i).bytes;
    sums_[missing[i]] = checksum(bytes);
    summed_[missing[i]] = 1;
    sent_bytes_ += bytes.size();
  };
  return path_->send(missing.size(), next, then, control_->limits());
}

absl::Status SenderOfSockets::run_streams(const std::vector<uint64_t>& missing) {
  std::atomic<size_t> next = 0;
  std::vector<absl::Status> results(streams_.size());
  std::vector<std::thread> threads;
  for (size_t i = 1; i < streams_.size(); ++i) {
    threads.emplace_back([&, i] { results[i] = run_stream(*streams_[i], missing, next); });
  }
  results[0] = run_stream(*streams_[0], missing, next);
  for (std::thread& thread : threads) thread.join();
  for (const absl::Status& result : results) {
    if (!result.ok()) return result;
  }
  return absl::OkStatus();
}

absl::Status SenderOfSockets::run_stream(Connection& connection,
                                         const std::vector<uint64_t>& missing,
                                         std::atomic<size_t>& next) {
  for (size_t at = next.fetch_add(1); at < missing.size(); at = next.fetch_add(1)) {
    const ChunkPlace place = chunks_.place(missing[at]);
    const auto bytes = arena_.buffer(place.buffer).subspan(place.offset, place.bytes);
    const absl::StatusOr<uint64_t> sum = connection.write_chunk(missing[at], bytes);
    if (!sum.ok()) return sum.status();
    sums_[missing[at]] = *sum;
    summed_[missing[at]] = 1;
    sent_bytes_ += place.bytes;
  }
  uint64_t damaged = 0;
  absl::Status status = connection.write_frame(FrameType::kStreamEnd, 0, "");
  if (status.ok()) status = connection.read_reply(&damaged);
  if (status.ok() && damaged > 0) {
    return absl::DataLossError(fmt::format("{} chunks arrived damaged", damaged));
  }
  return status;
}

// Of what an earlier sender has sent the checksums are taken now.
absl::StatusOr<std::vector<uint64_t>> SenderOfSockets::buffer_sums() {
  std::vector<uint64_t> sums;
  sums.reserve(options_.buffers.size());
  for (const size_t buffer : options_.buffers) {
    const uint64_t first = chunks_.first(buffer);
    const uint64_t end = chunks_.end(buffer);
    for (uint64_t i = first; i < end; ++i) {
      if (summed_[i] != 0) continue;
      const ChunkPlace place = chunks_.place(i);
      sums_[i] = checksum(arena_.buffer(buffer).subspan(place.offset, place.bytes));
      summed_[i] = 1;
    }
    sums.push_back(combine_checksums(std::span(sums_).subspan(first, end - first)));
    if (arena_.has_checksums() && sums.back() != arena_.recorded_checksum(buffer)) {
      return absl::FailedPreconditionError(
          fmt::format("buffer {} of the source is not what was committed",
                      quote(arena_.layout()[buffer].name)));
    }
  }
  return sums;
}

void SenderOfSockets::disconnect() {
  const std::lock_guard lock(mutex_);
  path_.reset();
  control_.reset();
  streams_.clear();
}

void SenderOfSockets::cancel() {
  const std::lock_guard lock(mutex_);
  cancelled_ = true;
  if (control_) control_->shutdown();
  for (const auto& stream : streams_) stream->shutdown();
  woken_.notify_all();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Sender>> Sender::prepare(const Arena& arena,
                                                        const Endpoint& endpoint,
                                                        const Token& token, SendOptions options) {
  if (absl::Status status = check_options(arena, options); !status.ok()) return status;
  auto sender = std::make_unique<SenderOfSockets>(arena, endpoint, token, std::move(options));
  if (absl::Status status = sender->prepare(); !status.ok()) return status;
  return sender;
}

absl::StatusOr<TransferReport> send(const Arena& arena, const Endpoint& endpoint,
                                    const Token& token, const SendOptions& options) {
  absl::StatusOr<std::unique_ptr<Sender>> sender = Sender::prepare(arena, endpoint, token, options);
  if (!sender.ok()) return sender.status();
  return (*sender)->send();
}

}  // namespace monkeytree
