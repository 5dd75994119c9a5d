#include "agent/workers.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/json.h"

/// The side of Workers that listens; worker_calls.cc holds the side that asks.
namespace monkeytree {
namespace {

constexpr size_t kMaxStrangers = 64;  // connections without a hello
constexpr int kSweepMs = 60'000;

Fd open_process(pid_t process) {
  if (process <= 0) return Fd();
  return Fd(static_cast<int>(syscall(SYS_pidfd_open, process, 0)));
}

bool readable(int fd) {
  pollfd one{fd, POLLIN, 0};
  return poll(&one, 1, 0) > 0;
}

ino_t inode_of(int fd) {
  struct stat info {};
  return fstat(fd, &info) == 0 ? info.st_ino : 0;
}

}  // namespace

Workers::Workers(Options options) : options_(std::move(options)) {}

absl::StatusOr<std::unique_ptr<Workers>> Workers::listen(Options options) {
  std::unique_ptr<Workers> workers(new Workers(std::move(options)));
  if (absl::Status status = workers->start(); !status.ok()) return status;
  return workers;
}

absl::Status Workers::start() {
  absl::StatusOr<Fd> listening = listen_packets(options_.socket);
  if (!listening.ok()) return listening.status();
  listening_ = *std::move(listening);
  poll_ = Fd(epoll_create1(EPOLL_CLOEXEC));
  wake_ = Fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!poll_.valid() || !wake_.valid()) {
    return absl::InternalError(fmt::format("epoll: {}", std::strerror(errno)));
  }
  watch(listening_.get());
  watch(wake_.get());
  started_ = std::chrono::steady_clock::now();
  thread_ = std::thread([this] { loop(); });
  return absl::OkStatus();
}

Workers::~Workers() {
  stop_waiting();
  if (thread_.joinable()) thread_.join();
}

void Workers::watch(int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd;
  epoll_ctl(poll_.get(), EPOLL_CTL_ADD, fd, &event);
}

void Workers::loop() {
  epoll_event events[64];
  while (true) {
    const int count = epoll_wait(poll_.get(), events, 64, kSweepMs);
    bool heard = false;
    std::optional<std::map<WorkerName, WorkerFlows>> flows_heard;
    {
      const Lock lock(mutex_);
      if (stopping_) return;
      forget_old();
      for (int i = 0; i < count; ++i) {
        const int fd = events[i].data.fd;
        const auto process = processes_.find(fd);
        if (fd == listening_.get()) {
          accept_all();
        } else if (process != processes_.end()) {
          process_ended(process->second);
        } else if (fd == wake_.get()) {
          uint64_t ignored = 0;
          (void)!read(fd, &ignored, sizeof(ignored));
        } else if (connections_.contains(fd)) {
          read_from(fd);
        }
      }
      heard = std::exchange(unheard_, false);
      if (std::exchange(flows_unheard_, false)) flows_heard = flows();
    }
    if (flows_heard && options_.flows_changed) options_.flows_changed(*flows_heard);
    if (heard && options_.changed) options_.changed();
  }
}

void Workers::accept_all() {
  while (true) {
    Fd socket(accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket.valid()) return;
    const absl::StatusOr<PeerProcess> process = peer_process(socket.get());
    if (!process.ok()) continue;
    const int number = socket.get();
    watch(number);
    connections_[number] = {std::move(socket), *process, 0, ++last_connection_};
    drop_oldest_stranger();
  }
}

/// Whoever only connects, and says nothing, makes room for others: the oldest of the user who has
/// the most such connections, so that a flood of one user's keeps no other's out.
void Workers::drop_oldest_stranger() {
  struct Strangers {
    size_t count = 0;
    decltype(connections_)::iterator oldest;
  };
  std::map<uid_t, Strangers> users;
  size_t all = 0;
  for (auto one = connections_.begin(); one != connections_.end(); ++one) {
    if (one->second.instance != 0) continue;
    Strangers& of = users[one->second.process.user];
    if (of.count == 0 || one->second.number < of.oldest->second.number) of.oldest = one;
    ++of.count;
    ++all;
  }
  if (all <= kMaxStrangers) return;
  const auto most = std::max_element(users.begin(), users.end(), [](const auto& a, const auto& b) {
    return a.second.count < b.second.count;
  });
  connections_.erase(most->second.oldest);
}

