#include "control/controller.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "cluster/fragmentation.h"
#include "control/fake_leadership.h"
#include "inventory/emulated_scheduler.h"

namespace monkeytree {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

/// Agents that do at once whatever they are asked, for workers that are where the books say. What
/// real workers need to have done to them is the business of mover_test.
class WillingAgents final : public Executor {
 public:
  explicit WillingAgents(EmulatedScheduler& cluster) : cluster_(cluster) {}

  std::vector<AgentReport> agents() override {
    const absl::StatusOr<Observation> seen = cluster_.observe(Deadline::max());
    std::vector<AgentReport> reports;
    if (!seen.ok()) return reports;
    const Snapshot& snapshot = seen->snapshot;
    for (const Node& node : snapshot.nodes) {
      reports.push_back(
          {.node = node.name, .connected = true, .last_heard_s = 0, .address = "", .workers = {}});
    }
    for (size_t g = 0; g < snapshot.groups.size(); ++g) {
      const Group& group = snapshot.groups[GroupId(g)];
      for (size_t w = 0; w < group.workers.size(); ++w) {
        WorkerReport worker;
        worker.name = {snapshot.jobs[group.job].id, snapshot.group_index(GroupId(g)),
                       static_cast<int>(w)};
        worker.node = snapshot.nodes[group.workers[w]].name;
        worker.command.arguments = {"train"};
        if (!without_hook.contains(worker.name.job)) {
          reports[static_cast<size_t>(group.workers[w].value)].workers.push_back(worker);
        }
      }
    }
    return reports;
  }
  absl::Status prepare(const std::string&, const WorkerName&, const std::string&, int64_t,
                       Deadline) override {
    return next("prepare");
  }
  absl::StatusOr<int64_t> pause(const std::string&, const std::string&,
                                const std::map<WorkerName, std::string>&, Deadline) override {
    absl::Status status = next("pause");
    if (!status.ok()) return status;
    return 17;
  }
  absl::Status transfer(const std::string&, const WorkerName&, const std::string&,
                        const std::string&, Deadline) override {
    return next("transfer");
  }
  absl::Status restore(const std::string&, const WorkerName&, const std::string&,
                       Deadline) override {
    return next("restore");
  }
  absl::Status resume(const std::string&, const std::string&,
                      const std::map<WorkerName, std::string>&, Deadline) override {
    return next("resume");
  }
  absl::Status release(const std::string&, const WorkerName&, const std::string&,
                       Deadline) override {
    return next("release");
  }
  absl::Status roll_back(const std::string&, const std::string&,
                         const std::map<WorkerName, std::string>&, bool, Deadline) override {
    return next("roll back");
  }
  void apply_routes(const std::vector<PreviousRoute>& given) override {
    const std::lock_guard lock(mutex_);
    routes = given;
  }

  /// What a call of the kind answers from now on.
  void answer(const std::string& call, absl::Status status) {
    const std::lock_guard lock(mutex_);
    answers_[call] = std::move(status);
  }
  /// Calls of the kind wait until let_go().
  void hold_up(const std::string& call) {
    const std::lock_guard lock(mutex_);
    held_up_ = call;
  }
  void let_go() {
    {
      const std::lock_guard lock(mutex_);
      held_up_.clear();
    }
    wake_.notify_all();
  }

  std::set<std::string> without_hook;
  std::vector<PreviousRoute> routes;

 private:
  absl::Status next(const std::string& call) {
    std::unique_lock lock(mutex_);
    wake_.wait(lock, [&] { return held_up_ != call; });
    const auto found = answers_.find(call);
    return found == answers_.end() ? absl::OkStatus() : found->second;
  }

