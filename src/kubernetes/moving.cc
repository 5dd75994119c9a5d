#include "kubernetes/moving.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "base/json.h"
#include "base/status.h"
#include "kubernetes/grouping.h"
#include "kubernetes/kueue_moves.h"
#include "kubernetes/moving_calls.h"
#include "kubernetes/reading.h"

namespace monkeytree {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;
using simdjson::dom::element;

/// Most often the scheduler has seen a taint by then.
constexpr milliseconds kSettle{1000};
/// Less than the webhook's timeoutSeconds.
constexpr milliseconds kAdmissionWait{8000};
/// What booked() names where a job lives but is on no node.
constexpr std::string_view kNowhere = "@staging";

absl::Status taken(const std::string& node, const std::string& by) {
  return absl::AbortedError(fmt::format("node {} is taken by pod {}", node, printable(by)));
}

/// Pods of one namespace.
template <class Use>
void each_pod(const KubeFacts& facts, const std::string& space, Use use) {
  const std::string prefix = space + "/";
  for (auto at = facts.pods.lower_bound(prefix); at != facts.pods.end(); ++at) {
    if (!at->first.starts_with(prefix)) break;
    use(at->second);
  }
}

/// "ml" of the job "ml.statefulset.a".
std::string space_of(const std::string& job) { return job.substr(0, job.find('.')); }

}  // namespace

KubeMoving::KubeMoving(const KubeAccess& access, const KubeClusterWatch& watch, std::string space,
                       KubeReadRules rules)
    : access_(access),
      watch_(watch),
      space_(std::move(space)),
      rules_(std::move(rules)),
      credentials_(access_) {}

absl::Status KubeMoving::load(Deadline deadline) {
  {
    const std::lock_guard lock(mutex_);
    if (loaded_) return absl::OkStatus();
  }
  KubeCalls calls(access_, credentials_, deadline);
  const absl::StatusOr<element> list =
      calls.get(fmt::format("/api/v1/namespaces/{}/configmaps?labelSelector="
                            "app.kubernetes.io%2Fmanaged-by%3Dmonkeytree",
                            space_));
  if (!list.ok()) return with_context(list.status(), "moves under way");
  const std::lock_guard lock(mutex_);
  for (const element object : kube_items(kube_at(*list, {"items"}))) {
    if (std::optional<KubeMove> move = read_kube_move(object)) moves_[move->id] = *move;
  }
  loaded_ = true;
  changed_.notify_all();
  return absl::OkStatus();
}

absl::Status KubeMoving::ready() const {
  const std::lock_guard lock(mutex_);
  return loaded_ ? absl::OkStatus() : absl::UnavailableError("moves under way are not known yet");
}

void KubeMoving::stop() {
  const std::lock_guard lock(mutex_);
  stopped_ = true;
  changed_.notify_all();
}

std::optional<KubeMove> KubeMoving::find(const WorkerName& worker) const {
  const std::lock_guard lock(mutex_);
  const auto found = moves_.find(kube_move_id(worker));
  return found == moves_.end() ? std::nullopt : std::optional(found->second);
}

absl::Status KubeMoving::write(KubeCalls& calls, KubeMove move) {
  const std::string folder = fmt::format("/api/v1/namespaces/{}/configmaps", space_);
  const bool fresh = move.version.empty();
  const std::string path = fresh ? folder : folder + "/" + move.id;
  absl::Status written = calls.change(fresh ? "POST" : "PUT", path, write_kube_move(move, space_));
  std::optional<KubeMove> now = move;
  if (written.ok()) {
    now->version = calls.version_of_answer();
  } else if (absl::IsAborted(written) || absl::IsNotFound(written)) {
    // It is not as we know it: from now on we know it as it is.
    const absl::StatusOr<element> object = calls.get(folder + "/" + move.id);
    if (!object.ok() && !absl::IsNotFound(object.status())) return object.status();
    now = object.ok() ? read_kube_move(*object) : std::nullopt;
  } else {
    return written;
  }
  const std::lock_guard lock(mutex_);
  if (now) {
    moves_[move.id] = *std::move(now);
  } else {
    moves_.erase(move.id);
  }
  changed_.notify_all();
  return with_context(written, "the object of the move is not as it was left");
}