/// One packet a turn, so that no worker keeps others waiting.
void Workers::read_from(int socket) {
  absl::StatusOr<Packet> packet = receive_packet(socket, kMaxWorkerPacket);
  if (absl::IsNotFound(packet.status())) return;
  if (packet.ok()) return handle(socket, *std::move(packet));
  if (!absl::IsUnavailable(packet.status())) {
    const Connection& connection = connections_.at(socket);
    options_.log(LogLevel::kWarning, "packet refused",
                 {{"process", std::to_string(connection.process.process)},
                  {"user", std::to_string(connection.process.user)},
                  {"reason", std::string(packet.status().message())}});
    send_packet(socket,
                write_packet(ToWorker(AgentRefused{std::string(packet.status().message())})))
        .IgnoreError();
  }
  close_connection(socket);
}

void Workers::handle(int socket, Packet packet) {
  const Connection& connection = connections_.at(socket);
  const absl::StatusOr<FromWorker> message = read_from_worker(packet.bytes);
  const WorkerHello* const hello = message.ok() ? std::get_if<WorkerHello>(&*message) : nullptr;
  std::string fault;
  if (!message.ok()) {
    fault = std::string(message.status().message());
  } else if (connection.instance == 0 && hello == nullptr) {
    fault = "the first packet must be a hello";
  } else if (connection.instance != 0 && hello != nullptr) {
    fault = "a second hello";
  } else if (connection.instance != 0 && packet.attached.valid()) {
    fault = "a descriptor out of place";
  }
  if (!fault.empty()) {
    options_.log(LogLevel::kWarning, "packet refused",
                 {{"process", std::to_string(connection.process.process)},
                  {"user", std::to_string(connection.process.user)},
                  {"reason", fault}});
    fault.resize(std::min<size_t>(fault.size(), 1000));
    send_packet(socket, write_packet(ToWorker(AgentRefused{fault}))).IgnoreError();
    return close_connection(socket);
  }
  if (hello != nullptr) return handle_hello(socket, *hello, std::move(packet.attached));
  const auto worker = workers_.find(connection.instance);
  if (worker != workers_.end()) take(*worker->second, *message);
}

void Workers::handle_hello(int socket, const WorkerHello& hello, Fd arena) {
  const absl::Status status = admit(socket, hello, std::move(arena));
  if (status.ok()) return;
  const Connection& connection = connections_.at(socket);
  options_.log(LogLevel::kWarning, "worker refused",
               {{"worker", to_string(hello.name)},
                {"process", std::to_string(connection.process.process)},
                {"user", std::to_string(connection.process.user)},
                {"reason", std::string(status.message())}});
  std::string why(status.message());
  why.resize(std::min<size_t>(why.size(), 1000));
  send_packet(socket, write_packet(ToWorker(AgentRefused{why}))).IgnoreError();
  close_connection(socket);
}

/// A process that runs in the job has a better right to the worker's name than one that only says
/// so: any user of the machine may come here first.
void Workers::remove_pretenders(const Connection& connection, const WorkerHello& hello) {
  std::vector<WorkerPointer> pretenders;
  for (const auto& [instance, worker] : workers_) {
    const bool same_job = worker->now.name.job == hello.name.job;
    const bool of_another = worker->process.user != connection.process.user;
    const bool takes_name =
        worker->now.name == hello.name && worker->process.process != connection.process.process;
    if (same_job && !worker->proven && (of_another || takes_name)) pretenders.push_back(worker);
  }
  for (const WorkerPointer& worker : pretenders) {
    say(LogLevel::kWarning, "worker refused", *worker,
        {{"reason", fmt::format("process {} runs in the job, this one does not",
                                connection.process.process)}});
    tell(*worker, AgentRefused{"another process speaks for the worker, and runs in its job"});
    remove(worker->instance);
  }
}

/// A process speaks for one worker, a worker has one process, a job has one user.
std::string Workers::why_not_admitted(const Connection& connection, const WorkerHello& hello,
                                      bool proven) {
  const auto same_process = [&](const Worker& worker) {
    return worker.process.process == connection.process.process && connection.process.process != 0;
  };
  size_t count = 0;
  for (const auto& [instance, worker] : workers_) {
    if (worker->ended || !alive(*worker)) continue;
    count += worker->process.user == connection.process.user;
    if (worker->now.name == hello.name && !same_process(*worker)) {
      return fmt::format("worker {} is there already, as process {}", to_string(hello.name),
                         worker->process.process);
    }
    if (worker->now.name.job == hello.name.job && !proven &&
        worker->process.user != connection.process.user) {
      return fmt::format("job {} is user {}'s here, the process is user {}'s", hello.name.job,
                         worker->process.user, connection.process.user);
    }
    if (worker->now.name != hello.name && same_process(*worker)) {
      return fmt::format("the process speaks for worker {} already", to_string(worker->now.name));
    }
  }
  if (count < options_.max_workers) return "";
  return fmt::format("more than {} workers of user {}", count, connection.process.user);
}