  EmulatedScheduler& cluster_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::map<std::string, absl::Status> answers_;
  std::string held_up_;
};

class ControllerTest : public testing::Test {
 protected:
  ControllerTest() {
    folder_ = std::filesystem::temp_directory_path() /
              ("controller_test." + std::to_string(::getpid()) + "." +
               testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::create_directories(folder_);
    rules_.mode = Mode::kEnforce;
    rules_.policy.min_age_s = rules_.policy.min_left_s = rules_.policy.cool_down_s = 0;
    rules_.policy.pay_back = 0;
    using std::chrono::milliseconds;
    rules_.steps.first_retry = milliseconds(1);
    rules_.steps.longest_retry = milliseconds(5);
    open();
  }
  ~ControllerTest() override {
    agents_.let_go();
    controller_.reset();
    journal_.reset();
    std::filesystem::remove_all(folder_);
  }

  void open() {
    absl::StatusOr<Journal> journal = Journal::open(folder_ / "journal.db");
    ASSERT_TRUE(journal.ok()) << journal.status();
    journal_.emplace(std::move(*journal));
  }
  Controller& controller() {
    if (!controller_) {
      controller_ = std::make_unique<Controller>(
          Controller::Parts{cluster_,
                            agents_,
                            *journal_,
                            [this] { return now_s_; },
                            [this](const Event& event) {
                              const std::lock_guard lock(mutex_);
                              events_.push_back(event.kind + ": " + event.text);
                            },
                            {},
                            leadership_},
          rules_);
    }
    return *controller_;
  }
  /// A controller that dies and another that starts from the same journal.
  void restart() {
    controller_.reset();
    journal_.reset();
    open();
  }

  void submit(std::string id, std::vector<std::string> nodes, std::string comment = "") {
    EmulatedJob job;
    job.id = std::move(id);
    job.groups = {static_cast<int>(nodes.size())};
    job.nodes = std::move(nodes);
    job.comment = std::move(comment);
    ASSERT_TRUE(cluster_.submit(job).ok());
  }
  /// Two jobs across the same two racks of one uplink each: one move mends it.
  void collide() {
    submit("a", {"r0n0", "r1n0"});
    submit("b", {"r0n1", "r1n1"});
  }
  /// The two collide; the plan that mends it is cancelled while its first pause is held up.
  int64_t cancel_while_it_runs() {
    agents_.hold_up("pause");
    collide();
    controller().reconcile();
    EXPECT_THAT(controller().view().running, SizeIs(1));
    const int64_t plan = controller().view().running.at(0);
    EXPECT_TRUE(controller().cancel(plan, "ann").ok());
    return plan;
  }
  int excess_now() {
    const Snapshot snapshot = cluster_.observe(Deadline::max())->snapshot;
    return excess(fragmentation(snapshot), bounds(snapshot));
  }
  /// Turns until nothing more happens.
  void settle() {
    for (int i = 0; i < 4; ++i) {
      controller().reconcile();
      controller().wait_for_plans();
    }
  }
  std::vector<PlanEntry> plans(std::optional<PlanState> state = std::nullopt) {
    return *journal_->plans(state, 100);
  }

  std::filesystem::path folder_;
  double now_s_ = 1.7e9;
  EmulatedScheduler cluster_{uniform_cluster(3, 4, 1, 1), {}, [this] { return now_s_; }};
  WillingAgents agents_{cluster_};
  ControllerRules rules_;
  Leadership* leadership_ = nullptr;
  std::optional<Journal> journal_;
  std::mutex mutex_;
  std::vector<std::string> events_;
  std::unique_ptr<Controller> controller_;
};

TEST_F(ControllerTest, ObserveSaysWhatItWouldDoAndDoesNothing) {
  rules_.mode = Mode::kObserve;
  collide();
  const int holds = cluster_.calls(SchedulerCall::kHold);
  settle();
  EXPECT_EQ(excess_now(), 2);
  EXPECT_EQ(cluster_.calls(SchedulerCall::kHold), holds);
  EXPECT_THAT(agents_.routes, IsEmpty());
  ASSERT_THAT(plans(), SizeIs(1));  // the same plan is not told again at each turn
  EXPECT_EQ(plans()[0].state, PlanState::kProposed);
  EXPECT_EQ(plans()[0].moves, 1);
  EXPECT_THAT(plans()[0].decision, HasSubstr("racks_over"));
}

TEST_F(ControllerTest, EnforceMendsInTheFewestMovesAndRoutes) {
  collide();
  settle();
  EXPECT_EQ(excess_now(), 0);
  ASSERT_THAT(plans(), SizeIs(1));
  EXPECT_EQ(plans()[0].state, PlanState::kDone);
  EXPECT_EQ(plans()[0].moves, 1);
  EXPECT_EQ(cluster_.inconsistency(), "");
  EXPECT_FALSE(agents_.routes.empty());
  EXPECT_THAT(controller().view().running, IsEmpty());
  EXPECT_TRUE(controller().view().ready);
}

TEST_F(ControllerTest, ARecommendedPlanWaitsForAPerson) {
  rules_.mode = Mode::kRecommend;
  collide();
  settle();
  ASSERT_THAT(controller().view().waiting, SizeIs(1));
  const int64_t plan = controller().view().waiting[0];
  EXPECT_EQ(excess_now(), 2);
  EXPECT_TRUE(absl::IsNotFound(controller().approve(plan + 1, "ann")));
  ASSERT_TRUE(controller().approve(plan, "ann").ok());
  settle();
  EXPECT_EQ(excess_now(), 0);
  EXPECT_EQ((*journal_->plan(plan))->state, PlanState::kDone);
  EXPECT_EQ((*journal_->plan(plan))->approved_by, "ann");
  EXPECT_TRUE(absl::IsFailedPrecondition(controller().approve(plan, "ann")));
}

TEST_F(ControllerTest, AnApprovalIsRefusedWhenTheClusterHasChanged) {
  rules_.mode = Mode::kRecommend;
  collide();
  settle();
  const int64_t plan = controller().view().waiting.at(0);
  ASSERT_TRUE(cluster_.end("b").ok());
  const absl::Status refused = controller().approve(plan, "ann");
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("changed"));
  EXPECT_EQ((*journal_->plan(plan))->state, PlanState::kSuperseded);
}

TEST_F(ControllerTest, AWaitingPlanIsDroppedWhenItIsNoLongerNeeded) {
  rules_.mode = Mode::kRecommend;
  collide();
  settle();
  ASSERT_TRUE(cluster_.end("b").ok());
  settle();
  EXPECT_THAT(controller().view().waiting, IsEmpty());
  EXPECT_THAT(plans(PlanState::kSuperseded), SizeIs(1));
}

TEST_F(ControllerTest, AWaitingPlanIsMadeAnewAfterARestart) {
  rules_.mode = Mode::kRecommend;
  collide();
  settle();
  const int64_t before = controller().view().waiting.at(0);
  restart();
  ASSERT_TRUE(controller().start().ok());
  settle();
  ASSERT_THAT(controller().view().waiting, SizeIs(1));
  const int64_t now = controller().view().waiting[0];
  EXPECT_NE(now, before);
  EXPECT_EQ((*journal_->plan(before))->state, PlanState::kSuperseded);
  EXPECT_TRUE(controller().approve(now, "ann").ok());
}

TEST_F(ControllerTest, ACancelledPlanDoesNotComeBackAtOnce) {
  rules_.mode = Mode::kRecommend;
  collide();
  settle();
  ASSERT_TRUE(controller().cancel(controller().view().waiting.at(0), "ann").ok());
  settle();
  EXPECT_THAT(controller().view().waiting, IsEmpty());
  EXPECT_THAT(plans(), SizeIs(1));
  EXPECT_EQ(plans()[0].state, PlanState::kCancelled);
}

TEST_F(ControllerTest, TheKillSwitchOutlivesARestart) {
  ASSERT_TRUE(controller().pause("migration week", "ann").ok());
  collide();
  settle();
  EXPECT_EQ(excess_now(), 2);
  restart();
  ASSERT_TRUE(controller().start().ok());
  EXPECT_TRUE(controller().view().paused);
  EXPECT_THAT(controller().view().paused_why, HasSubstr("migration week"));
  ASSERT_TRUE(controller().resume("ann").ok());
  settle();
  EXPECT_EQ(excess_now(), 0);
}

TEST_F(ControllerTest, JobsThatOptOutOrLackTheHookStay) {
  submit("a", {"r0n0", "r1n0"}, "dp=2 monkeytree=off");
  submit("b", {"r0n1", "r1n1"});
  agents_.without_hook = {"b"};
  settle();
  EXPECT_EQ(excess_now(), 2);
  EXPECT_THAT(plans(), IsEmpty());
  const std::map<std::string, std::string> held = controller().view().held_back;
  EXPECT_THAT(held.at("a"), HasSubstr("monkeytree=off"));
  EXPECT_EQ(held.at("b"), "worker b/0/0 on r0n1 does not carry the hook");
  EXPECT_THAT(events_,
              Contains(HasSubstr("2 of 2 jobs may not move (status says why), a for one")));
  agents_.without_hook.clear();
  settle();
  EXPECT_EQ(excess_now(), 0);  // b moves
  EXPECT_EQ(plans().at(0).moves, 1);
}

TEST_F(ControllerTest, AFailedPlanIsUndoneAndItsJobsAreLeftAloneForAWhile) {
  rules_.policy.cool_down_s = 600;
  agents_.answer("transfer", absl::UnavailableError("cable"));
  collide();
  settle();
  EXPECT_EQ(excess_now(), 2);
  // The other job is tried next, then nothing until the time is over.
  EXPECT_THAT(plans(PlanState::kFailed), SizeIs(2));
  EXPECT_THAT(plans(PlanState::kFailed)[0].reason, HasSubstr("cable"));
  EXPECT_TRUE(cluster_.observe(Deadline::max())->holds.empty());
  settle();
  EXPECT_THAT(plans(PlanState::kFailed), SizeIs(2));
  agents_.answer("transfer", absl::OkStatus());
  now_s_ += 601;
  settle();
  EXPECT_EQ(excess_now(), 0);
}

TEST_F(ControllerTest, ARunningPlanIsCancelledBeforeItsPointOfNoReturn) {
  const int64_t plan = cancel_while_it_runs();
  agents_.let_go();
  controller().wait_for_plans();
  ASSERT_TRUE(controller().pause("", "ann").ok());
  settle();
  EXPECT_EQ((*journal_->plan(plan))->state, PlanState::kCancelled);
  EXPECT_EQ(excess_now(), 2);
  EXPECT_TRUE(cluster_.observe(Deadline::max())->holds.empty());
}

TEST_F(ControllerTest, ACancellationOutlivesARestart) {
  const int64_t plan = cancel_while_it_runs();
  // It stops after the step under way, before it has turned back.
  std::thread later([this] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    agents_.let_go();
  });
  restart();
  later.join();
  ASSERT_TRUE(journal_->set("paused", "by nobody").ok());  // no further plan
  ASSERT_TRUE(controller().start().ok());
  controller().wait_for_plans();
  settle();
  EXPECT_EQ((*journal_->plan(plan))->state, PlanState::kCancelled);
  EXPECT_EQ(excess_now(), 2);
  EXPECT_TRUE(cluster_.observe(Deadline::max())->holds.empty());
  EXPECT_EQ(**journal_->get("cancelled " + std::to_string(plan)), "");
}

