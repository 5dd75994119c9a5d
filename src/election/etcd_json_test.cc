#include "election/etcd_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace monkeytree {
namespace {

using testing::HasSubstr;

TEST(EtcdJson, ATransactionComparesChangesOrReads) {
  EtcdChange change;
  change.where = {{"/m/leader", EtcdChange::Revision::kCreated, 7},
                  {"/m/a", EtcdChange::Revision::kModified, 0}};
  change.puts = {{"/m/a", "x", 12}};
  change.removals = {{"/m/b", "/m/c"}};
  change.otherwise = {{"/m/leader", ""}};
  EXPECT_EQ(json_of(change),
            R"({"compare":[{"key":"L20vbGVhZGVy","target":"CREATE","result":"EQUAL",)"
            R"("create_revision":"7"},{"key":"L20vYQ==","target":"MOD","result":"EQUAL",)"
            R"("mod_revision":"0"}],"success":[{"request_delete_range":{"key":"L20vYg==",)"
            R"("range_end":"L20vYw=="}},{"request_put":{"key":"L20vYQ==","value":"eA==",)"
            R"("lease":"12"}}],"failure":[{"request_range":{"key":"L20vbGVhZGVy"}}]})");
}

TEST(EtcdJson, OutcomesAreRead) {
  const auto done = parse_outcome(R"({"header":{"revision":"41"},"succeeded":true,
      "responses":[{"response_put":{}}]})");
  ASSERT_TRUE(done.ok());
  EXPECT_TRUE(done->done);
  EXPECT_EQ(done->revision, 41);
  const auto refused = parse_outcome(R"({"header":{"revision":"41"},"responses":[
      {"response_range":{"kvs":[{"key":"L20vYQ==","value":"eA==","create_revision":"3",
       "mod_revision":"9","lease":"12"}],"count":"1"}},{"response_range":{}}]})");
  ASSERT_TRUE(refused.ok());
  EXPECT_FALSE(refused->done);
  EXPECT_THAT(refused->found, testing::ElementsAre(EtcdPair{"/m/a", "x", 3, 9, 12}));
}

TEST(EtcdJson, LeasesAreRead) {
  const auto granted = parse_lease(R"({"header":{},"ID":"7587862","TTL":"8"})");
  ASSERT_TRUE(granted.ok());
  EXPECT_EQ(granted->id, 7587862);
  EXPECT_EQ(granted->ttl, std::chrono::seconds(8));
  const auto gone = parse_lease(R"({"result":{"header":{},"ID":"7587862"}})");
  ASSERT_TRUE(gone.ok());
  EXPECT_EQ(gone->ttl, std::chrono::seconds(0));
  // The longest that etcd grants, and one that no clock of ours can count.
  EXPECT_TRUE(parse_lease(R"({"ID":"1","TTL":"9000000000"})").ok());
  EXPECT_FALSE(parse_lease(R"({"ID":"1","TTL":"9223372036854775807"})").ok());
}

TEST(EtcdJson, NonsenseIsAnError) {
  for (const char* text :
       {"", "[]", "{}", "<html>", R"({"header":{"revision":"x"}})", R"({"header":{}})"}) {
    EXPECT_FALSE(parse_outcome(text).ok()) << text;
    EXPECT_FALSE(parse_lease(text).ok()) << text;
  }
  EXPECT_THAT(std::string(parse_outcome("<html>").status().message()), HasSubstr("JSON gateway"));
  EXPECT_FALSE(parse_page(R"({"header":{},"kvs":[{"key":"%%"}]})").ok());
  EXPECT_FALSE(parse_page(R"({"header":{},"more":true})").ok());
  EXPECT_EQ(etcd_complaint(R"({"error":"etcdserver: no leader","code":14})"),
            "etcdserver: no leader");
}

TEST(EtcdJson, KeysUnderAPrefix) { EXPECT_EQ(keys_under("/m/").end, "/m0"); }

TEST(EtcdJson, Endpoints) {
  const auto one = parse_endpoint("https://[::1]:2379");
  ASSERT_TRUE(one.ok());
  EXPECT_TRUE(one->tls);
  EXPECT_EQ(one->host, "::1");
  EXPECT_EQ(one->port, 2379);
  for (const char* bad : {"", "localhost:2379", "http://", "http://a", "http://a:0", "http://a:b",
                          "http://a/b:1", "ftp://a:1", "http://::1:2379"}) {
    EXPECT_FALSE(parse_endpoint(bad).ok()) << bad;
  }
}

}  // namespace
}  // namespace monkeytree
