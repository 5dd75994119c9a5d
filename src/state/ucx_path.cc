#include "state/ucx_path.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <deque>

#include "state/ucx_library.h"

namespace monkeytree {
namespace {

using std::chrono::duration_cast;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr size_t kUnderWay = 8;  // messages of 1 MiB: enough to hide the way there and back

absl::Status ucx_error(const UcxLibrary& ucx, std::string_view what, ucs_status_t status) {
  return absl::UnavailableError(fmt::format("UCX, {}: {}", what, ucx.status_string(status)));
}

class UcxPathOfTags final : public UcxPath {
 public:
  explicit UcxPathOfTags(const UcxLibrary& ucx) : ucx_(ucx) {}
  ~UcxPathOfTags() override { end(); }

  absl::Status open();
  const std::string& address() const override { return address_; }
  absl::Status connect(std::string_view address) override;
  absl::Status send(size_t count, const Next& next, const Then& then,
                    const Limits& limits) override;
  absl::Status receive(size_t count, const Next& next, const Then& then,
                       const Limits& limits) override;
  void end() override;

 private:
  /// What UCX has begun; null: it was done at once.
  struct Begun {
    size_t index;
    void* request;
  };

  absl::Status wait_for(void* request, std::string_view what, const Limits& limits);
  absl::StatusOr<bool> take_if_done(void* request, std::string_view what);
  absl::Status wait_a_little(steady_clock::time_point last, const Limits& limits);
  void give_up();

