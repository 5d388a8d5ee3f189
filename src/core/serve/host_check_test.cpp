#include "serve/host_check.h"

#include <gtest/gtest.h>

namespace dp::serve {
namespace {

bool takes(const HostCheck& check, const std::string& host, const std::string& origin = "") {
  HttpRequest request;
  if (!host.empty()) request.headers.emplace_back("host", host);
  if (!origin.empty()) request.headers.emplace_back("Origin", origin);
  return !check.refusal(request);
}

TEST(HostCheck, AnswersOnlyToNamesOfTheLoopback) {
  const HostCheck check("127.0.0.1", {});
  for (const char* host :
       {"", "localhost", "LocalHost:8080", "127.0.0.1:8080", "127.1.2.3", "[::1]:8080"})
    EXPECT_TRUE(takes(check, host)) << host;
  for (const char* host : {"evil.example", "127.0.0.1.evil.example", "evil.example:8080",
                           "localhost.evil.example", "192.168.0.1", "[::2]:8080", "["})
    EXPECT_FALSE(takes(check, host)) << host;
}

TEST(HostCheck, AnswersOnlyToItsOwnPages) {
  const HostCheck check("127.0.0.1", {});
  EXPECT_TRUE(takes(check, "localhost:8080", "http://localhost:8080"));
  EXPECT_TRUE(takes(check, "127.0.0.1:8080", "http://localhost:3000"));
  EXPECT_FALSE(takes(check, "localhost:8080", "https://evil.example"));
  EXPECT_FALSE(takes(check, "localhost:8080", "null"));
}

TEST(HostCheck, KnowsNamesThatWereAllowed) {
  const HostCheck check("0.0.0.0", {"models.example"});
  EXPECT_TRUE(takes(check, "models.example:80", "https://models.example"));
  EXPECT_TRUE(takes(check, "localhost"));
  EXPECT_FALSE(takes(check, "other.example"));
}

TEST(HostCheck, AnswersToAnyNameOnOtherAddresses) {
  const HostCheck check("0.0.0.0", {});
  EXPECT_TRUE(takes(check, "10.0.0.7:8080", "http://10.0.0.7:8080"));
  EXPECT_FALSE(takes(check, "10.0.0.7:8080", "https://evil.example"));
}

}  // namespace
}  // namespace dp::serve
