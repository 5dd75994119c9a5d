#include "service/event_feed.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "service/api_json.h"

namespace monkeytree {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kAtOnce = 100;     ///< events read from the journal
constexpr size_t kRecent = 512;  ///< events kept in memory
constexpr size_t kLongText = 8 << 10;
constexpr size_t kLongData = 16 << 10;
constexpr std::chrono::milliseconds kLongestTurn{1000};

}  // namespace

std::string sse_text(const Event& event) {
  // What is sent must fit into what may wait for a client.
  Event sent = event;
  if (sent.data.size() > kLongData) sent.data = "{}";
  if (sent.text.size() > kLongText) {
    sent.text.resize(kLongText);
    sent.text += " ...";
  }
  // A kind of ours is a word or two; a line's end in it would end the field.
  std::string kind = sent.kind;
  std::replace_if(
      kind.begin(), kind.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; }, ' ');
  return fmt::format("id: {}\nevent: {}\ndata: {}\n\n", sent.id, kind, event_json(sent));
}

EventFeed::EventFeed(const Journal& journal, Settings settings, std::function<void()> on_turn)
    : journal_(journal), settings_(settings), on_turn_(std::move(on_turn)) {
  const absl::StatusOr<std::vector<Event>> events = journal_.newest_events(1);
  if (events.ok() && !events->empty()) newest_ = events->back().id;
  thread_ = std::jthread([this](const std::stop_token& stop) { loop(stop); });
}

EventFeed::~EventFeed() = default;

void EventFeed::poke() {
  {
    const std::lock_guard lock(poke_mutex_);
    poked_ = true;
  }
  poke_.notify_one();
}

std::shared_ptr<HttpStream> EventFeed::listen(int64_t after) {
  std::shared_ptr<HttpStream> stream;
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(clients_, [](const Client& client) { return client.stream->gone(); });
    if (clients_.size() >= settings_.clients) return nullptr;
    stream = std::make_shared<HttpStream>(settings_.buffer);
    // An id from another journal, longer than ours, is not waited for.
    const int64_t seen = after < 0 ? newest_ : std::min(after, newest_);
    clients_.push_back({stream, seen, Clock::now()});
  }
  poke();
  return stream;
}

size_t EventFeed::clients() const {
  const std::lock_guard lock(mutex_);
  return clients_.size();
}

void EventFeed::loop(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    {
      std::unique_lock lock(poke_mutex_);
      poke_.wait_for(lock, stop, std::min(kLongestTurn, settings_.heartbeat),
                     [this] { return poked_; });
      poked_ = false;
    }
    if (stop.stop_requested()) return;
    {
      const std::lock_guard lock(mutex_);
      turn();
    }
    if (on_turn_) on_turn_();
  }
}

void EventFeed::turn() {
  while (true) {
    const absl::StatusOr<std::vector<Event>> events = journal_.events_after(newest_, kAtOnce);
    if (!events.ok() || events->empty()) break;
    for (const Event& event : *events) {
      recent_.push_back(event);
      if (recent_.size() > kRecent) recent_.pop_front();
      newest_ = event.id;
    }
  }
  std::erase_if(clients_, [](const Client& client) { return client.stream->gone(); });
  for (Client& client : clients_) feed(client);
}

void EventFeed::feed(Client& client) {
  const Clock::time_point now = Clock::now();
  while (client.seen < newest_) {
    const std::vector<Event> events = after(client.seen);
    if (events.empty()) break;
    for (const Event& event : events) {
      if (!client.stream->write(sse_text(event))) return;  // full: the next turn goes on
      client.seen = event.id;
      client.heard = now;
    }
  }
  if (now - client.heard < settings_.heartbeat) return;
  if (client.stream->write(": still here\n\n")) client.heard = now;
}

std::vector<Event> EventFeed::after(int64_t id) const {
  if (!recent_.empty() && recent_.front().id <= id + 1) {
    const auto first = std::find_if(recent_.begin(), recent_.end(),
                                    [&](const Event& event) { return event.id > id; });
    return {first, recent_.end()};
  }
  return journal_.events_after(id, kAtOnce).value_or(std::vector<Event>());
}

}  // namespace monkeytree