  const UcxLibrary& ucx_;
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  ucp_ep_h peer_ = nullptr;
  bool handles_errors_ = false;
  int events_ = -1;
  std::string address_;
  std::deque<Begun> begun_;
};

absl::Status UcxPathOfTags::open() {
  ucp_config_t* config = nullptr;
  ucs_status_t status = ucx_.config_read(nullptr, nullptr, &config);
  if (status != UCS_OK) return ucx_error(ucx_, "configuration", status);
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES;
  params.features = UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP;
  status = ucx_.init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, config, &context_);
  ucx_.config_release(config);
  if (status != UCS_OK) return ucx_error(ucx_, "start", status);
  ucp_worker_params_t worker{};
  worker.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  worker.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  status = ucx_.worker_create(context_, &worker, &worker_);
  if (status == UCS_OK) status = ucx_.worker_get_efd(worker_, &events_);
  ucp_address_t* address = nullptr;
  size_t bytes = 0;
  if (status == UCS_OK) status = ucx_.worker_get_address(worker_, &address, &bytes);
  if (status != UCS_OK) return ucx_error(ucx_, "devices", status);
  address_.assign(reinterpret_cast<const char*>(address), bytes);
  ucx_.worker_release_address(worker_, address);
  return absl::OkStatus();
}

absl::Status UcxPathOfTags::connect(std::string_view address) {
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(address.data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler.cb = [](void*, ucp_ep_h, ucs_status_t) {};  // its requests say so
  ucs_status_t status = ucx_.ep_create(worker_, &params, &peer_);
  handles_errors_ = status == UCS_OK;
  if (status == UCS_ERR_UNREACHABLE) {
    // Shared memory knows no failures of a peer; the control connection does.
    params.err_mode = UCP_ERR_HANDLING_MODE_NONE;
    status = ucx_.ep_create(worker_, &params, &peer_);
  }
  return status == UCS_OK ? absl::OkStatus() : ucx_error(ucx_, "connecting", status);
}

absl::StatusOr<bool> UcxPathOfTags::take_if_done(void* request, std::string_view what) {
  if (request == nullptr) return true;
  if (UCS_PTR_IS_ERR(request)) return ucx_error(ucx_, what, UCS_PTR_STATUS(request));
  const ucs_status_t status = ucx_.request_check_status(request);
  if (status == UCS_INPROGRESS) return false;
  ucx_.request_free(request);
  if (status != UCS_OK) return ucx_error(ucx_, what, status);
  return true;
}

// Sleeps until there may be something to do, where there is nothing at once.
absl::Status UcxPathOfTags::wait_a_little(steady_clock::time_point last, const Limits& limits) {
  if (ucx_.worker_progress(worker_) > 0) return absl::OkStatus();
  const auto now = steady_clock::now();
  if (now >= limits.deadline) return absl::DeadlineExceededError("the deadline of a transfer");
  if (now - last >= limits.idle) {
    return absl::UnavailableError(
        fmt::format("the peer showed no progress for {} ms", limits.idle.count()));
  }
  pollfd entries[2] = {{events_, POLLIN, 0}, {limits.control, POLLRDHUP, 0}};
  int longest_ms = 0;
  if (ucx_.worker_arm(worker_) == UCS_OK) {
    const auto left =
        std::min<steady_clock::duration>(limits.deadline - now, limits.idle - (now - last));
    longest_ms = static_cast<int>(
        std::clamp(duration_cast<milliseconds>(left), milliseconds(1), milliseconds(1000)).count());
  }
  if (poll(entries, limits.control < 0 ? 1 : 2, longest_ms) > 0 && entries[1].revents != 0) {
    return absl::UnavailableError("the peer closed the connection");
  }
  return absl::OkStatus();
}

absl::Status UcxPathOfTags::wait_for(void* request, std::string_view what, const Limits& limits) {
  const auto start = steady_clock::now();
  while (true) {
    const absl::StatusOr<bool> done = take_if_done(request, what);
    if (!done.ok() || *done) return done.status();
    if (absl::Status status = wait_a_little(start, limits); !status.ok()) {
      begun_.push_back({0, request});
      return status;
    }
  }
}

absl::Status UcxPathOfTags::send(size_t count, const Next& next, const Then& then,
                                 const Limits& limits) {
  const ucp_request_param_t params{};
  auto last = steady_clock::now();
  for (size_t i = 0; i < count || !begun_.empty();) {
    if (i < count && begun_.size() < kUnderWay) {
      const Message message = next(i);
      begun_.push_back({i, ucx_.tag_send_nbx(peer_, message.bytes.data(), message.bytes.size(),
                                             message.number, &params)});
      then(i++);
    }
    const absl::StatusOr<bool> done = take_if_done(begun_.front().request, "sending");
    if (!done.ok() || *done) begun_.pop_front();
    if (!done.ok()) return done.status();
    if (*done) {
      last = steady_clock::now();
    } else if (i == count || begun_.size() == kUnderWay) {
      if (absl::Status status = wait_a_little(last, limits); !status.ok()) return status;
    }
  }
  return wait_for(ucx_.ep_flush_nbx(peer_, &params), "sending", limits);
}

absl::Status UcxPathOfTags::receive(size_t count, const Next& next, const Then& then,
                                    const Limits& limits) {
  const ucp_request_param_t params{};
  auto last = steady_clock::now();
  for (size_t i = 0; i < count || !begun_.empty();) {
    while (i < count && begun_.size() < kUnderWay) {
      const Message message = next(i);
      begun_.push_back({i++, ucx_.tag_recv_nbx(worker_, message.bytes.data(), message.bytes.size(),
                                               message.number, UINT64_MAX, &params)});
    }
    const absl::StatusOr<bool> done = take_if_done(begun_.front().request, "receiving");
    const size_t index = begun_.front().index;
    if (!done.ok() || *done) begun_.pop_front();
    if (!done.ok()) return done.status();
    if (*done) {
      last = steady_clock::now();
      then(index);
    } else if (absl::Status status = wait_a_little(last, limits); !status.ok()) {
      return status;
    }
  }
  return absl::OkStatus();
}

void UcxPathOfTags::give_up() {
  for (const Begun& each : begun_) {
    if (each.request != nullptr && !UCS_PTR_IS_ERR(each.request)) {
      ucx_.request_cancel(worker_, each.request);
    }
  }
}

void UcxPathOfTags::end() {
  if (worker_ != nullptr) {
    give_up();
    void* closing = nullptr;
    if (peer_ != nullptr && handles_errors_) {
      ucp_request_param_t params{};
      params.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
      params.flags = UCP_EP_CLOSE_FLAG_FORCE;
      closing = ucx_.ep_close_nbx(peer_, &params);
    }
    // What was cancelled ends soon. The rest ends with the worker.
    const auto end = steady_clock::now() + milliseconds(200);
    while ((closing != nullptr || !begun_.empty()) && steady_clock::now() < end) {
      ucx_.worker_progress(worker_);
      if (const auto done = take_if_done(closing, ""); !done.ok() || *done) closing = nullptr;
      while (!begun_.empty()) {
        const absl::StatusOr<bool> done = take_if_done(begun_.front().request, "");
        if (done.ok() && !*done) break;
        begun_.pop_front();
      }
    }
    ucx_.worker_destroy(std::exchange(worker_, nullptr));
  }
  if (context_ != nullptr) ucx_.cleanup(std::exchange(context_, nullptr));
}

}  // namespace

absl::Status ucx_status() { return ucx_library().status(); }

absl::StatusOr<std::unique_ptr<UcxPath>> UcxPath::create() {
  const absl::StatusOr<const UcxLibrary*> ucx = ucx_library();
  if (!ucx.ok()) return ucx.status();
  auto path = std::make_unique<UcxPathOfTags>(**ucx);
  if (absl::Status status = path->open(); !status.ok()) return status;
  return path;
}

}  // namespace monkeytree
