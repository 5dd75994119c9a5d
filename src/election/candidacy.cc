#include "election/candidacy.h"

#include <algorithm>

namespace monkeytree {

Candidacy::Candidacy(Time lease) : length_(lease) {}

void Candidacy::settle(Time now) {
  if (now >= until_) token_ = 0;
}

Candidacy::Next Candidacy::next() const {
  if (lease_ == 0) return {Act::kGrant, keep_due_};
  if (keep_due_ <= look_due_) return {Act::kKeepAlive, keep_due_};
  return {Act::kCampaign, look_due_};
}

void Candidacy::granted(int64_t lease, Time ttl, Time asked, Time now) {
  token_ = 0;
  lease_ = lease;
  kept(ttl, asked, now);
  look_due_ = now;
}

void Candidacy::kept(Time ttl, Time asked, Time now) {
  settle(now);
  if (ttl <= Time(0)) {
    token_ = 0;
    lease_ = 0;
    keep_due_ = now;
    return;
  }
  // A lease that etcd made longer than was asked for does not make us act longer.
  until_ = asked + std::min(ttl, length_) - margin();
  settle(now);
  keep_due_ = asked + keep_every();
  // Whether the key is still ours is looked at as often, and at once where it is not known to be.
  look_due_ = now;
}

void Candidacy::found(const Leader& leader, Time asked, Time now) {
  settle(now);
  leader_ = leader;
  look_due_ = asked + look_every();
  if (lease_ == 0 || leader.lease != lease_ || now >= until_) {
    token_ = 0;
    return;
  }
  look_due_ = keep_due_ + Time(1);  // after the lease has been kept
  if (token_ == leader.token) return;
  token_ = leader.token;
  ++term_;
}

void Candidacy::failed(Act what, Time now) {
  settle(now);
  (what == Act::kCampaign ? look_due_ : keep_due_) = now + look_every();
}

void Candidacy::disowned(int64_t token, Time now) {
  if (token_ == token) token_ = 0;
  look_due_ = now;
}

void Candidacy::resigned(Time now) {
  token_ = 0;
  lease_ = 0;
  leader_ = {};
  keep_due_ = now + length_;  // others first
}

}  // namespace monkeytree
