#include <fmt/format.h>

#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

#include "base/json.h"
#include "state/receiving.h"
#include "state/staging.h"
#include "state/staging_folder.h"

namespace monkeytree {
namespace {

using std::chrono::milliseconds;

bool same_word(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned different = 0;
  for (size_t i = 0; i < a.size(); ++i) different |= static_cast<unsigned>(a[i] ^ b[i]);
  return different == 0;
}

class StagingServerOfArenas : public StagingServer {
 public:
  explicit StagingServerOfArenas(StagingOptions options) : options_(std::move(options)) {}
  ~StagingServerOfArenas() override;

  absl::Status start();

  std::vector<Endpoint> endpoints() const override { return receiver_->endpoints(); }
  uint64_t used_bytes() const override { return *used_; }
  std::vector<StagedState> states() const override;
  const std::vector<FoundState>& found() const override { return found_; }

 private:
  struct Held {
    std::shared_ptr<Arena> arena;  ///< null while its memory is being set aside
    uint64_t bytes = 0;
    Token token;
    bool complete = false;
    uint64_t epoch = 0;
  };

  void serve(Connection& connection, const std::string& access);
  absl::Status reserve(Connection& connection, std::string_view body);
  absl::Status open_folder();
  void remove_file(const std::string& key) const;
  absl::StatusOr<std::shared_ptr<Arena>> make_arena(const std::string& key, const Layout& layout,
                                                    uint64_t bytes);
  std::shared_ptr<Arena> count(std::unique_ptr<Arena> arena, uint64_t bytes);
  absl::Status set_aside(const std::string& key, uint64_t bytes);
  absl::Status forward(Connection& connection, std::string_view body);
  absl::Status confirm(std::string_view body);
  absl::Status tell_states(Connection& connection);
  void settle();
  void keep_house();

  const StagingOptions options_;
  std::unique_ptr<StagingFolder> folder_;
  std::vector<FoundState> found_;
  /// Outlives the server where an arena does.
  std::shared_ptr<std::atomic<uint64_t>> used_ = std::make_shared<std::atomic<uint64_t>>(0);

  mutable std::mutex mutex_;
  std::condition_variable woken_;
  bool stopping_ = false;
  std::map<std::string, Held> held_;
  std::unique_ptr<Receiver> receiver_;
  std::thread house_keeper_;
};

absl::Status StagingServerOfArenas::start() {
  if (options_.quota_bytes == 0) {
    return absl::InvalidArgumentError("a staging server needs a quota above 0 bytes");
  }
  if (absl::Status status = open_folder(); !status.ok()) return status;
  ReceiverOptions receiver;
  receiver.addresses = options_.addresses;
  receiver.idle_timeout = options_.idle_timeout;
  receiver.tls = options_.tls;
  absl::StatusOr<std::unique_ptr<Receiver>> started = listen_with_staging(
      receiver,
      [this](Connection& connection, const std::string& access) { serve(connection, access); });
  if (!started.ok()) return started.status();
  const std::lock_guard lock(mutex_);
  receiver_ = *std::move(started);
  house_keeper_ = std::thread([this] { keep_house(); });
  return absl::OkStatus();
}

absl::Status StagingServerOfArenas::open_folder() {
  if (options_.folder.empty()) return absl::OkStatus();
  absl::StatusOr<std::unique_ptr<StagingFolder>> folder =
      StagingFolder::open(options_.folder, options_.quota_bytes);
  if (!folder.ok()) return folder.status();
  folder_ = *std::move(folder);
  absl::StatusOr<std::vector<StagingFolder::Kept>> recovered = folder_->recover(found_);
  if (!recovered.ok()) return recovered.status();
  for (StagingFolder::Kept& kept : *recovered) {
    const uint64_t bytes = kept.arena->bytes();
    Held& held = held_[kept.key];
    held.bytes = bytes;
    held.complete = true;
    held.epoch = kept.arena->committed_epoch().value_or(0);
    *used_ += bytes;
    held.arena = count(std::move(kept.arena), bytes);
  }
  return absl::OkStatus();
}

void StagingServerOfArenas::remove_file(const std::string& key) const {
  if (folder_) folder_->remove(key);
}

StagingServerOfArenas::~StagingServerOfArenas() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    woken_.notify_all();
  }
  if (house_keeper_.joinable()) house_keeper_.join();
  receiver_.reset();  // before what its threads use
  for (const auto& [key, held] : held_) {
    const bool whole = held.arena && held.arena->committed_epoch();  // its sender may know
    if (!whole) remove_file(key);
  }
}

