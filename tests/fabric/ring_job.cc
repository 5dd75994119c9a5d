#include "ring_job.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <thread>

namespace monkeytree {
namespace {

using Clock = std::chrono::steady_clock;

sockaddr_in socket_address(uint32_t address, uint16_t port) {
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(address);
  at.sin_port = htons(port);
  return at;
}

/// A TCP socket of this address and port (0: any); the port is told back.
Fd bound_socket(uint32_t address, uint16_t& port) {
  Fd made(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  setsockopt(made.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in at = socket_address(address, port);
  socklen_t size = sizeof at;
  if (bind(made.get(), reinterpret_cast<const sockaddr*>(&at), size) != 0 ||
      getsockname(made.get(), reinterpret_cast<sockaddr*>(&at), &size) != 0) {
    return {};
  }
  port = ntohs(at.sin_port);
  return made;
}

uint32_t address_of(const RingJob::Place& place) {
  return parse_ipv4(host_address(place.rack, place.host)).value_or(0);
}

bool connects(int socket, const PacketHeader& flow) {
  const sockaddr_in far = socket_address(flow.destination, flow.destination_port);
  return ::connect(socket, reinterpret_cast<const sockaddr*>(&far), sizeof far) == 0;
}

}  // namespace

absl::StatusOr<std::unique_ptr<RingJob>> RingJob::connect(const Fabric& fabric,
                                                          const std::vector<Place>& places,
                                                          const Load& load, const Ports& ports) {
  std::unique_ptr<RingJob> job(new RingJob(load));
  const size_t n = places.size();
  job->workers_.resize(n);
  for (size_t i = 0; i < n; ++i) {
    const Place& here = places[i];
    const Place& next = places[(i + 1) % n];
    PacketHeader flow{address_of(here), address_of(next), Protocol::kTcp, 0, 0};
    Fd listening, made;
    const absl::Status listens = fabric.inside(host_name(next.rack, next.host), [&] {
      listening = bound_socket(flow.destination, flow.destination_port);
      if (listening.valid() && listen(listening.get(), 1) != 0) listening.reset();
    });
    if (!listens.ok()) return listens;
    flow.source_port = ports(i, flow);
    const absl::Status opened = fabric.inside(host_name(here.rack, here.host), [&] {
      made = bound_socket(flow.source, flow.source_port);
      if (made.valid() && !connects(made.get(), flow)) made.reset();
    });
    if (!opened.ok()) return opened;
    Fd accepted(listening.valid() && made.valid()
                    ? accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC)
                    : -1);
    if (!accepted.valid()) {
      return absl::UnavailableError(fmt::format("no connection from {}:{}: {}",
                                                ipv4_text(flow.source), flow.source_port,
                                                std::strerror(errno)));
    }
    for (const int socket : {made.get(), accepted.get()}) {
      fcntl(socket, F_SETFL, fcntl(socket, F_GETFL) | O_NONBLOCK);
    }
    job->workers_[i].to_next = std::move(made);
    job->workers_[(i + 1) % n].from_before = std::move(accepted);
  }
  return job;
}

/// False where a neighbour has ended.
bool RingJob::exchange(const Worker& worker) {
  std::vector<char> out(std::min<size_t>(load_.bytes, 65536)), in(65536);
  size_t sent = 0, received = 0;
  while (sent < load_.bytes || received < load_.bytes) {
    pollfd ends[2] = {{sent < load_.bytes ? worker.to_next.get() : -1, POLLOUT, 0},
                      {received < load_.bytes ? worker.from_before.get() : -1, POLLIN, 0}};
    poll(ends, 2, -1);
    if (ends[0].revents != 0) {
      const ssize_t count = send(worker.to_next.get(), out.data(),
                                 std::min(out.size(), load_.bytes - sent), MSG_NOSIGNAL);
      if (count < 0 && errno != EAGAIN) return false;
      sent += static_cast<size_t>(std::max<ssize_t>(count, 0));
    }
    if (ends[1].revents != 0) {
      const ssize_t count =
          recv(worker.from_before.get(), in.data(), std::min(in.size(), load_.bytes - received), 0);
      if (count == 0 || (count < 0 && errno != EAGAIN)) return false;
      received += static_cast<size_t>(std::max<ssize_t>(count, 0));
    }
  }
  return true;
}

std::vector<double> RingJob::run(const std::atomic<bool>& stop) {
  std::vector<double> seconds;
  std::vector<std::thread> threads;
  for (size_t i = 0; i < workers_.size(); ++i) {
    threads.emplace_back([&, i] {
      const Worker& worker = workers_[i];
      while (!stop) {
        const Clock::time_point begin = Clock::now();
        std::this_thread::sleep_for(load_.compute);
        if (!exchange(worker)) break;
        if (i > 0) continue;
        seconds.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
        ++done_;
      }
      shutdown(worker.to_next.get(), SHUT_RDWR);  // neighbours that wait for us end, too
      shutdown(worker.from_before.get(), SHUT_RDWR);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return seconds;
}

std::vector<double> median_iterations(std::vector<std::unique_ptr<RingJob>>& jobs, int iterations) {
  constexpr size_t kWarm = 2;
  std::atomic<bool> stop{false};
  std::vector<std::vector<double>> seconds(jobs.size());
  std::vector<std::thread> threads;
  std::atomic<size_t> ended{0};
  for (size_t i = 0; i < jobs.size(); ++i) {
    threads.emplace_back([&, i] {
      seconds[i] = jobs[i]->run(stop);
      ++ended;
    });
  }
  const auto all_done = [&] {
    return std::all_of(jobs.begin(), jobs.end(),
                       [&](const auto& job) { return job->done() >= iterations; });
  };
  while (!all_done() && ended == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  stop = true;
  for (std::thread& thread : threads) thread.join();
  std::vector<double> medians;
  for (std::vector<double>& all : seconds) {
    all.erase(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(std::min(kWarm, all.size())));
    std::sort(all.begin(), all.end());
    medians.push_back(all.empty() ? 0 : all[all.size() / 2]);
  }
  return medians;
}

}  // namespace monkeytree
