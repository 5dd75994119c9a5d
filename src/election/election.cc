#include "election/election.h"

#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/status.h"

namespace monkeytree {
namespace {

using std::chrono::milliseconds;
using Json = nlohmann::ordered_json;

std::string value_of(const ElectionSettings& settings) {
  return Json{{"name", settings.name}, {"address", settings.address()}}.dump(
      -1, ' ', false, Json::error_handler_t::replace);
}

Leader leader_of(const EtcdPair& pair) {
  Leader leader;
  leader.lease = pair.lease;
  leader.token = pair.created;
  const Json json = Json::parse(pair.value, nullptr, false);
  const auto text = [&](const char* key) {
    const auto found = json.is_object() ? json.find(key) : json.end();
    return found != json.end() && found->is_string() ? found->get<std::string>() : "";
  };
  leader.name = text("name");
  leader.address = text("address");
  return leader;
}

}  // namespace

Candidacy::Time lease_clock() {
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return milliseconds(now.tv_sec * 1000 + now.tv_nsec / 1'000'000);
}

Election::Election(Etcd& etcd, ElectionSettings settings, std::function<void()> changed)
    : etcd_(etcd),
      settings_(std::move(settings)),
      changed_(std::move(changed)),
      candidacy_(settings_.lease) {}

void Election::start() {
  thread_ = std::thread([this] { run(); });
}

Election::~Election() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    wake_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

milliseconds Election::call_limit() const { return milliseconds(settings_.lease) / 4; }

int64_t Election::token() const {
  const std::lock_guard lock(mutex_);
  return candidacy_.token(settings_.clock());
}

milliseconds Election::left() const {
  const std::lock_guard lock(mutex_);
  return candidacy_.left(settings_.clock());
}

Election::View Election::view() const {
  const std::lock_guard lock(mutex_);
  const Candidacy::Time now = settings_.clock();
  return {candidacy_.token(now), candidacy_.term(), candidacy_.left(now), candidacy_.leader(),
          trouble_};
}

void Election::disowned(int64_t token) {
  const std::lock_guard lock(mutex_);
  candidacy_.disowned(token, settings_.clock());
  wake_.notify_all();
}

void Election::resign() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    wake_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
  int64_t lease = 0;
  {
    const std::lock_guard lock(mutex_);
    lease = candidacy_.lease();
    candidacy_.resigned(settings_.clock());
  }
  if (lease != 0) etcd_.revoke(lease, call_limit()).IgnoreError();
}

void Election::run() {
  while (true) {
    Candidacy::Act act{};
    {
      std::unique_lock lock(mutex_);
      const Candidacy::Next next = candidacy_.next();
      const Candidacy::Time now = settings_.clock();
      // Woken also to notice that the lease has ended here.
      Candidacy::Time wait = next.when - now;
      if (const Candidacy::Time left = candidacy_.left(now); left > Candidacy::Time(0)) {
        wait = std::min(wait, left);
      }
      if (!stopping_ && wait > Candidacy::Time(0)) wake_.wait_for(lock, wait);
      if (stopping_) return;
      act = next.act;
      if (settings_.clock() < candidacy_.next().when) {
        lock.unlock();
        if (tell_changes()) changed_();
        continue;
      }
    }
    std::string trouble = this->act(act);
    {
      const std::lock_guard lock(mutex_);
      trouble_ = std::move(trouble);
    }
    if (tell_changes()) changed_();
  }
}

bool Election::tell_changes() {
  const View now = view();
  const std::lock_guard lock(mutex_);
  const bool news = (now.token != told_.token) || now.term != told_.term ||
                    now.leader != told_.leader || now.trouble.empty() != told_.trouble.empty();
  told_ = now;
  return news;
}

std::string Election::act(Candidacy::Act what) {
  const Candidacy::Time asked = settings_.clock();
  if (what == Candidacy::Act::kCampaign) return campaign();
  int64_t lease = 0;
  milliseconds limit = call_limit();
  {
    const std::lock_guard lock(mutex_);
    lease = candidacy_.lease();
    // Back in time to notice that the lease has ended here.
    if (const auto left = candidacy_.left(asked); left > milliseconds(0)) {
      limit = std::min(limit, left);
    }
  }
  absl::Status status;
  if (what == Candidacy::Act::kGrant) {
    const absl::StatusOr<EtcdLease> granted = etcd_.grant(settings_.lease, limit);
    status = granted.status();
    const std::lock_guard lock(mutex_);
    if (granted.ok()) {
      candidacy_.granted(granted->id, granted->ttl, asked, settings_.clock());
    } else {
      candidacy_.failed(what, settings_.clock());
    }
  } else {
    const absl::StatusOr<std::chrono::seconds> left = etcd_.keep_alive(lease, limit);
    status = left.status();
    const std::lock_guard lock(mutex_);
    if (left.ok()) {
      candidacy_.kept(*left, asked, settings_.clock());
    } else {
      candidacy_.failed(what, settings_.clock());
    }
  }
  return status.ok() ? "" : std::string(message_of(status));
}

std::string Election::campaign() {
  const Candidacy::Time asked = settings_.clock();
  int64_t lease = 0;
  {
    const std::lock_guard lock(mutex_);
    lease = candidacy_.lease();
  }
  EtcdChange change;
  change.where = {{leader_key(), EtcdChange::Revision::kCreated, 0}};
  change.puts = {{leader_key(), value_of(settings_), lease}};
  change.otherwise = {{leader_key(), ""}};
  const absl::StatusOr<EtcdOutcome> outcome = etcd_.change(change, call_limit());
  const std::lock_guard lock(mutex_);
  const Candidacy::Time now = settings_.clock();
  if (!outcome.ok()) {
    candidacy_.failed(Candidacy::Act::kCampaign, now);
    // A lease that has just ended, for example: whether it lives is asked next.
    return std::string(message_of(outcome.status()));
  }
  Leader leader;
  if (outcome->done) {
    leader = {settings_.name, settings_.address(), lease, outcome->revision};
  } else if (!outcome->found.empty()) {
    leader = leader_of(outcome->found.front());
  }
  candidacy_.found(leader, asked, now);
  return "";
}

}  // namespace monkeytree