TEST_F(ControllerTest, PlansRunBesideEachOther) {
  rules_.policy.moves_per_hour = 100;
  agents_.hold_up("pause");
  submit("a", {"r0n0", "r1n0"});
  submit("b", {"r0n1", "r1n1"});
  controller().reconcile();
  EXPECT_THAT(controller().view().running, SizeIs(1));
  submit("c", {"r2n0", "r2n1"});  // nothing to mend
  controller().reconcile();
  EXPECT_THAT(controller().view().running, SizeIs(1));
  // The first plan has mended racks 0 and 1 as planned; a new job makes another rack too full.
  submit("d", {"r2n2", "r0n3"});
  controller().reconcile();
  const size_t running = controller().view().running.size();
  EXPECT_GE(running, 1u);
  agents_.let_go();
  controller().wait_for_plans();
  settle();
  EXPECT_EQ(excess_now(), 0);
  EXPECT_EQ(cluster_.inconsistency(), "");
}

TEST_F(ControllerTest, APlanUnderWayIsFinishedAfterARestart) {
  agents_.hold_up("transfer");
  collide();
  controller().reconcile();
  ASSERT_THAT(controller().view().running, SizeIs(1));
  // Stopping waits for the step under way, which then ends.
  std::thread later([this] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    agents_.let_go();
  });
  restart();
  later.join();
  ASSERT_TRUE(controller().start().ok());
  controller().wait_for_plans();
  settle();
  EXPECT_EQ(excess_now(), 0);
  ASSERT_THAT(plans(), SizeIs(1));
  EXPECT_EQ(plans()[0].state, PlanState::kDone);
}