/// The arena behind the descriptor, where it is as the hello says.
absl::StatusOr<std::shared_ptr<Arena>> Workers::open_arena(const WorkerHello& hello, Fd fd) {
  absl::StatusOr<Arena> arena = Arena::open(std::move(fd), {.prefault = false});
  if (!arena.ok()) return arena.status();
  if (arena->payload_bytes() != static_cast<uint64_t>(hello.state_bytes)) {
    return absl::InvalidArgumentError(
        fmt::format("hello tells of {} bytes of state, the arena's buffers hold {}",
                    hello.state_bytes, arena->payload_bytes()));
  }
  return std::make_shared<Arena>(*std::move(arena));
}

Workers::WorkerPointer Workers::add(const Connection& connection) {
  auto worker = std::make_shared<Worker>();
  worker->instance = ++last_instance_;
  worker->process = connection.process;
  worker->process_fd = open_process(connection.process.process);
  workers_[worker->instance] = worker;
  if (worker->process_fd.valid()) {
    processes_[worker->process_fd.get()] = worker->instance;
    watch(worker->process_fd.get());
  }
  return worker;
}

absl::Status Workers::admit(int socket, const WorkerHello& hello, Fd fd) {
  Connection& connection = connections_.at(socket);
  // A successor runs in a hold of its own, so that nothing is to be concluded from another job.
  const bool proven = options_.job_of(connection.process.process) == hello.name.job;
  if (proven) remove_pretenders(connection, hello);
  if (const std::string why = why_not_admitted(connection, hello, proven); !why.empty()) {
    return absl::AlreadyExistsError(why);
  }
  if (!fd.valid()) return absl::InvalidArgumentError("hello comes without the arena's memfd");
  const ino_t inode = inode_of(fd.get());
  WorkerPointer worker = find(hello.name);
  if (worker && !alive(*worker)) {
    remove(worker->instance);
    worker = nullptr;
  }
  std::shared_ptr<Arena> arena = worker ? worker->arena : nullptr;
  if (!worker || worker->arena_inode != inode) {
    absl::StatusOr<std::shared_ptr<Arena>> opened = open_arena(hello, std::move(fd));
    if (!opened.ok()) return opened.status();
    arena = *std::move(opened);
  }
  const std::optional<uint64_t> epoch = arena->committed_epoch();
  if (hello.phase == WorkerPhase::kPaused && !epoch) {
    return absl::InvalidArgumentError("paused, but its arena is not committed");
  }
  if (!worker) worker = add(connection);
  worker->proven = proven;
  if (worker->socket >= 0) connections_.erase(worker->socket);  // it has lost that one
  worker->arena = std::move(arena);
  worker->arena_inode = inode;
  worker->epoch = static_cast<int64_t>(epoch.value_or(0));
  // What was retired stays so, whatever the process says.
  const bool retired = worker->now.phase == WorkerPhase::kRetired;
  worker->now = hello;
  if (retired) worker->now.phase = WorkerPhase::kRetired;
  worker->socket = socket;
  ++worker->connection;
  worker->leaving = false;
  connection.instance = worker->instance;
  say(LogLevel::kInfo, worker->connection == 1 ? "worker came" : "worker came back", *worker);
  tell(*worker, options_.welcome);
  // A successor of a migration that is off already comes too late.
  if (off(hello.successor_of)) tell(*worker, AgentCancel{hello.successor_of});
  note_change();
  return absl::OkStatus();
}

void Workers::take_paused(Worker& worker, const WorkerPaused& message) {
  const std::optional<uint64_t> epoch = worker.arena->committed_epoch();
  std::string fault;
  if (worker.now.phase == WorkerPhase::kRetired || worker.now.phase == WorkerPhase::kWaiting) {
    fault = fmt::format("says that it is paused, and is {}", name_of(worker.now.phase));
  } else if (!epoch || *epoch != static_cast<uint64_t>(message.epoch)) {
    fault = "says that it is paused, but its arena is not committed at that epoch";
  }
  if (!fault.empty()) {
    worker.failed = message.migration;
    worker.why = fault;
    return say(LogLevel::kWarning, "worker not believed", worker, {{"reason", fault}});
  }
  worker.now.phase = WorkerPhase::kPaused;
  worker.now.migration = message.migration;
  worker.now.iteration = message.iteration;
  worker.epoch = message.epoch;
  say(LogLevel::kInfo, "worker paused", worker);
}

