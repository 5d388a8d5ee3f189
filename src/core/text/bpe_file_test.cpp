#include "text/bpe_file.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "text/test_tokenizer_files.h"

namespace dp {
namespace {

using nlohmann::json;

// What the message must contain when `change` is made to a good file.
void expect_refused(const std::function<void(json&)>& change,
                    const std::vector<std::string>& texts) {
  // h e -> 256, l l -> 257, he ll -> 258, hell o -> 259
  json file = test::bpe_json({{"h", "e"}, {"l", "l"}, {"he", "ll"}, {"hell", "o"}});
  file["added_tokens"] = {test::added_token(260, "<|endoftext|>", true)};
  change(file);
  try {
    parse_bpe_file(file.dump(), "f.json");
    ADD_FAILURE() << "took it, expected " << texts[0];
  } catch (const InputError& error) {
    const std::string message = error.what();
    EXPECT_TRUE(message.starts_with("f.json: ")) << message;
    for (const std::string& text : texts)
      EXPECT_NE(message.find(text), std::string::npos) << message << "\nhas no " << text;
  }
}

TEST(BpeFile, IsRefusedWithASentence) {
  const auto refused = expect_refused;
  refused([](json& f) { f.erase("model"); }, {"model is missing, expected an object"});
  refused([](json& f) { f["model"]["type"] = "Unigram"; },
          {"model.type is 'Unigram', expected 'BPE'"});
  refused([](json& f) { f["model"]["vocab"]["x"] = 70000000; },
          {"token 'x' has the number '70000000'"});
  refused([](json& f) { f["model"]["vocab"]["x"] = -1; }, {"token 'x' has the number '-1'"});
  refused([](json& f) { f["model"]["vocab"]["x"] = "1"; }, {"token 'x'"});
  refused([](json& f) { f["model"]["vocab"]["xx"] = 5; },
          {"model.vocab: token", "the number 5, which"});
  refused([](json& f) { f["model"]["vocab"].erase("x"); }, {"no token 'x' for byte 120"});
  refused([](json& f) { f["model"]["vocab"] = json::array(); }, {"model.vocab"});
  refused([](json& f) { f["model"]["merges"][2] = "x y"; }, {"model.merges[2] needs 'xy'"});
  refused([](json& f) { f["model"]["merges"][2] = "xy"; }, {"model.merges[2]", "two tokens"});
  refused([](json& f) { f["model"]["merges"][2] = "x y z"; }, {"model.merges[2]", "two tokens"});
  refused([](json& f) { f["model"]["merges"][2] = {"x"}; }, {"model.merges[2]", "two tokens"});
  refused([](json& f) { f["model"]["merges"][2] = 3; }, {"model.merges[2]", "a text"});
  refused([](json& f) { f["model"]["merges"] = nullptr; }, {"model.merges", "a list"});
  refused([](json& f) { f["model"]["dropout"] = 0.1; }, {"model.dropout"});
  refused([](json& f) { f["model"]["end_of_word_suffix"] = "</w>"; },
          {"model.end_of_word_suffix is '</w>'"});
  refused([](json& f) { f["normalizer"] = {{"type", "NFKC"}}; }, {"normalizer.type is 'NFKC'"});
  refused([](json& f) { f["pre_tokenizer"] = nullptr; }, {"pre_tokenizer is missing"});
  refused(
      [](json& f) {
        f["pre_tokenizer"] = {{"type", "Metaspace"}};
      },
      {"pre_tokenizer.type is 'Metaspace'"});
  refused(
      [](json& f) {
        f["pre_tokenizer"] = {{"type", "Digits"}};
      },
      {"pre_tokenizer has no 'ByteLevel'"});
  refused([](json& f) { f["decoder"] = {{"type", "WordPiece"}}; }, {"decoder.type is 'WordPiece'"});
  refused(
      [](json& f) {
        f["post_processor"] = {{"type", "BertProcessing"}};
      },
      {"post_processor.type"});
  refused([](json& f) { f["added_tokens"][0]["id"] = 3; },
          {"added_tokens[0] has the number 3, which"});
  refused([](json& f) { f["added_tokens"][0]["content"] = "hello"; },
          {"added_tokens[0]", "model.vocab gives"});
  refused([](json& f) { f["added_tokens"][0]["content"] = ""; },
          {"added_tokens[0].content has 0 bytes"});
  refused([](json& f) { f["added_tokens"][0]["lstrip"] = true; },
          {"added_tokens[0].lstrip is true"});
  refused([](json& f) { f["added_tokens"].push_back(f["added_tokens"][0]); },
          {"added_tokens[1]", "added_tokens[0]"});
  refused([](json& f) { f["added_tokens"][0] = test::added_token(0xe9, "\xc3\xa9", true); },
          {"added_tokens[0]", "for other bytes"});
  const auto split = [](const json& fields) {
    return [fields](json& f) {
      json step = {{"type", "Split"}, {"pattern", {{"Regex", "a"}}}, {"behavior", "Isolated"}};
      step.update(fields);
      f["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", {step, f["pre_tokenizer"]}}};
    };
  };
  refused(split({{"pattern", {{"Regex", "(a"}}}}), {"pattern.Regex", "'(a' is wrong at byte 2"});
  refused(split({{"pattern", {{"Regex", "\\C"}}}}), {"is wrong at byte"});
  refused(split({{"pattern", {{"Regex", std::string(30000, 'a')}}}}), {"has 30000 bytes"});
  refused(split({{"pattern", "a"}}), {"pretokenizers[0].pattern"});
  refused(split({{"behavior", "MergedWithNext"}}),
          {"pretokenizers[0].behavior is 'MergedWithNext'"});
  refused(split({{"type", "ByteLevel"}}), {"pretokenizers[1] follows 'ByteLevel'"});
  std::string deep;
  for (int i = 0; i < 1000; ++i) deep += "{\"a\":";
  EXPECT_THROW(parse_bpe_file(deep, "f.json"), InputError);
  EXPECT_THROW(parse_bpe_file("{", "f.json"), InputError);
  EXPECT_THROW(parse_bpe_file("[]", "f.json"), InputError);
}

}  // namespace
}  // namespace dp
