#include "tools/verify_options.h"

#include <charconv>

#include "base/error.h"
#include "base/quote.h"

namespace dp::cli {
namespace {

int64_t parse_number(const std::string& text, const std::string& option, const std::string& value,
                     const char* expected) {
  int64_t number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 0)
    throw InputError(option + ": expected " + expected + ", got " + quote(value));
  return number;
}

}  // namespace

void WordOptions::parse() {
  // A batch of words is held in memory; --long is not.
  constexpr int64_t kMostRandom = int64_t{1} << 32, kLongestRandom = 1 << 20;
  constexpr const char *kWords = "all:N, all words of N symbols, or none",
                       *kRandom = "WORDSxLENGTH, or none";
  options.all_words_up_to = 0, options.random_words = 0;
  if (words != "none") {
    if (!words.starts_with("all:"))
      throw InputError(std::string("--words: expected ") + kWords + ", got " + quote(words));
    options.all_words_up_to = parse_number(words.substr(4), "--words", words, kWords);
  }
  if (random != "none") {
    const size_t x = random.find('x');
    if (x == std::string::npos)
      throw InputError(std::string("--random: expected ") + kRandom + ", got " + quote(random));
    options.random_words = parse_number(random.substr(0, x), "--random", random, kRandom);
    options.random_length = parse_number(random.substr(x + 1), "--random", random, kRandom);
    if (options.random_length > kLongestRandom || options.random_words > kMostRandom)
      throw InputError("--random: expected at most 2^32 words of 2^20 symbols, got " +
                       quote(random) + "; --long checks one word of any length");
  }
  if (options.all_words_up_to == 0 && options.random_words * options.random_length == 0 &&
      options.long_length == 0)
    throw InputError(
        "--words, --random and --long leave no word to check, expected at least one of them");
}

nlohmann::ordered_json WordOptions::settings() const {
  return {{"all_words_up_to", options.all_words_up_to},
          {"most_words", options.most_words},
          {"random_words", options.random_words},
          {"random_length", options.random_length},
          {"long", options.long_length},
          {"seed", options.seed}};
}

nlohmann::ordered_json stored_rows(const JsonOption& json, const nlohmann::ordered_json& settings,
                                   const std::string& field) {
  const auto stored = json.read();
  if (!stored) return nlohmann::ordered_json::array();
  for (const auto& [name, value] : settings.items())
    if (!stored->contains(name) || (*stored)[name] != value)
      throw InputError("--resume: the file of --json has another " + name + ", expected " +
                       value.dump());
  return (*stored)[field];
}

void WordOptions::add_to(CLI::App& app) {
  app.add_option("--words", words,
                 "all:N checks every word of N symbols, or of fewer if --most-words is too small "
                 "for that; none")
      ->capture_default_str();
  app.add_option("--most-words", options.most_words, "largest number of words for --words")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40))
      ->capture_default_str();
  app.add_option("--random", random, "number and length of random words, as WORDSxLENGTH; none")
      ->capture_default_str();
  app.add_option("--long", options.long_length, "length of one long random word; 0: none")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 40))
      ->capture_default_str();
  app.add_option("--seed", options.seed, "seed of the random words")->capture_default_str();
}

}  // namespace dp::cli
