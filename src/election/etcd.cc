#include "election/etcd.h"

#include <fmt/format.h>
#include <httplib.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <mutex>
#include <utility>

#include "base/json.h"
#include "base/status.h"
#include "election/etcd_json.h"

namespace monkeytree {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr int kPage = 500;              // keys
constexpr milliseconds kShortest{100};  // for one endpoint
constexpr size_t kMostIdle = 8;         // connections kept for an endpoint
constexpr size_t kMostAnswer = 256 << 20;

struct Answer {
  int status = 0;  ///< 0: none came
  std::string body;
  std::string fault;  ///< why it is not whole
};

/// Of errors etcd's gateway ends its answers in a way that is not HTTP; their text has come before.
Answer post(httplib::ClientImpl& client, std::string_view path, const std::string& body) {
  Answer out;
  httplib::Request request;
  request.method = "POST";
  request.path = path;
  request.headers.emplace("Content-Type", "application/json");
  request.body = body;
  request.response_handler = [&](const httplib::Response& response) {
    out.status = response.status;
    return true;
  };
  request.content_receiver = [&](const char* data, size_t size, uint64_t, uint64_t) {
    if (out.body.size() + size > kMostAnswer) return false;
    out.body.append(data, size);
    return true;
  };
  const httplib::Result result = client.send(request);
  if (!result) out.fault = httplib::to_string(result.error());
  return out;
}

}  // namespace

absl::StatusOr<EtcdEndpoint> parse_endpoint(std::string_view text) {
  EtcdEndpoint out;
  const auto bad = [&] {
    return absl::InvalidArgumentError(fmt::format(
        "expected http://HOST:PORT or https://HOST:PORT such as http://10.0.0.1:2379, found {}",
        quote(text)));
  };
  std::string_view rest = text;
  constexpr std::string_view kPlain = "http://", kTls = "https://";
  if (rest.starts_with(kTls)) {
    out.tls = true;
    rest.remove_prefix(kTls.size());
  } else if (rest.starts_with(kPlain)) {
    rest.remove_prefix(kPlain.size());
  } else {
    return bad();
  }
  const size_t colon = rest.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return bad();
  std::string_view host = rest.substr(0, colon);
  const std::string_view port = rest.substr(colon + 1);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find_first_of(":/@ []") != std::string_view::npos) {
    return bad();
  }
  const auto [end, fault] = std::from_chars(port.data(), port.data() + port.size(), out.port);
  if (fault != std::errc() || end != port.data() + port.size()) return bad();
  if (out.port <= 0 || out.port > 65535) return bad();
  out.host = host;
  return out;
}

EtcdRange keys_under(const std::string& prefix) {
  // The first key that is greater than all with the prefix; none of ours ends with byte 255.
  std::string end = prefix;
  end.back() = static_cast<char>(static_cast<unsigned char>(end.back()) + 1);
  return {prefix, end};
}

/// Open connections, each to one endpoint and for one call at a time.
class Etcd::Connections {
 public:
  Connections(EtcdAccess access, std::vector<EtcdEndpoint> endpoints)
      : access_(std::move(access)), endpoints_(std::move(endpoints)), idle_(endpoints_.size()) {}

  size_t size() const { return endpoints_.size(); }
  /// The endpoint that answered last.
  size_t first() const { return first_; }
  void answered(size_t endpoint) { first_ = endpoint; }
  std::string name(size_t endpoint) const { return printable(access_.endpoints[endpoint]); }

  std::unique_ptr<httplib::ClientImpl> take(size_t endpoint) {
    {
      const std::lock_guard lock(mutex_);
      auto& idle = idle_[endpoint];
      if (!idle.empty()) {
        auto client = std::move(idle.back());
        idle.pop_back();
        return client;
      }
    }
    const EtcdEndpoint& at = endpoints_[endpoint];
    std::unique_ptr<httplib::ClientImpl> client;
    if (at.tls) {
      auto secure = std::make_unique<httplib::SSLClient>(at.host, at.port, access_.tls.certificate,
                                                         access_.tls.key);
      if (!access_.tls.ca.empty()) secure->set_ca_cert_path(access_.tls.ca);
      secure->enable_server_certificate_verification(true);
      client = std::move(secure);
    } else {
      client = std::make_unique<httplib::ClientImpl>(at.host, at.port);
    }
    client->set_keep_alive(true);
    client->set_tcp_nodelay(true);
    return client;
  }

  void give_back(size_t endpoint, std::unique_ptr<httplib::ClientImpl> client) {
    const std::lock_guard lock(mutex_);
    if (idle_[endpoint].size() < kMostIdle) idle_[endpoint].push_back(std::move(client));
  }

 private:
  const EtcdAccess access_;
  const std::vector<EtcdEndpoint> endpoints_;
  std::atomic<size_t> first_ = 0;
  std::mutex mutex_;
  std::vector<std::vector<std::unique_ptr<httplib::ClientImpl>>> idle_;
};

Etcd::Etcd(std::unique_ptr<Connections> connections) : connections_(std::move(connections)) {}
Etcd::~Etcd() = default;

