// Runs a fuzz target on every file of a folder and on a fixed number of random changes to them:
// always the same inputs, in a second or two, with any compiler.
//
// Usage: fuzz_replay TARGET CORPUS [INPUTS]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string_view>
#include <vector>

#include "target.h"

namespace dp::fuzz {
namespace {
namespace fs = std::filesystem;

// Changes inputs as a fuzzer without feedback does.
class Mutator {
 public:
  explicit Mutator(const std::vector<std::string>& corpus) : corpus_(corpus) {}

  std::string next() {
    std::string input = pick(corpus_);
    for (size_t changes = 1 + below(4); changes > 0; --changes) change(input);
    return input;
  }

 private:
  size_t below(size_t limit) { return limit == 0 ? 0 : random_() % limit; }
  const std::string& pick(const std::vector<std::string>& from) { return from[below(from.size())]; }

  void change(std::string& input) {
    static const std::vector<std::string> kTokens = {"0",
                                                     "-1",
                                                     "1e999",
                                                     "9223372036854775807",
                                                     "18446744073709551615",
                                                     "[",
                                                     "]",
                                                     "{",
                                                     "}",
                                                     "\"",
                                                     ",",
                                                     ":",
                                                     "null",
                                                     "true",
                                                     "0.5",
                                                     "\\u0000",
                                                     "\xff",
                                                     "../",
                                                     "\"a\":1,",
                                                     std::string(8, '\xff'),
                                                     std::string(4, '\0')};
    const size_t at = below(input.size() + 1);
    const size_t length = below(std::min<size_t>(input.size() - at, 16) + 1);
    const std::string& other = pick(corpus_);
    const size_t other_at = below(other.size() + 1);
    switch (below(7)) {
      case 0:
        if (at < input.size()) input[at] = static_cast<char>(input[at] ^ (1 << below(8)));
        return;
      case 1:
        if (at < input.size()) input[at] = static_cast<char>(below(256));
        return;
      case 2:
        input.erase(at, length);
        return;
      case 3:
        input.insert(at, pick(kTokens));
        return;
      case 4:
        input.replace(at, length, pick(kTokens));
        return;
      case 5:
        input.insert(at, other.substr(other_at, below(64)));
        return;
      case 6:
        input.resize(at);
        return;
    }
  }

  const std::vector<std::string>& corpus_;
  std::mt19937_64 random_{20240};
};

bool passes(Target target, const std::string& input, const std::string& what) {
  try {
    target(reinterpret_cast<const uint8_t*>(input.data()), input.size());
    return true;
  } catch (const std::exception& error) {
    const fs::path kept = fs::temp_directory_path() / "fuzz_finding";
    std::ofstream(kept, std::ios::binary) << input;
    std::printf("%s: %s; the input is kept in %s\n", what.c_str(), error.what(), kept.c_str());
    return false;
  }
}

int run(Target target, const fs::path& folder, size_t num_mutations) {
  std::vector<fs::path> paths;
  for (const auto& item : fs::directory_iterator(folder)) paths.push_back(item.path());
  std::ranges::sort(paths);
  std::vector<std::string> corpus;
  size_t num_failed = 0;
  for (const fs::path& path : paths) {
    std::ifstream file(path, std::ios::binary);
    corpus.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    num_failed += !passes(target, corpus.back(), path.string());
  }
  if (corpus.empty()) {
    std::printf("%s is empty\n", folder.c_str());
    return 1;
  }
  Mutator mutator(corpus);
  for (size_t i = 0; i < num_mutations && num_failed == 0; ++i)
    num_failed += !passes(target, mutator.next(), "changed input " + std::to_string(i));
  std::printf("%zu files and %zu changed inputs, %zu failed\n", corpus.size(), num_mutations,
              num_failed);
  return num_failed != 0;
}

}  // namespace
}  // namespace dp::fuzz

int main(int argc, char** argv) {
  const auto target = argc < 3 ? dp::fuzz::targets().end() : dp::fuzz::targets().find(argv[1]);
  if (target == dp::fuzz::targets().end()) {
    std::printf("usage: %s TARGET CORPUS [INPUTS]; targets:", argv[0]);
    for (const auto& [name, function] : dp::fuzz::targets()) std::printf(" %s", name.c_str());
    std::printf("\n");
    return 2;
  }
  return dp::fuzz::run(target->second, argv[2],
                       argc > 3 ? std::strtoul(argv[3], nullptr, 10) : 20'000);
}
