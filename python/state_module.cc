// monkeytree._state: arenas and their transfers for Python. Knows nothing of torch: tensors are
// made over buffers by the buffer protocol. What waits lets other Python threads run.

#include <pybind11/chrono.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "state/staging.h"
#include "state/transfer.h"

namespace py = pybind11;

namespace monkeytree {
namespace {

/// A status that is not OK, on its way to Python.
class StateError : public std::runtime_error {
 public:
  explicit StateError(const absl::Status& status)
      : std::runtime_error(std::string(status.message())),
        code_(absl::StatusCodeToString(status.code())) {}
  const std::string& code() const { return code_; }

 private:
  std::string code_;
};

void check(const absl::Status& status) {
  if (!status.ok()) throw StateError(status);
}

template <class T>
T value(absl::StatusOr<T> result) {
  check(result.status());
  return *std::move(result);
}

Deadline deadline_of(double seconds) {
  if (seconds < 0 || seconds > 1e8) return Deadline::max();
  return Clock::now() +
         std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

/// One buffer of an arena, as long as Python looks at it.
struct Buffer {
  std::shared_ptr<Arena> arena;
  size_t index = 0;
};

using Specs = std::vector<std::tuple<std::string, uint64_t, uint64_t>>;

Layout layout_of(const Specs& specs) {
  Layout layout;
  for (const auto& [name, bytes, alignment] : specs) layout.push_back({name, bytes, alignment});
  return layout;
}

std::shared_ptr<Arena> create(const Specs& specs, bool prefault) {
  const Layout layout = layout_of(specs);
  const py::gil_scoped_release release;
  return std::make_shared<Arena>(value(Arena::create(layout, {prefault})));
}

std::shared_ptr<Arena> open(int fd, bool prefault) {
  const py::gil_scoped_release release;
  return std::make_shared<Arena>(value(Arena::open(Fd(dup(fd)), {prefault})));
}

size_t index_of(const Arena& arena, const std::string& name) {
  const std::optional<size_t> index = arena.find(name);
  if (!index) throw py::key_error(name);
  return *index;
}

void commit(Arena& arena, uint64_t epoch, bool checksums) {
  const py::gil_scoped_release release;
  if (checksums) {
    arena.commit_with_checksums(epoch);
  } else {
    arena.commit(epoch);
  }
}

py::dict report_of(const TransferReport& report) {
  py::dict all;
  all["epoch"] = report.epoch;
  all["bytes"] = report.bytes;
  all["sent_bytes"] = report.sent_bytes;
  all["connections_lost"] = report.connections_lost;
  all["seconds"] = report.seconds;
  return all;
}

SendOptions send_options(double timeout, int streams, uint64_t min_bytes_per_s,
                         const std::string& from_address, std::vector<size_t> buffers,
                         uint32_t part) {
  SendOptions options;
  options.deadline = deadline_of(timeout);
  options.streams = streams;
  options.min_bytes_per_s = min_bytes_per_s;
  options.from_address = from_address;
  options.buffers = std::move(buffers);
  options.part = part;
  return options;
}

/// A sender that keeps its arena.
struct PySender {
  std::shared_ptr<Arena> arena;
  std::unique_ptr<Sender> sender;
};

std::unique_ptr<PySender> prepare(std::shared_ptr<Arena> arena, const std::string& endpoint,
                                  const std::string& token, double timeout, int streams,
                                  uint64_t min_bytes_per_s, const std::string& from_address,
                                  std::vector<size_t> buffers, uint32_t part) {
  const SendOptions options =
      send_options(timeout, streams, min_bytes_per_s, from_address, std::move(buffers), part);
  const py::gil_scoped_release release;
  auto result = std::make_unique<PySender>();
  result->sender = value(Sender::prepare(*arena, value(Endpoint::parse(endpoint)), token, options));
  result->arena = std::move(arena);
  return result;
}

template <class Call>
py::dict report_without_gil(Call call) {
  TransferReport report;
  {
    const py::gil_scoped_release release;
    report = value(call());
  }
  return report_of(report);
}

std::unique_ptr<Receiver> listen(std::vector<std::string> addresses) {
  ReceiverOptions options;
  if (!addresses.empty()) options.addresses = std::move(addresses);
  return value(Receiver::listen(options));
}

template <class Listening>
std::vector<std::string> endpoints_of(const Listening& listening) {
  std::vector<std::string> all;
  for (const Endpoint& endpoint : listening.endpoints()) all.push_back(endpoint.text());
  return all;
}

void add_arena(py::module_& module) {
  py::class_<Buffer>(module, "Buffer", py::buffer_protocol())
      .def_buffer([](Buffer& self) {
        const std::span<std::byte> bytes = self.arena->buffer(self.index);
        return py::buffer_info(reinterpret_cast<uint8_t*>(bytes.data()),
                               static_cast<py::ssize_t>(bytes.size()));
      })
      .def("__len__", [](const Buffer& self) { return self.arena->layout()[self.index].bytes; });
  py::class_<Arena, std::shared_ptr<Arena>>(
      module, "Arena", "A worker's state in memory that can be handed to another process.")
      .def_static(
          "create", &create, py::arg("buffers"), py::arg("prefault") = true,
          "A new arena of zeros; buffers are (name, bytes, alignment), alignment 64 or 4096.")
      .def_static("open", &open, py::arg("fd"), py::arg("prefault") = true,
                  "Maps the arena of another process; the descriptor stays the caller's.")
      .def_property_readonly("fd", &Arena::fd)
      .def_property_readonly("bytes", &Arena::bytes)
      .def_property_readonly("payload_bytes", &Arena::payload_bytes)
      .def_property_readonly("layout",
                             [](const Arena& self) {
                               Specs specs;
                               for (const BufferSpec& buffer : self.layout()) {
                                 specs.emplace_back(buffer.name, buffer.bytes, buffer.alignment);
                               }
                               return specs;
                             })
      .def("buffer",
           [](std::shared_ptr<Arena> self, const std::string& name) {
             const size_t index = index_of(*self, name);
             return Buffer{std::move(self), index};
           })
      .def("index", &index_of, py::arg("name"))
      .def("checksum",
           [](const Arena& self, const std::string& name) {
             return self.recorded_checksum(index_of(self, name));
           })
      .def_property_readonly("has_checksums", &Arena::has_checksums)
      .def("begin_epoch", &Arena::begin_epoch)
      .def("commit", &commit, py::arg("epoch"), py::arg("checksums") = true)
      .def_property_readonly("committed_epoch", &Arena::committed_epoch)
      .def("verify", [](const Arena& self) {
        const py::gil_scoped_release release;
        check(self.verify());
      });
}

void add_transfers(py::module_& module) {
  module.def("random_token", &random_token);
  py::class_<PySender>(module, "Sender")
      .def_static("prepare", &prepare, py::arg("arena"), py::arg("endpoint"), py::arg("token"),
                  py::arg("timeout") = -1.0, py::arg("streams") = 4, py::arg("min_bytes_per_s") = 0,
                  py::arg("from_address") = "", py::arg("buffers") = std::vector<size_t>(),
                  py::arg("part") = 0)
      .def("send",
           [](PySender& self) { return report_without_gil([&] { return self.sender->send(); }); })
      .def("cancel", [](PySender& self) { self.sender->cancel(); })
      .def_property_readonly("probed_bytes_per_s", [](const PySender& self) {
        return self.sender->probed_bytes_per_s();
      });
  py::class_<Receiver>(module, "Receiver")
      .def_static("listen", &listen, py::arg("addresses") = std::vector<std::string>())
      .def_property_readonly("endpoints", &endpoints_of<Receiver>)
      .def(
          "expect",
          [](Receiver& self, const std::string& token, std::shared_ptr<Arena> arena,
             double timeout) { check(self.expect(token, std::move(arena), deadline_of(timeout))); },
          py::arg("token"), py::arg("arena"), py::arg("timeout") = -1.0)
      .def(
          "wait",
          [](Receiver& self, const std::string& token, double timeout) {
            return report_without_gil([&] { return self.wait(token, deadline_of(timeout)); });
          },
          py::arg("token"), py::arg("timeout") = -1.0)
      .def("received_bytes", &Receiver::received_bytes)
      .def("cancel", [](Receiver& self, const std::string& token) {
        const py::gil_scoped_release release;
        self.cancel(token);
      });
}

void add_staging(py::module_& module) {
  py::class_<StagingServer>(module, "StagingServer")
      .def_static(
          "start",
          [](uint64_t quota_bytes, std::vector<std::string> addresses, const std::string& access) {
            StagingOptions options;
            options.quota_bytes = quota_bytes;
            options.access = access;
            if (!addresses.empty()) options.addresses = std::move(addresses);
            return value(StagingServer::start(options));
          },
          py::arg("quota_bytes"), py::arg("addresses") = std::vector<std::string>(),
          py::arg("access") = "")
      .def_property_readonly("endpoints", &endpoints_of<StagingServer>)
      .def_property_readonly("used_bytes", &StagingServer::used_bytes);
  py::class_<StagingClient>(module, "StagingClient")
      .def(py::init([](const std::string& endpoint, const std::string& access) {
             return StagingClient(value(Endpoint::parse(endpoint)), access);
           }),
           py::arg("endpoint"), py::arg("access") = "")
      .def(
          "put",
          [](StagingClient& self, const std::string& key, const std::shared_ptr<Arena>& arena,
             double timeout) {
            const SendOptions options = send_options(timeout, 4, 0, "", {}, 0);
            return report_without_gil([&] { return self.put(key, *arena, options); });
          },
          py::arg("key"), py::arg("arena"), py::arg("timeout") = -1.0)
      .def(
          "get",
          [](StagingClient& self, const std::string& key, const std::shared_ptr<Arena>& arena,
             double timeout) {
            const SendOptions options = send_options(timeout, 4, 0, "", {}, 0);
            return report_without_gil([&] { return self.get(key, arena, options); });
          },
          py::arg("key"), py::arg("arena"), py::arg("timeout") = -1.0)
      .def(
          "confirm",
          [](StagingClient& self, const std::string& key, double timeout) {
            const py::gil_scoped_release release;
            check(self.confirm(key, deadline_of(timeout)));
          },
          py::arg("key"), py::arg("timeout") = -1.0);
}

}  // namespace
}  // namespace monkeytree

PYBIND11_MODULE(_state, module) {
  module.doc() = "Arenas of worker state and their transfers";
  static const py::object* error = new py::object(
      py::exception<monkeytree::StateError>(module, "StateError", PyExc_RuntimeError));
  py::register_exception_translator([](std::exception_ptr pointer) {
    try {
      if (pointer) std::rethrow_exception(pointer);
    } catch (const monkeytree::StateError& fault) {
      py::object raised = (*error)(fault.what());
      raised.attr("code") = fault.code();
      PyErr_SetObject(error->ptr(), raised.ptr());
    }
  });
  monkeytree::add_arena(module);
  monkeytree::add_transfers(module);
  monkeytree::add_staging(module);
}