void Workers::take(Worker& worker, const FromWorker& message) {
  WorkerHello& now = worker.now;
  if (const auto* paused = std::get_if<WorkerPaused>(&message)) {
    take_paused(worker, *paused);
  } else if (const auto* restored = std::get_if<WorkerRestored>(&message)) {
    if (now.phase != WorkerPhase::kWaiting && now.phase != WorkerPhase::kRestored) return;
    now.phase = WorkerPhase::kRestored;
    now.iteration = restored->iteration;
    say(LogLevel::kInfo, "worker restored", worker);
  } else if (const auto* stepped = std::get_if<WorkerStepped>(&message)) {
    if (now.phase != WorkerPhase::kRunning || now.generation != stepped->migration) return;
    now.iteration = stepped->iteration;
    worker.stepped = stepped->migration;
    say(LogLevel::kInfo, "worker goes on", worker);
  } else if (const auto* cancelled = std::get_if<WorkerCancelled>(&message)) {
    worker.cancelled.push_back(cancelled->migration);
    if (worker.cancelled.size() > 8) worker.cancelled.pop_front();
    if (now.phase == WorkerPhase::kPaused &&
        (now.migration == cancelled->migration || now.migration.empty())) {
      // A successor that has not run yet goes on waiting for its own migration.
      now.phase = now.successor_of.empty() ? WorkerPhase::kRunning : WorkerPhase::kRestored;
      now.migration.clear();
    }
    say(LogLevel::kInfo, "migration cancelled", worker, {{"cancelled", cancelled->migration}});
  } else if (const auto* failed = std::get_if<WorkerFailed>(&message)) {
    worker.failed = failed->migration;
    worker.why = printable(failed->why);
    say(LogLevel::kWarning, "worker failed", worker,
        {{"for", failed->migration}, {"reason", worker.why}});
  } else if (const auto* progress = std::get_if<WorkerProgress>(&message)) {
    if (now.phase == WorkerPhase::kRunning) now.iteration = progress->iteration;
    return;  // told with the next heartbeat
  } else if (const auto* flows = std::get_if<WorkerFlows>(&message)) {
    worker.flows = *flows;
    flows_unheard_ = true;
    return;
  } else if (std::holds_alternative<WorkerBye>(message)) {
    worker.leaving = true;
  }
  note_change();
}

void Workers::close_connection(int socket) {
  const auto connection = connections_.find(socket);
  if (connection == connections_.end()) return;
  const auto worker = workers_.find(connection->second.instance);
  connections_.erase(connection);  // closing takes it out of the poll set
  if (worker == workers_.end() || worker->second->socket != socket) return;
  worker->second->socket = -1;
  note_change();
  // Where the process cannot be watched, its connection is all there is to go by.
  if (!worker->second->process_fd.valid()) return process_ended(worker->first);
  if (alive(*worker->second)) say(LogLevel::kWarning, "worker lost its agent", *worker->second);
}

void Workers::process_ended(uint64_t instance) {
  const WorkerPointer worker = workers_.at(instance);
  if (worker->process_fd.valid() && !readable(worker->process_fd.get())) return;
  // What it said last still counts.
  while (worker->socket >= 0) {
    const int socket = worker->socket;
    if (readable(socket)) {
      read_from(socket);
    } else {
      close_connection(socket);
    }
  }
  if (worker->ended || !workers_.contains(instance)) return;
  worker->ended = true;
  worker->ended_at = std::chrono::steady_clock::now();
  if (worker->process_fd.valid()) {
    processes_.erase(worker->process_fd.get());
    worker->process_fd.reset();
  }
  flows_unheard_ = true;
  const WorkerPhase phase = worker->now.phase;
  const bool keep = phase == WorkerPhase::kPaused || phase == WorkerPhase::kRetired ||
                    phase == WorkerPhase::kRestored;
  say(LogLevel::kInfo, "worker ended", *worker,
      {{"said", worker->leaving ? "bye" : "nothing"}, {"state", keep ? "kept" : "gone"}});
  if (!keep) remove(instance);
  note_change();
}

