// From `monkeytree certs` to a controller that is asked by HTTPS, as its users meet it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/eventually.h"
#include "identity/authority.h"
#include "identity/tls_files.h"
#include "running_controller.h"

namespace monkeytree {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

/// Certificates as an operator makes them.
class TlsProgram : public testing::Test {
 protected:
  TlsProgram() {
    certs({"ca"});
    certs({"controller", "head"});
  }
  void certs(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), "certs");
    arguments.insert(arguments.end(), {"--folder", folder_.path()});
    const ProgramRun run = run_program(arguments);
    EXPECT_EQ(run.exit_code, 0) << run.err;
  }
  std::string file(const std::string& name) const { return folder_.path() + "/" + name; }
  /// Looks once, and then only when it is told to.
  std::string configuration() const {
    return "scheduler: {kind: recorded, snapshots: [" + std::string(MONKEYTREE_SOURCE_DIR) +
           "/examples/four_racks.json]}\npoll_s: 86400\ntls: {ca: " + file("ca.crt") +
           ", certificate: " + file("controller.crt") + ", key: " + file("controller.key") + "}\n";
  }

  TemporaryFolder folder_;
};

TEST_F(TlsProgram, TheCommandLineAsksByHttps) {
  const RunningController controller(configuration());
  const std::string ca = file("ca.crt");
  EXPECT_TRUE(eventually([&] {
    return controller.run({"status", "--ca", ca}).out.find("4 racks, 32 nodes") !=
           std::string::npos;
  })) << controller.log();
  ProgramRun run = controller.run({"status"});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.err, HasSubstr("for HTTPS --ca or MONKEYTREE_CA_FILE names the CA"));
  setenv("MONKEYTREE_CA_FILE", ca.c_str(), 1);
  EXPECT_EQ(controller.run({"history"}).exit_code, 0);
  unsetenv("MONKEYTREE_CA_FILE");
  const std::string other =
      folder_.write("other.crt", make_authority({unix_now_s(), 9})->certificate);
  run = controller.run({"status", "--ca", other});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.err, AllOf(HasSubstr(" is not believed: the certificate of controller head is "),
                             HasSubstr("signed by \"monkeytree CA ")));
  run = controller.run({"status", "--ca", file("none.crt")});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.err, HasSubstr("none.crt: cannot open: No such file"));
}

TEST_F(TlsProgram, NotificationsGoByHttpsFromTheBackground) {
  const RunningController controller(configuration());
  const std::string ca = file("ca.crt");
  const auto observed = [&] {
    const auto json =
        nlohmann::json::parse(controller.run({"status", "--json", "--ca", ca}).out, nullptr, false);
    return json.is_object() && json["observed_s"].is_number() ? json["observed_s"].get<double>()
                                                              : 0;
  };
  ASSERT_TRUE(eventually([&] { return observed() > 0; }));
  const double first = observed();
  const ProgramRun run = controller.run({"notify", "--ca", ca, "job 4711 has ended"});
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_EQ(run.out + run.err, "");
  EXPECT_TRUE(eventually([&] { return observed() > first; }));
  // Told to wait, it says what is wrong.
  EXPECT_EQ(controller.run({"notify", "--wait", "--ca", ca, "a", "try"}).exit_code, 0);
  const ProgramRun plain = controller.run({"notify", "--wait", "a", "try"});
  EXPECT_EQ(plain.exit_code, 1);
  EXPECT_THAT(plain.err, HasSubstr("for HTTPS --ca"));
}

TEST_F(TlsProgram, RenewedCertificatesNeedNoRestart) {
  const RunningController controller(configuration());
  certs({"renew", "--controller"});
  EXPECT_EQ(controller.run({"status", "--ca", file("ca.crt")}).exit_code, 0);
}

TEST_F(TlsProgram, ItDoesNotStartWithWhatNobodyWouldBelieve) {
  const int64_t then_s = unix_now_s() - int64_t{400} * 86400;
  const Credential ca = make_authority({then_s, 3650}).value();
  const Credential old = issue(ca, CertificateRole::kController, {"head"}, {then_s, 365}).value();
  folder_.write("ca.crt", ca.certificate);
  folder_.write("controller.crt", old.certificate);
  folder_.write("controller.key", old.key);
  const std::string config =
      folder_.write("c.yaml", configuration() + "journal: " + file("journal.db") +
                                  "\nlisten: {http: 127.0.0.1:0, agents: 127.0.0.1:0}\n");
  const ProgramRun run = run_program({"controller", "--config", config});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.err, AllOf(HasSubstr("monkeytree: tls: "), HasSubstr("controller.crt: "),
                             HasSubstr("has expired on ")));
  EXPECT_THAT(run_program({"controller", "--config", config, "--check"}).err,
              StartsWith("monkeytree: as it is now: tls: "));
}

TEST_F(TlsProgram, OtherMachinesAreServedByTlsOnly) {
  const std::string config = folder_.write(
      "c.yaml", "scheduler: {kind: recorded, snapshots: [x]}\nlisten: {http: '0.0.0.0:0'}\n");
  const ProgramRun run = run_program({"controller", "--config", config});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.err, HasSubstr("expected 127.0.0.1 or ::1, or tls, or insecure: true"));
}

}  // namespace
}  // namespace monkeytree