absl::Status KubeMoving::erase(KubeCalls& calls, const KubeMove& move) {
  if (!move.to.empty()) {
    if (absl::Status status = calls.clear_taint(move.to, move.id); !status.ok()) return status;
  }
  absl::Status gone = calls.change(
      "DELETE", fmt::format("/api/v1/namespaces/{}/configmaps/{}", space_, move.id), "");
  if (!gone.ok() && !absl::IsNotFound(gone)) return gone;
  const std::lock_guard lock(mutex_);
  moves_.erase(move.id);
  changed_.notify_all();
  return absl::OkStatus();
}

absl::Status KubeMoving::finish(KubeCalls& calls, const KubeMove& move) {
  if (absl::Status status = erase(calls, move); !status.ok()) return status;
  // Of a Job without indices another new pod may have been sent there as well, and waits in vain.
  for (const KubePod& pod : successors(move).sent) {
    if (!pod.node.empty()) continue;
    calls.evict(pod.space, pod.name, pod.uid, /*wait=*/false).IgnoreError();
  }
  return absl::OkStatus();
}

absl::StatusOr<KubeMove> KubeMoving::leaving(const WorkerName& worker, const std::string& node,
                                             const std::vector<std::string>& order) const {
  std::vector<const KubePod*> there, lost;
  absl::StatusOr<KubeMove> out = absl::UnavailableError(
      fmt::format("job {} has no pod on {}, nor another for the worker", worker.job, node));
  watch_.with_facts([&](const KubeFacts& facts) {
    std::vector<const KubePod*> all;
    each_pod(facts, space_of(worker.job), [&](const KubePod& pod) {
      if (place_of(pod, facts).job != worker.job) return;
      all.push_back(&pod);
      if (pod.node == node) there.push_back(&pod);
      // It has lost its node, and its owner has made another that is anywhere.
      const bool of_another = std::find(order.begin(), order.end(), pod.node) != order.end();
      if (pod.node != node && !of_another && !pod.terminating) lost.push_back(&pod);
    });
    const std::vector<const KubePod*>& found = there.empty() ? lost : there;
    if (found.size() != 1) return;
    const KubePod& pod = *found.front();
    KubeMove move;
    move.id = kube_move_id(worker);
    move.worker = worker;
    move.space = pod.space;
    move.owner = pod.owner;
    move.pod = pod.name;
    move.uid = pod.uid;
    move.from = node;
    move.index = pod.mark(kIndexAnnotation);
    move.place = pod.annotations.get(kPlaceAnnotation).value_or(pod.name);
    for (const KubePod* other : all) {
      if (other != &pod && other->owner == pod.owner) move.siblings += other->uid + " ";
    }
    out = std::move(move);
  });
  return out;
}

absl::Status KubeMoving::give_back(const WorkerName& worker, const std::string& node,
                                   const std::vector<std::string>& order, Deadline deadline) {
  if (absl::Status status = ready(); !status.ok()) return status;
  KubeCalls calls(access_, credentials_, deadline);
  std::optional<KubeMove> move = find(worker);
  if (node.empty()) return move ? finish(calls, *move) : absl::OkStatus();
  if (!move) {
    absl::StatusOr<KubeMove> found = leaving(worker, node, order);
    if (!found.ok()) return found.status();
    if (absl::Status status = write(calls, *found); !status.ok()) return status;
    move = find(worker);
  }
  if (!move || move->from != node) {
    return absl::AbortedError(
        fmt::format("the object of the move is of another node than {}", node));
  }
  return calls.evict(move->space, move->pod, move->uid, /*wait=*/true);
}

