#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "election/candidacy.h"
#include "election/etcd.h"

namespace monkeytree {

/// Milliseconds of a clock that nobody sets and that goes on while the machine sleeps.
Candidacy::Time lease_clock();

struct ElectionSettings {
  std::string prefix = "/monkeytree";                        ///< of all our keys in etcd
  std::string name;                                          ///< that the others are told
  std::function<std::string()> address = [] { return ""; };  ///< and where it answers people
  std::chrono::seconds lease{8};
  std::function<Candidacy::Time()> clock = lease_clock;
};

/// One candidate: takes the lead when nobody has it, keeps it as long as etcd answers, and knows by
/// its own clock when it has lost it. Thread-safe.
class Election {
 public:
  struct View {
    int64_t token = 0;                  ///< 0: it does not lead now
    uint64_t term = 0;                  ///< ascends each time it begins to lead
    std::chrono::milliseconds left{0};  ///< for which it may go on, as things are
    Leader leader;                      ///< as etcd said last
    std::string trouble;                ///< why etcd's word is not to be had, or ""
  };

  /// `changed` is called, from its thread and without a lock, when it begins to lead, when it leads
  /// no more, when another leads, and when etcd stops or begins to answer. `etcd` outlives it.
  /// It stands from start() on.
  Election(Etcd& etcd, ElectionSettings settings, std::function<void()> changed);
  void start();
  /// Without resigning: others lead when the lease has ended.
  ~Election();
  Election(const Election&) = delete;
  Election& operator=(const Election&) = delete;

  View view() const;
  /// 0 where it does not lead at this moment.
  int64_t token() const;
  std::chrono::milliseconds left() const;
  const ElectionSettings& settings() const { return settings_; }
  std::string leader_key() const { return settings_.prefix + "/leader"; }
  /// How long a call that keeps the election going may take.
  std::chrono::milliseconds call_limit() const;

  /// etcd has refused a write because another leads than who has the token.
  void disowned(int64_t token);
  /// Gives the lead to whoever wants it, at once, and does not stand any more.
  void resign();

 private:
  void run();
  /// Asks etcd what is to be asked next; the trouble with it, or "".
  std::string act(Candidacy::Act what);
  std::string campaign();
  bool tell_changes();

  Etcd& etcd_;
  const ElectionSettings settings_;
  const std::function<void()> changed_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  Candidacy candidacy_;
  std::string trouble_;
  View told_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace monkeytree