std::vector<StagedState> StagingServerOfArenas::states() const {
  const std::lock_guard lock(mutex_);
  std::vector<StagedState> all;
  for (const auto& [key, held] : held_) all.push_back({key, held.bytes, held.epoch, held.complete});
  return all;
}

// Puts that have ended become staged states, or their memory is returned.
void StagingServerOfArenas::settle() {
  const std::lock_guard lock(mutex_);
  for (auto at = held_.begin(); at != held_.end();) {
    Held& held = at->second;
    const auto next = std::next(at);
    if (held.arena && !held.complete && receiver_->ended(held.token)) {
      const absl::StatusOr<TransferReport> result = receiver_->wait(held.token, Deadline::min());
      if (result.ok()) {
        held.complete = true;
        held.epoch = result->epoch;
      } else {
        remove_file(at->first);
        held_.erase(at);
      }
    }
    at = next;
  }
}

void StagingServerOfArenas::keep_house() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    lock.unlock();
    settle();
    lock.lock();
    woken_.wait_for(lock, milliseconds(500), [&] { return stopping_; });
  }
}

void StagingServerOfArenas::serve(Connection& connection, const std::string& access) {
  {
    const std::lock_guard lock(mutex_);
    if (receiver_ == nullptr) return;  // a connection before start() is done
  }
  if (!same_word(access, options_.access)) {
    connection
        .write_reply(absl::UnauthenticatedError("the staging server's access word is another"))
        .IgnoreError();
    return;
  }
  const absl::StatusOr<FrameHeader> header = connection.read_header();
  if (!header.ok()) return;
  const absl::StatusOr<std::string> body = connection.read_body(*header);
  if (!body.ok()) return;
  connection.set_deadline(Deadline::max());
  settle();
  absl::Status status = absl::InvalidArgumentError("a frame out of turn");
  if (header->type == FrameType::kReserve) status = reserve(connection, *body);
  if (header->type == FrameType::kForward) status = forward(connection, *body);
  if (header->type == FrameType::kStates) status = tell_states(connection);
  if (header->type == FrameType::kConfirm) {
    status = confirm(*body);
    if (status.ok()) status = connection.write_reply(status);
  }
  if (!status.ok()) connection.write_reply(status).IgnoreError();
}