absl::StatusOr<Hold> KubeMoving::hold(const WorkerName& worker, const std::string& node,
                                      const std::string& reservation, Deadline deadline) {
  if (absl::Status status = ready(); !status.ok()) return status;
  const std::optional<KubeMove> known = find(worker);
  if (!known) {
    return absl::FailedPreconditionError(fmt::format(
        "worker {} has not left its pod: pods are replaced, their state goes by staging",
        to_string(worker)));
  }
  if (known->to == node) return Hold{known->id, worker, node};
  KubeCalls calls(access_, credentials_, deadline);
  absl::StatusOr<std::string> hostname = calls.fit_node(node);
  if (!hostname.ok()) return hostname.status();
  absl::Status tainted = calls.set_taint(node, reservation.empty() ? known->id : reservation);
  if (!tainted.ok()) return tainted;
  const absl::StatusOr<std::vector<KubePod>> there = calls.pods_on(node, rules_);
  if (!there.ok()) return there.status();
  for (const KubePod& pod : *there) {
    const bool own = pod.annotations.get(kSuccessorAnnotation).has_value() &&
                     known->replaced_by(pod.owner, pod.space, pod.name, pod.mark(kIndexAnnotation));
    if (own) continue;
    if (reservation.empty()) calls.clear_taint(node, known->id).IgnoreError();
    return taken(node, pod.key());
  }
  KubeMove move = *known;
  move.to = node;
  move.hostname = *std::move(hostname);
  move.successor_of.clear();
  if (absl::Status status = write(calls, move); !status.ok()) return status;
  if (!known->to.empty()) calls.clear_taint(known->to, known->id).IgnoreError();
  return Hold{known->id, worker, node};
}

KubeMoving::Successors KubeMoving::successors(const KubeMove& move) const {
  Successors out;
  watch_.with_facts([&](const KubeFacts& facts) {
    each_pod(facts, move.space, [&](const KubePod& pod) {
      if (pod.terminating || pod.uid == move.uid) return;
      if (!move.replaced_by(pod.owner, pod.space, pod.name, pod.mark(kIndexAnnotation))) return;
      if (pod.annotations.get(kSuccessorAnnotation) == move.successor_of) {
        out.sent.push_back(pod);
      } else if (move.siblings.find(pod.uid + " ") == std::string::npos) {
        out.others.push_back(pod);
      }
    });
    const auto node = facts.nodes.find(move.to);
    if (node == facts.nodes.end()) {
      out.node_fault = fmt::format("node {} is gone", move.to);
    } else if (!node->second.ready || node->second.unschedulable) {
      out.node_fault = fmt::format("node {} takes no pods", move.to);
    }
    if (!owner_lives(facts, move)) out.node_fault = "the job has ended";
  });
  std::stable_sort(out.sent.begin(), out.sent.end(), [](const KubePod& a, const KubePod& b) {
    return !a.node.empty() && b.node.empty();
  });
  return out;
}

absl::Status KubeMoving::start(const Hold& hold, const WorkerCommand& command, Deadline deadline) {
  if (absl::Status status = ready(); !status.ok()) return status;
  std::optional<KubeMove> move = find(hold.worker);
  if (!move || move->to != hold.node) {
    return absl::NotFoundError(
        fmt::format("worker {} is not to go to {} any more", to_string(hold.worker), hold.node));
  }
  const auto migration = command.environment.find("MONKEYTREE_SUCCESSOR_OF");
  if (migration == command.environment.end()) {
    return absl::InvalidArgumentError("the successor is of no migration");
  }
  KubeCalls calls(access_, credentials_, deadline);
  if (absl::Status status = follow_in_kueue(calls, watch_, *move); !status.ok()) return status;
  if (move->successor_of != migration->second) {
    move->successor_of = migration->second;
    if (absl::Status status = write(calls, *move); !status.ok()) return status;
  }
  while (true) {
    Successors now = successors(*move);
    for (const KubePod& other : now.others) {
      // Made while nobody told it where to go, or for another try.
      absl::Status status = calls.evict(other.space, other.name, other.uid, /*wait=*/false);
      if (!status.ok()) return status;
    }
    for (size_t i = 1; i < now.sent.size(); ++i) {
      absl::Status status =
          calls.evict(now.sent[i].space, now.sent[i].name, now.sent[i].uid, /*wait=*/false);
      if (!status.ok()) return status;
    }
    if (!now.sent.empty() && !now.sent.front().node.empty()) {
      return calls.verify_landed(now.sent.front(), hold.node);
    }
    if (!now.node_fault.empty()) return absl::FailedPreconditionError(now.node_fault);
    if (!pause_until(deadline)) {
      return absl::DeadlineExceededError(
          now.sent.empty()
              ? fmt::format("{} {} has made no pod in place of {}", move->owner.kind,
                            move->owner.name, move->pod)
              : fmt::format("pod {} has not been bound to {}", now.sent.front().name, hold.node));
    }
  }
}