absl::StatusOr<std::unique_ptr<Etcd>> Etcd::open(EtcdAccess access) {
  if (access.endpoints.empty()) return absl::InvalidArgumentError("etcd has no endpoints");
  std::vector<EtcdEndpoint> endpoints;
  for (const std::string& text : access.endpoints) {
    const absl::StatusOr<EtcdEndpoint> endpoint = parse_endpoint(text);
    if (!endpoint.ok()) return endpoint.status();
    endpoints.push_back(*endpoint);
  }
  if (!access.tls.ca.empty()) {
    if (const auto read = read_authorities(access.tls.ca); !read.ok()) {
      return absl::InvalidArgumentError(read.status().message());
    }
  }
  if (!access.tls.certificate.empty()) {
    if (const auto read = read_key(access.tls.key); !read.ok()) {
      return absl::InvalidArgumentError(read.status().message());
    }
  }
  return std::unique_ptr<Etcd>(
      new Etcd(std::make_unique<Connections>(std::move(access), std::move(endpoints))));
}

absl::StatusOr<std::string> Etcd::ask(std::string_view path, const std::string& body, Limit limit) {
  Connections& connections = *connections_;
  const Clock::time_point until = Clock::now() + limit;
  absl::Status last = absl::UnavailableError("no time left to ask etcd");
  const size_t first = connections.first();
  for (size_t i = 0; i < connections.size(); ++i) {
    const size_t endpoint = (first + i) % connections.size();
    const auto left = std::chrono::duration_cast<milliseconds>(until - Clock::now());
    if (i > 0 && left < kShortest) break;
    // Each of those that are left gets the same part.
    const milliseconds part = std::max(left / static_cast<int>(connections.size() - i), kShortest);
    std::unique_ptr<httplib::ClientImpl> client = connections.take(endpoint);
    client->set_connection_timeout(part);
    client->set_read_timeout(part);
    client->set_write_timeout(part);
    const Answer answer = post(*client, path, body);
    if (answer.status == 0) {
      last = absl::UnavailableError(
          fmt::format("etcd at {} does not answer: {}", connections.name(endpoint), answer.fault));
      continue;
    }
    if (answer.status == 200 && answer.fault.empty()) {
      connections.give_back(endpoint, std::move(client));
      connections.answered(endpoint);
      return answer.body;
    }
    const std::string text = fmt::format("etcd at {}: status {}, {}", connections.name(endpoint),
                                         answer.status, etcd_complaint(answer.body));
    if (answer.status == 404) {
      // Of a lease that is gone; and of what speaks HTTP and is no etcd.
      last = absl::NotFoundError(text);
      if (answer.body.find("lease not found") != std::string::npos) return last;
    } else {
      last = answer.status == 400 ? absl::InvalidArgumentError(text) : absl::UnavailableError(text);
    }
  }
  return absl::IsNotFound(last) ? absl::UnavailableError(last.message()) : last;
}

absl::StatusOr<EtcdOutcome> Etcd::change(const EtcdChange& change, Limit limit) {
  const absl::StatusOr<std::string> answer = ask("/v3/kv/txn", json_of(change), limit);
  if (!answer.ok()) return answer.status();
  return parse_outcome(*answer);
}

absl::StatusOr<std::vector<EtcdPair>> Etcd::read(const EtcdRange& range, Limit limit) {
  const Clock::time_point until = Clock::now() + limit;
  std::vector<EtcdPair> all;
  std::string from;
  while (true) {
    const auto left = std::chrono::duration_cast<milliseconds>(until - Clock::now());
    const absl::StatusOr<std::string> answer =
        ask("/v3/kv/range", json_of(range, from, kPage), std::max(left, kShortest));
    if (!answer.ok()) return answer.status();
    absl::StatusOr<EtcdPage> page = parse_page(*answer);
    if (!page.ok()) return page.status();
    std::move(page->pairs.begin(), page->pairs.end(), std::back_inserter(all));
    if (!page->more) return all;
    from = all.back().key + '\0';
  }
}

absl::StatusOr<EtcdLease> Etcd::grant(std::chrono::seconds ttl, Limit limit) {
  const absl::StatusOr<std::string> answer =
      ask("/v3/lease/grant", fmt::format("{{\"TTL\": \"{}\"}}", ttl.count()), limit);
  if (!answer.ok()) return answer.status();
  return parse_lease(*answer);
}

absl::StatusOr<std::chrono::seconds> Etcd::keep_alive(int64_t lease, Limit limit) {
  const absl::StatusOr<std::string> answer =
      ask("/v3/lease/keepalive", fmt::format("{{\"ID\": \"{}\"}}", lease), limit);
  if (absl::IsNotFound(answer.status())) return std::chrono::seconds(0);
  if (!answer.ok()) return answer.status();
  const absl::StatusOr<EtcdLease> left = parse_lease(*answer);
  if (!left.ok()) return left.status();
  return left->ttl;
}

absl::Status Etcd::revoke(int64_t lease, Limit limit) {
  const absl::StatusOr<std::string> answer =
      ask("/v3/lease/revoke", fmt::format("{{\"ID\": \"{}\"}}", lease), limit);
  return absl::IsNotFound(answer.status()) ? absl::OkStatus() : answer.status();
}

}  // namespace monkeytree
