#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <sys/types.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "namespaces.h"
#include "state/fd.h"
#include "utilisation.h"

namespace monkeytree {

struct FabricSize {
  int racks = 4, hosts = 4, spines = 2;  ///< hosts of each rack; every rack reaches every spine
  int uplink_mbit = 0;                   ///< of an uplink, in each direction; 0: not capped
  bool hosts_capped = false;             ///< the cables of hosts, too, to the same rate
  /// A network of its own, not capped, joins all hosts and one more, "head", for whatever manages
  /// them: a host has its address there on mgmt0.
  bool management = false;
  friend bool operator==(const FabricSize&, const FabricSize&) = default;
};

/// "", or what is wrong with the shape.
std::string why_no_fabric(const FabricSize& shape);

// Names and addresses within a fabric; all count from 0.
std::string host_name(int rack, int host);     ///< "h1_0"; its interface is eth0
std::string router_name(int rack);             ///< "t1"; h0 … to hosts, up0 … to spines
std::string spine_name(int spine);             ///< "s0"; dn0 … to racks
std::string host_address(int rack, int host);  ///< "10.1.0.2"
std::string management_address(int rack, int host);
inline constexpr const char *kHead = "head", *kHeadAddress = "172.31.255.254";
std::string spine_address(int rack, int spine);  ///< of a spine as the rack sees it
std::vector<std::string> spine_addresses(int rack, int spines);

/// A leaf-spine fabric on this machine: hosts, top-of-rack routers and spines are network
/// namespaces joined by virtual cables, and racks choose uplinks by the kernel's own ECMP over
/// addresses, protocol and ports. Each router hashes with a seed of its own.
///
/// Its namespaces have no names and are held by the process that called up(): any number of fabrics
/// live side by side, and one is gone when its holder is gone and nothing runs in it any more.
class Fabric {
 public:
  /// Why tests must be skipped on this machine: "" where nothing is missing.
  static std::string missing();
  static absl::StatusOr<std::unique_ptr<Fabric>> up(const FabricSize& shape);
  /// The fabric that another process holds. NotFound: it holds none.
  static absl::StatusOr<std::unique_ptr<Fabric>> held_by(pid_t process);

  const FabricSize& shape() const { return shape_; }
  std::vector<std::string> names() const;
  /// For `nsenter --net=PATH`; "" where nothing has that name.
  std::string path(const std::string& name) const;
  /// As inside_namespace(); NotFound where nothing has that name.
  absl::Status inside(const std::string& name, const std::function<void()>& what) const;

  /// Takes the cable between a rack and a spine out, or puts it back; all routers know at once.
  absl::Status fail(int rack, int spine);
  absl::Status repair(int rack, int spine);
  bool works(int rack, int spine) const;

  /// What each uplink has carried, by rack, then spine.
  absl::StatusOr<std::vector<UplinkCount>> counts() const;

 private:
  Fabric() = default;
  absl::Status add_namespace(const std::string& name);
  absl::Status cable_up();
  absl::Status set_up(const std::string& name, const std::string& lines);
  absl::Status set_up_host(int rack, int host);
  absl::Status set_up_head();
  absl::Status set_link(int rack, int spine, bool works);
  absl::Status set_routes();
  std::string addresses_of_rack(int rack) const;
  std::string addresses_of_spine(int spine) const;
  std::vector<std::string> sources(int first, int last) const;
  absl::Status cap_uplinks() const;
  absl::Status cap_hosts() const;

  FabricSize shape_;
  pid_t holder_ = 0;
  std::map<std::string, Fd> spaces_;
};

/// Ends what still runs in fabrics whose holders are gone; returns how many processes that were.
int sweep_fabrics();

}  // namespace monkeytree