absl::Status KubeMoving::evict_sent(KubeCalls& calls, const KubeMove& move) const {
  if (move.successor_of.empty()) return absl::OkStatus();
  for (const KubePod& pod : successors(move).sent) {
    absl::Status status = calls.evict(pod.space, pod.name, pod.uid, /*wait=*/false);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status KubeMoving::cancel(const Hold& hold, Deadline deadline) {
  if (absl::Status status = ready(); !status.ok()) return status;
  std::optional<KubeMove> move = find(hold.worker);
  if (!move || move->to != hold.node) return absl::OkStatus();
  KubeCalls calls(access_, credentials_, deadline);
  bool lives = false;
  watch_.with_facts([&](const KubeFacts& facts) { lives = owner_lives(facts, *move); });
  // Asked again: nobody has its state any more, so that its owner may make it anew, anywhere.
  if (!lives || move->to.empty()) return erase(calls, *move);
  if (absl::Status status = evict_sent(calls, *move); !status.ok()) return status;
  if (absl::Status status = calls.clear_taint(move->to, move->id); !status.ok()) return status;
  move->to.clear();
  move->hostname.clear();
  move->successor_of.clear();
  return write(calls, *move);
}

absl::Status KubeMoving::reserve(const std::string& name, const std::vector<std::string>& nodes,
                                 Deadline deadline) {
  if (absl::Status status = ready(); !status.ok()) return status;
  KubeCalls calls(access_, credentials_, deadline);
  for (const std::string& node : nodes) {
    const absl::StatusOr<std::vector<KubePod>> there = calls.pods_on(node, rules_);
    if (!there.ok()) return there.status();
    std::set<std::string> uids;
    for (const KubePod& pod : *there) uids.insert(pod.uid);
    {
      const std::lock_guard lock(mutex_);
      reserved_[name].try_emplace(node, std::move(uids));
    }
    if (absl::Status status = calls.set_taint(node, name); !status.ok()) return status;
  }
  // The scheduler may have chosen one of them before it saw the taint. Better to know now than when
  // a job stands still; hold() looks again.
  std::this_thread::sleep_for(kSettle);
  for (const std::string& node : nodes) {
    const absl::StatusOr<std::vector<KubePod>> there = calls.pods_on(node, rules_);
    if (!there.ok()) return there.status();
    const std::lock_guard lock(mutex_);
    for (const KubePod& pod : *there) {
      const bool ours = pod.annotations.get(kSuccessorAnnotation).has_value();
      const bool known = ours || reserved_[name][node].contains(pod.uid);
      if (!known) return taken(node, pod.key());
    }
  }
  return absl::OkStatus();
}

absl::Status KubeMoving::unreserve(const std::string& name, Deadline deadline) {
  if (absl::Status status = ready(); !status.ok()) return status;
  std::set<std::string> nodes;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [node, pods] : reserved_[name]) nodes.insert(node);
  }
  watch_.with_facts([&](const KubeFacts& facts) {
    for (const auto& [node, known] : facts.nodes) {
      for (const KubeTaint& taint : known.taints) {
        if (taint.key == kHoldTaint && taint.value == name) nodes.insert(node);
      }
    }
  });
  KubeCalls calls(access_, credentials_, deadline);
  for (const std::string& node : nodes) {
    if (absl::Status status = calls.clear_taint(node, name); !status.ok()) return status;
  }
  const std::lock_guard lock(mutex_);
  reserved_.erase(name);
  return absl::OkStatus();
}

