#include "agent/data_address.h"

#include <gtest/gtest.h>

namespace monkeytree {
namespace {

const std::vector<InterfaceAddress> kMachine = {
    {"lo", "127.0.0.1"}, {"eth0", "192.168.1.5"}, {"eth1", "10.1.0.7"},       {"eth1", "10.1.0.8"},
    {"ib0", "fe80::1"},  {"ib0", "fd00::7"},      {"eth2", "10.2.0.7", false}};

std::string found(std::string_view wanted) {
  const absl::StatusOr<std::string> address = resolve_data_address(wanted, kMachine);
  return address.ok() ? *address : "";
}

TEST(DataAddress, IsFoundByWhatAnOperatorWrites) {
  EXPECT_EQ(found("eth1"), "10.1.0.7");
  EXPECT_EQ(found("ib0"), "fd00::7");
  EXPECT_EQ(found("10.1.0.8"), "10.1.0.8");
  EXPECT_EQ(found("fd00:0::7"), "fd00::7");
  EXPECT_EQ(found("10.1.0.0/16"), "10.1.0.7");
  EXPECT_EQ(found("10.0.0.0/8"), "10.1.0.7");
  EXPECT_EQ(found("192.168.1.4/31"), "192.168.1.5");
  EXPECT_EQ(found("fd00::/64"), "fd00::7");
  EXPECT_EQ(found("0.0.0.0/0"), "127.0.0.1");
}

TEST(DataAddress, IsRefusedWhereNothingFits) {
  for (const char* bad : {"", "eth2", "eth9", "10.1.0.9", "10.2.0.0/16", "10.1.0.0/33", "10.1/x",
                          "192.168.1.6/31", "10.1.0.0/"}) {
    EXPECT_EQ(found(bad), "") << bad;
  }
  EXPECT_NE(resolve_data_address("eth9", kMachine).status().message().find("eth1 10.1.0.7"),
            absl::string_view::npos);
}

TEST(DataAddress, SeesThisMachine) {
  EXPECT_EQ(resolve_data_address("127.0.0.1", interface_addresses()).value_or(""), "127.0.0.1");
}

}  // namespace
}  // namespace monkeytree