absl::Status StagingServerOfArenas::set_aside(const std::string& key, uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (held_.contains(key)) {
    return absl::AlreadyExistsError(fmt::format("a state is staged as {}", quote(key)));
  }
  if (held_.size() >= options_.max_objects) {
    return absl::ResourceExhaustedError(
        fmt::format("{} states are staged, the limit is {}", held_.size(), options_.max_objects));
  }
  const uint64_t used = *used_;
  if (bytes > options_.quota_bytes - std::min(used, options_.quota_bytes)) {
    return absl::ResourceExhaustedError(fmt::format(
        "the state needs {} bytes; {} of the quota of {} bytes are free", bytes,
        options_.quota_bytes - std::min(used, options_.quota_bytes), options_.quota_bytes));
  }
  *used_ += bytes;
  Held& held = held_[key];
  held.bytes = bytes;
  held.token = random_token();
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<Arena>> StagingServerOfArenas::make_arena(const std::string& key,
                                                                         const Layout& layout,
                                                                         uint64_t bytes) {
  Arena::Options options;
  absl::Status status;
  if (folder_) {
    const absl::StatusOr<std::string> file = folder_->file_of(key);
    status = file.status();
    options.file = file.value_or("");
  }
  absl::StatusOr<Arena> arena =
      status.ok() ? Arena::create(layout, options) : absl::StatusOr<Arena>(status);
  if (!arena.ok()) {
    if (!absl::IsAlreadyExists(arena.status())) remove_file(key);
    *used_ -= bytes;
    return arena.status();
  }
  return count(std::make_unique<Arena>(*std::move(arena)), bytes);
}

// What is used goes down when the memory is really returned, whoever held it last.
std::shared_ptr<Arena> StagingServerOfArenas::count(std::unique_ptr<Arena> arena, uint64_t bytes) {
  return std::shared_ptr<Arena>(arena.release(), [used = used_, bytes](Arena* gone) {
    delete gone;
    *used -= bytes;
  });
}

absl::Status StagingServerOfArenas::reserve(Connection& connection, std::string_view body) {
  const absl::StatusOr<ReserveRequest> request = decode_reserve(body);
  if (!request.ok()) return request.status();
  if (request->key.empty()) return absl::InvalidArgumentError("an empty key");
  const absl::StatusOr<Layout> layout = decode_layout(request->layout, request->buffers);
  if (!layout.ok()) return layout.status();
  const absl::StatusOr<Geometry> geometry = geometry_of(*layout);
  if (!geometry.ok()) return geometry.status();
  const uint64_t bytes = geometry->total_bytes;
  if (absl::Status status = set_aside(request->key, bytes); !status.ok()) return status;
  absl::StatusOr<std::shared_ptr<Arena>> arena = make_arena(request->key, *layout, bytes);
  Token token;
  {
    const std::lock_guard lock(mutex_);
    if (!arena.ok()) {
      held_.erase(request->key);
      return arena.status();
    }
    Held& held = held_[request->key];
    token = held.token;
    if (absl::Status status = receiver_->expect(token, *arena, deadline_in(options_.put_deadline));
        !status.ok()) {
      remove_file(request->key);
      held_.erase(request->key);
      return status;
    }
    held.arena = *std::move(arena);
  }
  if (absl::Status status = connection.write_reply(absl::OkStatus()); !status.ok()) return status;
  return connection.write_frame(FrameType::kReserve, 0, token);
}

absl::Status StagingServerOfArenas::forward(Connection& connection, std::string_view body) {
  const absl::StatusOr<ForwardRequest> request = decode_forward(body);
  if (!request.ok()) return request.status();
  const absl::StatusOr<Endpoint> endpoint = Endpoint::parse(request->endpoint);
  if (!endpoint.ok()) return endpoint.status();
  std::shared_ptr<Arena> arena;
  {
    const std::lock_guard lock(mutex_);
    const auto at = held_.find(request->key);
    if (at != held_.end() && at->second.complete) arena = at->second.arena;
  }
  if (arena == nullptr) {
    return absl::NotFoundError(fmt::format("no state is staged as {}", quote(request->key)));
  }
  SendOptions options;
  // A day is for ever, and no clock overflows by it.
  options.deadline = deadline_in(milliseconds(std::min<uint64_t>(request->timeout_ms, 86400000)));
  options.idle_timeout = options_.idle_timeout;
  options.streams = static_cast<int>(std::min<uint64_t>(request->streams, 64));
  options.min_bytes_per_s = request->min_bytes_per_s;
  options.tls = options_.tls;
  const absl::StatusOr<TransferReport> report = send(*arena, *endpoint, request->token, options);
  if (!report.ok()) return report.status();
  WireWriter out;
  out.number(report->epoch);
  out.number(report->bytes);
  out.number(report->sent_bytes);
  out.number(static_cast<uint64_t>(report->connections_lost));
  out.number(static_cast<uint64_t>(report->seconds * 1e9));
  if (absl::Status status = connection.write_reply(absl::OkStatus()); !status.ok()) return status;
  return connection.write_frame(FrameType::kForward, 0, out.body());
}

absl::Status StagingServerOfArenas::confirm(std::string_view body) {
  Held gone;
  {
    const std::lock_guard lock(mutex_);
    const auto at = held_.find(std::string(body));
    if (at == held_.end() || !at->second.arena) {
      return absl::NotFoundError(fmt::format("no state is staged as {}", quote(body)));
    }
    gone = std::move(at->second);
    remove_file(at->first);
    held_.erase(at);
  }
  if (!gone.complete) receiver_->cancel(gone.token);
  return absl::OkStatus();
}

absl::Status StagingServerOfArenas::tell_states(Connection& connection) {
  const std::vector<StagedState> all = states();
  WireWriter out;
  for (const StagedState& state : all) {
    out.text(state.key);
    out.number(state.bytes);
    out.number(state.epoch);
    out.number(state.complete ? 1 : 0);
  }
  if (absl::Status status = connection.write_reply(absl::OkStatus()); !status.ok()) return status;
  return connection.write_frame(FrameType::kStates, all.size(), out.body());
}

}  // namespace

absl::StatusOr<std::unique_ptr<StagingServer>> StagingServer::start(StagingOptions options) {
  auto server = std::make_unique<StagingServerOfArenas>(std::move(options));
  if (absl::Status status = server->start(); !status.ok()) return status;
  return server;
}

}  // namespace monkeytree