bool KubeMoving::owner_lives(const KubeFacts& facts, const KubeMove& move) const {
  for (const KubeKindRow& row : kube_kinds()) {
    if (!move.owner.is(row.name, row.group)) continue;
    const KubeOwner* owner =
        facts.owner(row.kind, fmt::format("{}/{}", move.space, move.owner.name));
    return owner != nullptr && !owner->ended;
  }
  return false;
}

absl::StatusOr<std::vector<std::string>> KubeMoving::booked(const std::string& job,
                                                            Deadline /*deadline*/) const {
  if (absl::Status status = ready(); !status.ok()) return status;
  std::vector<KubeMove> moves;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, move] : moves_) {
      if (move.worker.job == job) moves.push_back(move);
    }
  }
  std::set<std::string> nodes;
  bool lives = false;
  watch_.with_facts([&](const KubeFacts& facts) {
    each_pod(facts, space_of(job), [&](const KubePod& pod) {
      const bool left = std::any_of(moves.begin(), moves.end(),
                                    [&](const KubeMove& move) { return move.uid == pod.uid; });
      if (!left && !pod.node.empty() && place_of(pod, facts).job == job) nodes.insert(pod.node);
    });
    for (const KubeMove& move : moves) {
      if (!owner_lives(facts, move)) continue;
      lives = true;
      if (!move.to.empty()) nodes.insert(move.to);
    }
  });
  if (nodes.empty() && lives) nodes.emplace(kNowhere);
  return std::vector<std::string>(nodes.begin(), nodes.end());
}

void KubeMoving::add_to(Observation& out) const {
  std::vector<KubeMove> moves;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, move] : moves_) moves.push_back(move);
  }
  std::set<std::string> reservations;
  watch_.with_facts([&](const KubeFacts& facts) {
    for (const KubeMove& move : moves) {
      (owner_lives(facts, move) ? out.holds : out.orphans)
          .push_back({move.id, move.worker, move.to});
    }
    for (const auto& [name, node] : facts.nodes) {
      for (const KubeTaint& taint : node.taints) {
        const bool of_move = taint.value.starts_with("move-");
        if (taint.key == kHoldTaint && !of_move) reservations.insert(taint.value);
      }
    }
  });
  out.reservations.assign(reservations.begin(), reservations.end());
}

std::string KubeMoving::answer(const std::string& review) {
  std::string uid;
  const std::optional<KubeAdmission> asked = read_kube_admission(review, uid);
  if (!asked) return uid.empty() ? "" : admit(uid);
  const Deadline limit = Clock::now() + kAdmissionWait;
  std::unique_lock lock(mutex_);
  const auto concerned = [&]() -> const KubeMove* {
    for (const auto& [id, move] : moves_) {
      if (move.replaced_by(asked->owner, asked->space, asked->name, asked->index)) return &move;
    }
    return nullptr;
  };
  while (true) {
    const KubeMove* move = concerned();
    if (loaded_ && move == nullptr) return admit(uid);
    if (move != nullptr && !move->successor_of.empty()) return admit_to(review, *move);
    if (stopped_ || changed_.wait_until(lock, limit) == std::cv_status::timeout) {
      if (stopped_ || Clock::now() >= limit) break;
    }
  }
  return refuse_admission(uid, loaded_
                                   ? "its worker is between two nodes; it is not known yet where to"
                                   : "moves under way are not known yet");
}

}  // namespace monkeytree
