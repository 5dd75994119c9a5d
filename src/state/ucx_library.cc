#include "state/ucx_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

namespace monkeytree {
namespace {

template <class Function>
bool find(void* library, const char* name, Function& into) {
  into = reinterpret_cast<Function>(dlsym(library, name));
  return into != nullptr;
}

absl::StatusOr<UcxLibrary> load() {
  constexpr const char* kName = "libucp.so.0";
  void* library = dlopen(kName, RTLD_NOW | RTLD_LOCAL);  // stays for good
  if (library == nullptr) {
    return absl::FailedPreconditionError(
        fmt::format("UCX is not installed here: {} (Debian: libucx0)", dlerror()));
  }
  UcxLibrary ucx{};
  const bool all = find(library, "ucp_init_version", ucx.init_version) &&
                   find(library, "ucp_config_read", ucx.config_read) &&
                   find(library, "ucp_config_release", ucx.config_release) &&
                   find(library, "ucp_cleanup", ucx.cleanup) &&
                   find(library, "ucp_worker_create", ucx.worker_create) &&
                   find(library, "ucp_worker_destroy", ucx.worker_destroy) &&
                   find(library, "ucp_worker_get_address", ucx.worker_get_address) &&
                   find(library, "ucp_worker_release_address", ucx.worker_release_address) &&
                   find(library, "ucp_worker_get_efd", ucx.worker_get_efd) &&
                   find(library, "ucp_worker_arm", ucx.worker_arm) &&
                   find(library, "ucp_worker_progress", ucx.worker_progress) &&
                   find(library, "ucp_ep_create", ucx.ep_create) &&
                   find(library, "ucp_ep_close_nbx", ucx.ep_close_nbx) &&
                   find(library, "ucp_ep_flush_nbx", ucx.ep_flush_nbx) &&
                   find(library, "ucp_tag_send_nbx", ucx.tag_send_nbx) &&
                   find(library, "ucp_tag_recv_nbx", ucx.tag_recv_nbx) &&
                   find(library, "ucp_request_check_status", ucx.request_check_status) &&
                   find(library, "ucp_request_cancel", ucx.request_cancel) &&
                   find(library, "ucp_request_free", ucx.request_free) &&
                   find(library, "ucs_status_string", ucx.status_string);
  if (all) return ucx;
  return absl::FailedPreconditionError(fmt::format("{} is too old: {}", kName, dlerror()));
}

}  // namespace

absl::StatusOr<const UcxLibrary*> ucx_library() {
  static const absl::StatusOr<UcxLibrary> library = load();
  if (!library.ok()) return library.status();
  return &*library;
}

}  // namespace monkeytree
