#include "inventory/read_only_scheduler.h"

namespace monkeytree {

absl::StatusOr<Hold> ReadOnlyScheduler::hold(const WorkerName& /*worker*/,
                                             const std::string& /*node*/,
                                             const std::string& /*reservation*/,
                                             Deadline /*deadline*/) {
  return refused();
}
absl::Status ReadOnlyScheduler::start(const Hold& /*hold*/, const WorkerCommand& /*command*/,
                                      Deadline /*deadline*/) {
  return refused();
}
absl::Status ReadOnlyScheduler::give_back(const WorkerName& /*worker*/, const std::string& /*node*/,
                                          const std::vector<std::string>& /*order*/,
                                          Deadline /*deadline*/) {
  return refused();
}
absl::Status ReadOnlyScheduler::cancel(const Hold& /*hold*/, Deadline /*deadline*/) {
  return refused();
}
absl::Status ReadOnlyScheduler::reserve(const std::string& /*name*/,
                                        const std::vector<std::string>& /*nodes*/,
                                        Deadline /*deadline*/) {
  return refused();
}
absl::Status ReadOnlyScheduler::unreserve(const std::string& /*name*/, Deadline /*deadline*/) {
  return refused();
}
absl::StatusOr<std::vector<std::string>> ReadOnlyScheduler::booked(const std::string& /*job*/,
                                                                   Deadline /*deadline*/) {
  return refused();
}

}  // namespace monkeytree
