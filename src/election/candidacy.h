#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace monkeytree {

/// Who leads, as etcd's key of the leader says.
struct Leader {
  std::string name, address;  ///< of the controller; where it answers people
  int64_t lease = 0;          ///< that keeps the key; 0: there is no leader
  int64_t token = 0;          ///< the key's create_revision: no two leaders have the same
  friend bool operator==(const Leader&, const Leader&) = default;
};

/// What one candidate knows of its lease and of who leads, and what it does next. Pure: times come
/// in, from a clock that nobody sets and that goes on while the machine sleeps.
///
/// The lease is counted from when it was asked for, so that it ends here before it ends in etcd,
/// and a part of it is kept as a margin. Once it has ended here it leads no more, whatever etcd
/// would say; when the lease turns out to live, or a new one wins, that is a new term.
class Candidacy {
 public:
  using Time = std::chrono::milliseconds;  ///< of that clock

  explicit Candidacy(Time lease);

  enum class Act : uint8_t {
    kGrant,      ///< ask for a lease
    kKeepAlive,  ///< ask for more of it
    kCampaign,   ///< take the leader's key if nobody has it, otherwise see who has
  };
  struct Next {
    Act act;
    Time when;
  };
  Next next() const;

  // Answers. `asked`: when the question was sent; `now`: when the answer came.

  void granted(int64_t lease, Time ttl, Time asked, Time now);
  /// `ttl` 0: etcd does not know the lease any more.
  void kept(Time ttl, Time asked, Time now);
  void found(const Leader& leader, Time asked, Time now);
  /// No answer, or no good one; `what` is tried again.
  void failed(Act what, Time now);
  /// A write was refused because another leads than `token`.
  void disowned(int64_t token, Time now);
  /// The lease was given up.
  void resigned(Time now);

  /// 0 where it does not lead at that time.
  int64_t token(Time now) const { return now < until_ ? token_ : 0; }
  /// How long it may go on as the leader; 0 where it does not lead.
  Time left(Time now) const { return token(now) == 0 ? Time(0) : until_ - now; }
  /// Ascends; a new one each time it begins to lead.
  uint64_t term() const { return term_; }
  int64_t lease() const { return lease_; }
  const Leader& leader() const { return leader_; }

  /// A whole lease, and the parts that it is cut into.
  Time length() const { return length_; }
  Time keep_every() const { return length_ / 4; }
  Time look_every() const { return length_ / 16; }
  Time margin() const { return length_ / 8; }

 private:
  void settle(Time now);

  Time length_;
  int64_t lease_ = 0, token_ = 0;
  uint64_t term_ = 0;
  Time until_{0};                   ///< the lease is good before that
  Time keep_due_{0}, look_due_{0};  ///< when to ask next
  Leader leader_;
};

}  // namespace monkeytree
