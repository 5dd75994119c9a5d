#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "control/journal.h"
#include "service/http_server.h"

namespace monkeytree {

/// An event as a server-sent one: id, kind and a line of JSON.
std::string sse_text(const Event& event);

/// Sends the journal's events to whoever listens. The journal is the queue: each client has its
/// own place in it, a slow one lags behind and keeps nobody waiting, one that comes back goes on
/// from the id it saw last.
class EventFeed {
 public:
  struct Settings {
    std::chrono::milliseconds heartbeat{15'000};  ///< a comment, so that both ends notice a break
    size_t clients = 256;
    size_t buffer = 64 << 10;  ///< bytes that wait for a client
  };

  /// `on_turn` is called by the feed's thread after each turn, at the latest after a second.
  EventFeed(const Journal& journal, Settings settings, std::function<void()> on_turn = {});
  ~EventFeed();
  EventFeed(const EventFeed&) = delete;
  EventFeed& operator=(const EventFeed&) = delete;

  /// There may be new events, or room for them. Never blocks.
  void poke();

  /// A new listener, from the event after `after`; from those that come from now on where it is
  /// negative. Null where there are too many.
  std::shared_ptr<HttpStream> listen(int64_t after);

  size_t clients() const;

 private:
  struct Client {
    std::shared_ptr<HttpStream> stream;
    int64_t seen = 0;
    std::chrono::steady_clock::time_point heard;  ///< when something was last sent to it
  };

  void loop(const std::stop_token& stop);
  // With mutex_ held.
  void turn();
  void feed(Client& client);
  std::vector<Event> after(int64_t id) const;

  const Journal& journal_;
  const Settings settings_;
  const std::function<void()> on_turn_;

  mutable std::mutex mutex_;
  std::vector<Client> clients_;
  std::deque<Event> recent_;  ///< the newest, oldest first, so that the journal is read once
  int64_t newest_ = 0;        ///< id of the last event seen

  std::mutex poke_mutex_;
  std::condition_variable_any poke_;
  bool poked_ = true;
  std::jthread thread_;
};

}  // namespace monkeytree
