#include "hook.h"

#include <poll.h>

#include <algorithm>
#include <utility>

#include "worker_state.h"

namespace monkeytree {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kRetry{200};

}  // namespace

Hook::Hook(std::string socket, const Arena& arena, WorkerHello hello)
    : socket_path_(std::move(socket)), arena_(arena), now_(std::move(hello)) {}

void Hook::connect_again() {
  if (steady_clock::now() < next_try_) return;
  next_try_ = steady_clock::now() + kRetry;
  absl::StatusOr<Fd> socket = connect_packets(socket_path_);
  if (!socket.ok()) return;
  if (!send_packet(socket->get(), write_packet(FromWorker(now_)), arena_.fd()).ok()) return;
  socket_ = *std::move(socket);
}

bool Hook::serve(milliseconds limit, int fd, short events) {
  if (!socket_.valid()) connect_again();
  pollfd fds[2] = {{socket_.get(), POLLIN, 0}, {fd, events, 0}};
  // poll() passes over descriptors below 0.
  if (!socket_.valid()) limit = std::min(limit, kRetry);
  if (poll(fds, 2, static_cast<int>(limit.count())) <= 0) return false;
  if (fds[0].revents != 0) read_all();
  return fds[1].revents != 0;
}

void Hook::read_all() {
  while (socket_.valid()) {
    pollfd one{socket_.get(), POLLIN, 0};
    if (poll(&one, 1, 0) <= 0) return;
    absl::StatusOr<Packet> packet = receive_packet(socket_.get(), kMaxWorkerPacket);
    if (!packet.ok()) return socket_.reset();
    const absl::StatusOr<ToWorker> message = read_to_worker(packet->bytes);
    if (!message.ok()) return socket_.reset();
    take(*message);
  }
}

bool Hook::cancelled(uint64_t hash) const {
  return std::any_of(cancelled_.begin(), cancelled_.end(),
                     [&](const std::string& one) { return hash_text(one) == hash; });
}

void Hook::say(const FromWorker& message) {
  if (socket_.valid() && !send_packet(socket_.get(), write_packet(message)).ok()) socket_.reset();
}

void Hook::paused() {
  now_.phase = WorkerPhase::kPaused;
  now_.migration = std::exchange(pause_wanted_, "");
  if (!now_.migration.empty()) {
    say(WorkerPaused{now_.migration, now_.iteration,
                     static_cast<int64_t>(arena_.committed_epoch().value_or(0))});
  }
}

void Hook::stepped() {
  if (now_.generation.empty() || stepped_ == now_.generation) return;
  stepped_ = now_.generation;
  say(WorkerStepped{stepped_, now_.iteration});
}

void Hook::take_pause(const AgentPause& message) {
  const bool known =
      std::find(cancelled_.begin(), cancelled_.end(), message.migration) != cancelled_.end();
  if (known) return say(WorkerFailed{message.migration, "the migration was cancelled"});
  switch (now_.phase) {
    case WorkerPhase::kRunning:
      pause_wanted_ = message.migration;
      return;
    case WorkerPhase::kRestored:
      if (now_.successor_of == message.migration) break;
      [[fallthrough]];
    case WorkerPhase::kPaused:
      pause_wanted_ = message.migration;
      return paused();
    case WorkerPhase::kRetired:
    case WorkerPhase::kWaiting:
      break;
  }
  say(WorkerFailed{message.migration, "cannot pause: is " + std::string(name_of(now_.phase))});
}

void Hook::take_resume_message(const AgentResume& message) {
  if (now_.phase == WorkerPhase::kRunning && now_.generation == message.migration) {
    if (stepped_ == message.migration) say(WorkerStepped{stepped_, now_.iteration});
    return;
  }
  if (now_.phase != WorkerPhase::kPaused && now_.phase != WorkerPhase::kRestored) {
    return say(
        WorkerFailed{message.migration, "cannot resume: is " + std::string(name_of(now_.phase))});
  }
  now_.phase = WorkerPhase::kRunning;
  now_.generation = message.migration;
  now_.successor_of.clear();
  now_.migration.clear();
  resume_ = message;
}

void Hook::take_cancel(const AgentCancel& message) {
  if (now_.successor_of == message.migration) {
    released_ = true;
    return;
  }
  if (now_.phase == WorkerPhase::kRetired) {
    return say(WorkerFailed{message.migration, "is retired"});
  }
  cancelled_.push_back(message.migration);
  if (cancelled_.size() > 16) cancelled_.pop_front();
  if (pause_wanted_ == message.migration) pause_wanted_.clear();
  if (now_.phase == WorkerPhase::kPaused && now_.successor_of.empty() &&
      (now_.migration == message.migration || now_.migration.empty())) {
    now_.phase = WorkerPhase::kRunning;
    now_.migration.clear();
  }
  say(WorkerCancelled{message.migration});
}

void Hook::take(const ToWorker& message) {
  if (const auto* welcome = std::get_if<AgentWelcome>(&message)) {
    welcome_ = *welcome;
  } else if (std::holds_alternative<AgentRefused>(message)) {
    socket_.reset();
    next_try_ = steady_clock::now() + 10 * kRetry;
  } else if (const auto* pause = std::get_if<AgentPause>(&message)) {
    take_pause(*pause);
  } else if (const auto* restore = std::get_if<AgentRestore>(&message)) {
    if (now_.phase == WorkerPhase::kRestored) {
      say(WorkerRestored{restore->migration, now_.iteration});
    } else if (now_.phase == WorkerPhase::kWaiting) {
      restore_ = *restore;
    } else {
      say(WorkerFailed{restore->migration, "is no successor"});
    }
  } else if (const auto* resume = std::get_if<AgentResume>(&message)) {
    take_resume_message(*resume);
  } else if (const auto* retire = std::get_if<AgentRetire>(&message)) {
    if (now_.phase == WorkerPhase::kPaused) {
      now_.phase = WorkerPhase::kRetired;
      now_.migration = retire->migration;
    }
  } else if (const auto* release = std::get_if<AgentRelease>(&message)) {
    if (now_.phase == WorkerPhase::kRunning) {
      say(WorkerFailed{release->migration, "runs"});
    } else {
      released_ = true;
    }
  } else if (const auto* cancel = std::get_if<AgentCancel>(&message)) {
    take_cancel(*cancel);
  }
}

}  // namespace monkeytree