TEST_F(ControllerTest, ObserveModeNeedsNoHook) {
  rules_.mode = Mode::kObserve;
  agents_.without_hook = {"a", "b"};
  collide();
  controller().reconcile();
  EXPECT_THAT(controller().view().held_back, IsEmpty());
  EXPECT_THAT(plans(PlanState::kProposed), SizeIs(1));
}

TEST_F(ControllerTest, HoldsOfNobodyAreReportedAndGivenBack) {
  submit("a", {"r0n0", "r0n1"});
  ASSERT_TRUE(cluster_.hold({"a", 0, 1}, "r2n0", "", Deadline::max()).ok());
  ASSERT_TRUE(cluster_.reserve("plan-77", {"r2n1"}, Deadline::max()).ok());
  ASSERT_TRUE(cluster_.reserve("maintenance", {"r2n2"}, Deadline::max()).ok());
  controller().reconcile();
  EXPECT_THAT(controller().view().orphans, ElementsAre(HasSubstr("r2n0")));
  settle();
  const Observation seen = *cluster_.observe(Deadline::max());
  EXPECT_THAT(seen.holds, IsEmpty());
  EXPECT_THAT(seen.reservations, ElementsAre("maintenance"));
}

TEST_F(ControllerTest, ASchedulerThatDoesNotAnswerIsToldOnceAndTriedAgain) {
  collide();
  cluster_.inject(SchedulerCall::kObserve, SchedulerFault::kUnavailable, 2);
  controller().reconcile();
  EXPECT_FALSE(controller().view().ready);
  EXPECT_THAT(controller().view().trouble, HasSubstr("UNAVAILABLE"));
  controller().reconcile();
  settle();
  EXPECT_TRUE(controller().view().ready);
  EXPECT_EQ(excess_now(), 0);
  const std::lock_guard lock(mutex_);
  EXPECT_EQ(std::count_if(events_.begin(), events_.end(),
                          [](const std::string& event) { return event.starts_with("trouble"); }),
            1);
}

