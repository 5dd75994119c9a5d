// Moves of a worker's state beside what moves plain bytes, in one run: shm beside memcpy into an
// equally warm shared mapping, tcp beside a plain socket copy by as many streams, and TLS and ucx
// beside it too.
//
//   state_bench [--smoke]          the comparison; --mib N of state, --only shm, tcp, tls or ucx
//   state_bench --churn SECONDS    a staging server that holds 8 GiB in 200 states under churn
//                                  (--smoke: 64 MiB)

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "base/file.h"
#include "base/random.h"
#include "identity/authority.h"
#include "state/checksum.h"
#include "state/connection.h"
#include "state/staging.h"
#include "state/transfer.h"
#include "state/ucx_path.h"

using namespace monkeytree;

namespace {

double seconds_of(const std::function<void()>& work) {
  const auto start = Clock::now();
  work();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Of all threads of this process: says what a copy costs where other programs share the cores.
double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

[[noreturn]] void fail(const absl::Status& status) {
  fmt::print(stderr, "state_bench: {}\n", std::string(status.message()));
  std::exit(1);
}

template <class T>
T value(absl::StatusOr<T> result) {
  if (!result.ok()) fail(result.status());
  return *std::move(result);
}

double median(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  return samples[samples.size() / 2];
}

// Like a model with AdamW: a few large tensors and many small ones.
Layout layout_of(uint64_t bytes) {
  Layout layout;
  const uint64_t large = bytes / 16;
  for (int i = 0; i < 16; ++i) {
    layout.push_back({fmt::format("layer.{}.weight", i), large, 4096});
    layout.push_back({fmt::format("layer.{}.bias", i), 4096, 64});
    layout.push_back({fmt::format("layer.{}.step", i), 4, 64});
  }
  return layout;
}

std::shared_ptr<Arena> arena_of(const Layout& layout) {
  return std::make_shared<Arena>(value(Arena::create(layout)));
}

double move_once(Receiver& receiver, const Endpoint& endpoint, const Arena& source,
                 const std::shared_ptr<Arena>& target, int streams, const TlsFiles& tls = {}) {
  const Token token = random_token();
  if (absl::Status status = receiver.expect(token, target, Deadline::max()); !status.ok()) {
    fail(status);
  }
  SendOptions options;
  options.streams = streams;
  options.tls = tls;
  const std::unique_ptr<Sender> sender = value(Sender::prepare(source, endpoint, token, options));
  const double seconds = seconds_of([&] {
    value(sender->send());
    value(receiver.wait(token, Deadline::max()));
  });
  return seconds;
}

// Each thread sends or receives every n-th piece of 1 MiB, with nothing around it.
double plain_sockets(const Arena& source, Arena& target, int streams) {
  const Listener listener = value(listen_at({Endpoint::Transport::kTcp, "127.0.0.1", 0, ""}));
  std::vector<std::unique_ptr<Connection>> from;
  std::vector<Fd> to;
  for (int i = 0; i < streams; ++i) {
    from.push_back(value(Connection::connect(listener.endpoint, "", Deadline::max(),
                                             std::chrono::milliseconds(10000))));
    to.emplace_back(accept4(listener.socket.get(), nullptr, nullptr, SOCK_CLOEXEC));
  }
  const auto each_piece = [&](int stream, const auto& use) {
    int next = 0;
    for (size_t b = 0; b < source.buffer_count(); ++b) {
      for (uint64_t at = 0; at < source.layout()[b].bytes; at += kChunkBytes) {
        if (next++ % streams != stream) continue;
        use(b, at, std::min(kChunkBytes, source.layout()[b].bytes - at));
      }
    }
  };
  return seconds_of([&] {
    std::vector<std::thread> threads;
    for (int i = 0; i < streams; ++i) {
      threads.emplace_back([&, i] {
        each_piece(i, [&](size_t b, uint64_t at, uint64_t n) {
          std::span<std::byte> bytes = target.buffer(b).subspan(at, n);
          while (!bytes.empty()) {
            const ssize_t got = recv(to[i].get(), bytes.data(), bytes.size(), MSG_WAITALL);
            if (got <= 0) std::exit(1);
            bytes = bytes.subspan(static_cast<size_t>(got));
          }
        });
      });
      threads.emplace_back([&, i] {
        each_piece(i, [&](size_t b, uint64_t at, uint64_t n) {
          if (!from[i]->write_raw(source.buffer(b).subspan(at, n)).ok()) std::exit(1);
        });
      });
    }
    for (std::thread& thread : threads) thread.join();
  });
}

double plain_memcpy(const Arena& source, Arena& target, int threads) {
  return seconds_of([&] {
    std::vector<std::thread> helpers;
    const auto work = [&](int thread) {
      for (size_t b = 0; b < source.buffer_count(); ++b) {
        const uint64_t bytes = source.layout()[b].bytes;
        const uint64_t first = bytes * thread / threads;
        const uint64_t end = bytes * (thread + 1) / threads;
        std::memcpy(target.buffer(b).data() + first, source.buffer(b).data() + first, end - first);
      }
    };
    for (int i = 1; i < threads; ++i) helpers.emplace_back(work, i);
    work(0);
    for (std::thread& helper : helpers) helper.join();
  });
}

/// A node's certificate in a folder that goes with the program.
class Identity {
 public:
  Identity() {
    char pattern[] = "/tmp/state_bench_XXXXXX";
    folder_ = mkdtemp(pattern) != nullptr ? pattern : "/nowhere";
    const Credential ca = value(make_authority({unix_now_s(), 1}));
    const Credential node = value(issue(ca, CertificateRole::kNode, {"node"}, {unix_now_s(), 1}));
    files_ = {folder_ + "/ca.crt", folder_ + "/node.crt", folder_ + "/node.key"};
    for (const auto& [file, text] : {std::pair(files_.ca, ca.certificate),
                                     {files_.certificate, node.certificate},
                                     {files_.key, node.key}}) {
      if (absl::Status status = write_file(file, text); !status.ok()) fail(status);
      chmod(file.c_str(), 0600);
    }
  }
  ~Identity() { std::filesystem::remove_all(folder_); }
  Identity(const Identity&) = delete;
  Identity& operator=(const Identity&) = delete;

  const TlsFiles& files() const { return files_; }

 private:
  std::string folder_;
  TlsFiles files_;
};

void compare(uint64_t bytes, int rounds, const std::string& only) {
  const Layout layout = layout_of(bytes);
  const std::shared_ptr<Arena> source = arena_of(layout);
  const std::shared_ptr<Arena> target = arena_of(layout);
  RandomSequence random(1);
  for (size_t b = 0; b < source->buffer_count(); ++b) {
    for (size_t at = 0; at + 8 <= source->buffer(b).size(); at += 8) {
      const uint64_t word = random.next();
      std::memcpy(source->buffer(b).data() + at, &word, 8);
    }
  }
  source->commit(1);
  const auto total = static_cast<double>(source->payload_bytes());
  fmt::print("{} MiB of state, {} buffers, {} rounds; GB/s, median (best)\n", bytes >> 20,
             source->buffer_count(), rounds);
  fmt::print("checksums alone {:10.2f}\n",
             total / seconds_of([&] { source->commit_with_checksums(1); }) * 1e-9);
  source->commit(1);
  const auto row = [&](std::string_view plain_name, std::string_view name, const auto& plain,
                       const auto& moved) {
    if (!name.starts_with(only)) return;
    std::vector<double> plain_s;
    std::vector<double> moved_s;
    std::vector<double> plain_cpu;
    std::vector<double> moved_cpu;
    std::vector<double> ratios, cpu_ratios;
    for (int i = 0; i < rounds; ++i) {
      // By turns first, so that neither always has the warmer caches.
      const auto once = [](const auto& work, std::vector<double>& wall, std::vector<double>& cpu) {
        const double start = cpu_seconds();
        wall.push_back(work());
        cpu.push_back(cpu_seconds() - start);
      };
      if (i % 2 == 0) once(plain, plain_s, plain_cpu);
      once(moved, moved_s, moved_cpu);
      if (i % 2 != 0) once(plain, plain_s, plain_cpu);
      ratios.push_back(plain_s.back() / moved_s.back());
      cpu_ratios.push_back(plain_cpu.back() / moved_cpu.back());
    }
    const auto speed = [&](double seconds) { return total / seconds * 1e-9; };
    fmt::print(
        "{:24} {:6.2f} ({:6.2f})   {:16} {:6.2f} ({:6.2f})   ratio {:.2f}, of CPU time {:.2f}\n",
        plain_name, speed(median(plain_s)),
        speed(*std::min_element(plain_s.begin(), plain_s.end())), name, speed(median(moved_s)),
        speed(*std::min_element(moved_s.begin(), moved_s.end())), median(ratios),
        median(cpu_ratios));
    std::fflush(stdout);
  };
  for (const int threads : {1, 2}) {
    ReceiverOptions options;
    options.copy_threads = threads;
    const std::unique_ptr<Receiver> receiver = value(Receiver::listen(options));
    row(
        fmt::format("memcpy, {} threads", threads), fmt::format("shm, {} threads", threads),
        [&] { return plain_memcpy(*source, *target, threads); },
        [&] { return move_once(*receiver, receiver->endpoints()[1], *source, target, 1); });
  }
  const std::unique_ptr<Receiver> receiver = value(Receiver::listen({}));
  for (const int streams : {1, 2, 4}) {
    row(
        fmt::format("sockets, {} streams", streams), fmt::format("tcp, {} streams", streams),
        [&] { return plain_sockets(*source, *target, streams); },
        [&] { return move_once(*receiver, receiver->endpoints()[0], *source, target, streams); });
  }
  const Identity identity;
  ReceiverOptions encrypted;
  encrypted.tls = identity.files();
  const std::unique_ptr<Receiver> by_tls = value(Receiver::listen(encrypted));
  row(
      "sockets, 2 streams", "tls, 2 streams", [&] { return plain_sockets(*source, *target, 2); },
      [&] {
        return move_once(*by_tls, by_tls->endpoints()[0], *source, target, 2, identity.files());
      });
  if (!ucx_status().ok()) return;
  ReceiverOptions ucx;
  ucx.addresses = {"ucx:127.0.0.1:0"};
  const std::unique_ptr<Receiver> by_ucx = value(Receiver::listen(ucx));
  for (const char* devices : {"shm", "tcp"}) {
    setenv("UCX_TLS", devices, 1);
    row(
        "sockets, 1 streams", fmt::format("ucx over {}", devices),
        [&] { return plain_sockets(*source, *target, 1); },
        [&] { return move_once(*by_ucx, by_ucx->endpoints()[0], *source, target, 1); });
  }
}

long resident_kib() {
  const std::string status = value(read_file("/proc/self/status"));
  return std::stol(status.substr(status.find("VmRSS:") + 6));
}

// Holds the quota nearly full with states of very different sizes; each step lets one go and puts
// another, and now and then one is fetched and compared.
void churn(double seconds, uint64_t quota, size_t states) {
  StagingOptions options;
  options.quota_bytes = quota;
  const std::unique_ptr<StagingServer> server = value(StagingServer::start(options));
  StagingClient client(server->endpoints()[1], "");
  RandomSequence random(1);
  std::map<std::string, uint64_t> held;  // key → seed
  const uint64_t mean = quota / states;
  const auto state_of = [&](uint64_t seed) {
    RandomSequence drawn(seed);
    Layout layout;
    for (uint64_t left = mean / 4 + drawn.below(mean * 3 / 2), i = 0; left > 4096; ++i) {
      const uint64_t bytes = std::min(left, 1 + drawn.below(left));
      layout.push_back({fmt::format("b{}", i), bytes, 64});
      left -= bytes;
    }
    std::shared_ptr<Arena> arena = arena_of(layout);
    for (size_t b = 0; b < arena->buffer_count(); ++b) {
      for (std::byte *at = arena->buffer(b).data(), *end = at + arena->buffer(b).size() / 8 * 8;
           at < end; at += 8) {
        const uint64_t word = drawn.next();
        std::memcpy(at, &word, 8);
      }
    }
    arena->commit_with_checksums(seed);
    return arena;
  };
  uint64_t puts = 0, refused = 0, gets = 0;
  const auto start = Clock::now();
  long peak = 0;
  while (std::chrono::duration<double>(Clock::now() - start).count() < seconds) {
    const uint64_t seed = random.next();
    const std::string key = fmt::format("{:016x}", seed);
    if (!held.empty() && (held.size() >= states || random.below(8) == 0)) {
      auto at = held.begin();
      std::advance(at, static_cast<long>(random.below(held.size())));
      if (random.below(3) == 0) {
        const std::shared_ptr<Arena> wanted = state_of(at->second);
        const std::shared_ptr<Arena> got = arena_of(wanted->layout());
        value(client.get(at->first, got, {}));
        for (size_t b = 0; b < got->buffer_count(); ++b) {
          if (got->recorded_checksum(b) != wanted->recorded_checksum(b)) {
            fail(absl::DataLossError("a staged state is not what was put"));
          }
        }
        ++gets;
      }
      if (absl::Status status = client.confirm(at->first, Deadline::max()); !status.ok()) {
        fail(status);
      }
      held.erase(at);
    }
    const absl::StatusOr<TransferReport> put = client.put(key, *state_of(seed), {});
    if (put.ok()) {
      held[key] = seed;
      ++puts;
    } else if (absl::IsResourceExhausted(put.status())) {
      ++refused;
    } else {
      fail(put.status());
    }
    peak = std::max(peak, resident_kib());
  }
  const uint64_t used = server->used_bytes();
  for (const auto& [key, seed] : held) client.confirm(key, Deadline::max()).IgnoreError();
  fmt::print(
      "{:.0f} s: {} puts, {} refused over quota, {} fetched and equal; {} states of {} MiB at the "
      "end, resident at most {} MiB; after all were confirmed {} bytes are used, {} MiB resident\n",
      seconds, puts, refused, gets, held.size(), used >> 20, peak >> 10, server->used_bytes(),
      resident_kib() >> 10);
  if (server->used_bytes() != 0) fail(absl::InternalError("memory was not returned"));
}

}  // namespace

int main(int argc, char** argv) {
  bool smoke = false;
  double churn_seconds = 0;
  uint64_t mib = 0;
  std::string only;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--smoke") == 0) {
      smoke = true;
    } else if (std::strcmp(argv[i], "--churn") == 0 && i + 1 < argc) {
      churn_seconds = std::atof(argv[++i]);
    } else if (std::strcmp(argv[i], "--only") == 0 && i + 1 < argc) {
      only = argv[++i];
    } else if (std::strcmp(argv[i], "--mib") == 0 && i + 1 < argc) {
      mib = static_cast<uint64_t>(std::max(1, std::atoi(argv[++i])));
    } else {
      fmt::print(
          stderr,
          "usage: state_bench [--smoke] [--mib N] [--only shm|tcp|tls|ucx] [--churn SECONDS]\n");
      return 2;
    }
  }
  if (churn_seconds > 0) {
    churn(churn_seconds, smoke ? uint64_t{64} << 20 : uint64_t{8} << 30, smoke ? 20 : 200);
  } else {
    compare((mib > 0 ? mib : smoke ? 32 : 1024) << 20, smoke ? 2 : 7, only);
  }
  return 0;
}
