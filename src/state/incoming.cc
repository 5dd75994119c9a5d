#include "state/incoming.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/json.h"

namespace monkeytree {

Incoming::Incoming(std::shared_ptr<Arena> target, Deadline deadline)
    : target_(std::move(target)),
      chunks_(target_->layout()),
      deadline_(deadline),
      states_(chunks_.count(), Chunk::kMissing),
      sums_(chunks_.count()),
      buffer_there_(chunks_.buffers()),
      buffers_missing_(chunks_.buffers()) {
  target_->begin_epoch();
}

// Breaks connections and waits until their threads have let go of the target. False where the
// caller's own connection is cut meanwhile: two that cut each other would wait for ever.
template <class Which>
bool Incoming::cut(std::unique_lock<std::mutex>& lock, const Connection* self, Which which) {
  while (std::any_of(attached_.begin(), attached_.end(), which)) {
    if (const Attached* own = self == nullptr ? nullptr : find(*self); own && own->cut)
      return false;
    for (Attached& each : attached_) {
      if (!which(each)) continue;
      each.cut = true;
      each.connection->shutdown();
    }
    changed_.wait(lock);
  }
  return true;
}

Incoming::Attached* Incoming::find(const Connection& connection) {
  for (Attached& each : attached_) {
    if (each.connection == &connection) return &each;
  }
  return nullptr;
}

absl::Status Incoming::attach(Connection& connection, uint64_t part, uint64_t session) {
  if (ended_ && !ended_->ok()) return *ended_;
  if (!first_connection_) first_connection_ = Clock::now();
  attached_.push_back({&connection, part, session});
  changed_.notify_all();
  connection.set_deadline(deadline_);
  return absl::OkStatus();
}

absl::Status Incoming::attach_control(Connection& connection, uint64_t part, uint64_t session) {
  std::unique_lock lock(mutex_);
  const auto earlier = [&](const Attached& each) { return each.part == part; };
  if (std::any_of(attached_.begin(), attached_.end(), earlier)) ++report_.connections_lost;
  cut(lock, nullptr, earlier);
  return attach(connection, part, session);
}

absl::Status Incoming::attach_stream(Connection& connection, uint64_t part, uint64_t session) {
  std::unique_lock lock(mutex_);
  const bool known = std::any_of(attached_.begin(), attached_.end(), [&](const Attached& each) {
    return each.part == part && each.session == session;
  });
  if (!known) return absl::UnavailableError("a stream of a sender that has gone");
  return attach(connection, part, session);
}

void Incoming::detach(Connection& connection) {
  const std::lock_guard lock(mutex_);
  std::erase_if(attached_, [&](const Attached& each) { return each.connection == &connection; });
  changed_.notify_all();
}

absl::StatusOr<std::vector<bool>> Incoming::begin(Connection& connection, uint64_t epoch) {
  std::unique_lock lock(mutex_);
  if (ended_ && !ended_->ok()) return *ended_;
  if (epoch_ && (epoch < *epoch_ || (ended_ && epoch != *epoch_))) {
    return absl::FailedPreconditionError(
        fmt::format("the state of epoch {} is here, that of epoch {} is refused", *epoch_, epoch));
  }
  const Attached* self = find(connection);
  if (self == nullptr || self->cut) return absl::CancelledError("a newer sender has come");
  const uint64_t session = self->session;
  if (!epoch_) epoch_ = epoch;
  if (epoch_ != epoch) {
    const auto others = [&](const Attached& each) { return each.session != session; };
    if (!cut(lock, &connection, others)) return absl::CancelledError("a newer sender has come");
    std::fill(states_.begin(), states_.end(), Chunk::kMissing);
    std::fill(buffer_there_.begin(), buffer_there_.end(), false);
    buffers_missing_ = chunks_.buffers();
    checked_bytes_ = 0;
    epoch_ = epoch;
  }
  for (Attached& each : attached_) each.begun = each.begun || each.session == session;
  std::vector<bool> have(states_.size());
  for (size_t i = 0; i < have.size(); ++i) have[i] = states_[i] == Chunk::kChecked;
  return have;
}

bool Incoming::claim(Connection& connection, uint64_t chunk) {
  const std::lock_guard lock(mutex_);
  const Attached* self = find(connection);
  if (ended_ || self == nullptr || !self->begun || states_[chunk] != Chunk::kMissing) return false;
  states_[chunk] = Chunk::kClaimed;
  return true;
}

void Incoming::complete(uint64_t chunk, uint64_t sum) {
  const std::lock_guard lock(mutex_);
  states_[chunk] = Chunk::kChecked;
  sums_[chunk] = sum;
  checked_bytes_ += chunks_.place(chunk).bytes;
}

void Incoming::release(uint64_t chunk) {
  const std::lock_guard lock(mutex_);
  states_[chunk] = Chunk::kMissing;
}

void Incoming::count_received(uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  report_.sent_bytes += bytes;
}

uint64_t Incoming::buffer_sum(size_t buffer) const {
  const std::lock_guard lock(mutex_);
  return combine_checksums(
      std::span(sums_).subspan(chunks_.first(buffer), chunks_.end(buffer) - chunks_.first(buffer)));
}

absl::StatusOr<bool> Incoming::finish(std::span<const size_t> buffers,
                                      std::span<const uint64_t> sums) {
  const std::lock_guard lock(mutex_);
  if (ended_) return ended_->ok() ? absl::StatusOr<bool>(true) : *ended_;
  for (size_t i = 0; i < buffers.size(); ++i) {
    const size_t buffer = buffers[i];
    const uint64_t first = chunks_.first(buffer);
    const uint64_t end = chunks_.end(buffer);
    for (uint64_t chunk = first; chunk < end; ++chunk) {
      if (states_[chunk] == Chunk::kChecked) continue;
      return absl::UnavailableError(
          fmt::format("buffer {} has not arrived whole", quote(layout()[buffer].name)));
    }
    if (combine_checksums(std::span(sums_).subspan(first, end - first)) != sums[i]) {
      // Which chunk is wrong is not known, so all of them come again.
      for (uint64_t chunk = first; chunk < end; ++chunk) {
        states_[chunk] = Chunk::kMissing;
        checked_bytes_ -= chunks_.place(chunk).bytes;
      }
      return absl::DataLossError(
          fmt::format("buffer {} arrived changed", quote(layout()[buffer].name)));
    }
    if (!buffer_there_[buffer]) --buffers_missing_;
    buffer_there_[buffer] = true;
  }
  if (buffers_missing_ > 0) return false;
  std::vector<uint64_t> all;
  all.reserve(chunks_.buffers());
  for (size_t i = 0; i < chunks_.buffers(); ++i) {
    all.push_back(combine_checksums(
        std::span(sums_).subspan(chunks_.first(i), chunks_.end(i) - chunks_.first(i))));
  }
  target_->commit_with_checksums(*epoch_, all);
  report_.epoch = *epoch_;
  report_.bytes = target_->payload_bytes();
  report_.seconds = std::chrono::duration<double>(Clock::now() - *first_connection_).count();
  ended_ = absl::OkStatus();
  changed_.notify_all();
  return true;
}

void Incoming::end(absl::Status why) {
  std::unique_lock lock(mutex_);
  if (!ended_) ended_ = std::move(why);
  changed_.notify_all();
  // After a good end the connections have only replies to write.
  if (!ended_->ok()) cut(lock, nullptr, [](const Attached&) { return true; });
}

std::optional<absl::StatusOr<TransferReport>> Incoming::wait(Deadline deadline) {
  std::unique_lock lock(mutex_);
  const Deadline until = std::min(deadline, deadline_);
  const auto has_ended = [&] { return ended_.has_value(); };
  if (until == Deadline::max()) {
    changed_.wait(lock, has_ended);
  } else {
    changed_.wait_until(lock, until, has_ended);
  }
  if (!ended_ && Clock::now() < deadline_) return std::nullopt;
  if (!ended_) {
    lock.unlock();
    end(absl::DeadlineExceededError("the state has not arrived by the deadline"));
    lock.lock();
  }
  if (ended_->ok()) return report_;
  return absl::StatusOr<TransferReport>(*ended_);
}

bool Incoming::ended() const {
  const std::lock_guard lock(mutex_);
  return ended_.has_value() || Clock::now() >= deadline_;
}

uint64_t Incoming::received_bytes() const {
  const std::lock_guard lock(mutex_);
  return checked_bytes_;
}

}  // namespace monkeytree