TEST_F(ControllerTest, TheLoopWakesOnEventsAndCoalescesThem) {
  rules_.poll_s = 3600;
  rules_.coalesce_ms = 1;
  ASSERT_TRUE(controller().start().ok());
  collide();
  for (int i = 0; i < 100; ++i) controller().notify("job");
  for (int i = 0; i < 2000 && excess_now() > 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(excess_now(), 0);
  EXPECT_LT(cluster_.calls(SchedulerCall::kObserve), 2000 * 3);
}

TEST_F(ControllerTest, AWrongStepOfTheClockDoesNotMatter) {
  rules_.policy.cool_down_s = 600;
  collide();
  settle();
  EXPECT_EQ(excess_now(), 0);
  now_s_ -= 86400 * 30;  // back by a month
  ASSERT_TRUE(cluster_.end("a").ok());
  ASSERT_TRUE(cluster_.end("b").ok());
  settle();  // gives back the node that one of them had by its move
  submit("c", {"r1n2", "r2n2"});
  submit("d", {"r1n3", "r2n3"});
  settle();
  now_s_ += 86400 * 60;
  settle();
  EXPECT_EQ(cluster_.inconsistency(), "");
  EXPECT_EQ(excess_now(), 0);
}

TEST_F(ControllerTest, WhatBecameOfAPlanUnderAnotherLeaderIsTakenOver) {
  FakeLeadership lead;
  lead.now.leads = true;
  lead.now.term = 1;
  lead.now.left = std::chrono::minutes(1);
  leadership_ = &lead;
  collide();
  settle();
  ASSERT_THAT(lead.books.ended, SizeIs(1));
  EXPECT_EQ(lead.books.ended[0].entry.state, PlanState::kDone);

  // Two more were under way here when this controller died: another has ended one, and never heard
  // of the other.
  PlanEntry plan;
  plan.made_s = now_s_;
  plan.state = PlanState::kRunning;
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(journal_->add_plan(plan).ok());
  SharedPlan done{plan, "", {}};
  done.entry.id = 2;
  done.entry.state = PlanState::kDone;
  done.entry.ended_s = now_s_ + 5;
  lead.books.ended.push_back(done);
  lead.books.last_plan = 3;
  restart();
  controller().reconcile();
  EXPECT_EQ((*journal_->plan(2))->state, PlanState::kDone);
  EXPECT_EQ((*journal_->plan(2))->ended_s, now_s_ + 5);
  EXPECT_EQ((*journal_->plan(3))->state, PlanState::kFailed);
  EXPECT_EQ((*journal_->plan(3))->reason, "it ended while another controller led");
}

}  // namespace
}  // namespace monkeytree