void Workers::remove(uint64_t instance) {
  const auto found = workers_.find(instance);
  if (found == workers_.end()) return;
  const WorkerPointer worker = found->second;
  workers_.erase(found);
  worker->ended = true;
  if (worker->process_fd.valid()) {
    processes_.erase(worker->process_fd.get());
    worker->process_fd.reset();
  }
  if (worker->socket >= 0) connections_.erase(std::exchange(worker->socket, -1));
  note_change();
}

std::map<WorkerName, WorkerFlows> Workers::flows() const {
  std::map<WorkerName, WorkerFlows> out;
  for (const auto& [instance, worker] : workers_) {
    if (!worker->ended && !worker->flows.flows.empty()) out[worker->now.name] = worker->flows;
  }
  return out;
}

void Workers::tell_ports(const WorkerName& name, const AgentPorts& ports) {
  const Lock lock(mutex_);
  if (const WorkerPointer worker = find(name)) tell(*worker, ports);
}

std::vector<WorkerState> Workers::states() const {
  const Lock lock(mutex_);
  std::vector<WorkerState> out;
  for (const auto& [instance, worker] : workers_) {
    const WorkerHello& now = worker->now;
    WorkerState& state = out.emplace_back();
    state.instance = instance;
    state.name = now.name;
    state.phase = now.phase;
    state.migration = now.migration;
    state.successor_of = now.successor_of;
    state.generation = now.generation;
    state.iteration = now.iteration;
    state.state_bytes = now.state_bytes;
    state.replicas = now.replicas;
    state.user = worker->process.user;
    state.connected = worker->socket >= 0;
    state.ended = worker->ended;
  }
  std::sort(out.begin(), out.end(), [](const WorkerState& a, const WorkerState& b) {
    return std::tie(a.name, a.instance) < std::tie(b.name, b.instance);
  });
  return out;
}

std::optional<StartCommand> Workers::command(uint64_t instance) const {
  const Lock lock(mutex_);
  const auto found = workers_.find(instance);
  if (found == workers_.end()) return std::nullopt;
  return found->second->now.command;
}

Workers::WorkerPointer Workers::find(const WorkerName& name) const {
  WorkerPointer found;
  for (const auto& [instance, worker] : workers_) {
    if (worker->now.name == name) found = worker;
  }
  return found;
}

bool Workers::alive(Worker& worker) const {
  if (worker.ended) return false;
  if (worker.process_fd.valid()) return !readable(worker.process_fd.get());
  return worker.socket >= 0;
}

void Workers::tell(Worker& worker, const ToWorker& message) {
  if (worker.socket < 0) return;
  const absl::Status sent = send_packet(worker.socket, write_packet(message));
  if (sent.ok()) return;
  say(LogLevel::kWarning, "worker does not listen", worker,
      {{"reason", std::string(sent.message())}});
  // Reading will find the end and close it; then it may come back.
  shutdown(worker.socket, SHUT_RDWR);
}

void Workers::note_change() {
  changed_.notify_all();
  unheard_ = true;
  const uint64_t one = 1;
  (void)!write(wake_.get(), &one, sizeof(one));
}

void Workers::forget_old() {
  const auto now = std::chrono::steady_clock::now();
  std::vector<uint64_t> old;
  for (const auto& [instance, worker] : workers_) {
    if (worker->ended && now - worker->ended_at > options_.keep) old.push_back(instance);
  }
  for (uint64_t instance : old) {
    say(LogLevel::kWarning, "kept state dropped", *workers_.at(instance),
        {{"reason", "nobody has asked for it"}});
    remove(instance);
  }
}

void Workers::say(LogLevel level, std::string_view event, const Worker& worker,
                  LogFields more) const {
  LogFields fields = {{"worker", to_string(worker.now.name)},
                      {"process", std::to_string(worker.process.process)},
                      {"user", std::to_string(worker.process.user)},
                      {"phase", std::string(name_of(worker.now.phase))},
                      {"iteration", std::to_string(worker.now.iteration)}};
  if (!worker.now.migration.empty()) fields.emplace_back("migration", worker.now.migration);
  if (!worker.now.successor_of.empty()) {
    fields.emplace_back("successor_of", worker.now.successor_of);
  }
  for (auto& field : more) fields.push_back(std::move(field));
  options_.log(level, event, fields);
}

}  // namespace monkeytree
