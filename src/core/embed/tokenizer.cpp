#include "deltaproduct/tokenizer.h"

#include "base/error.h"
#include "deltaproduct/error.h"
#include "text/tokenizer.h"

namespace deltaproduct {

struct Tokenizer::Data {
  std::unique_ptr<dp::Tokenizer> tokenizer;
};

Tokenizer Tokenizer::open(const std::filesystem::path& path) {
  try {
    return Tokenizer(std::make_shared<const Data>(Data{dp::load_tokenizer(path.string())}));
  } catch (const dp::InputError& error) {
    throw Error(error.what());
  }
}

int64_t Tokenizer::vocabulary_size() const { return data_->tokenizer->vocab_size(); }

std::vector<int64_t> Tokenizer::encode(std::string_view text) const {
  const std::vector<int32_t> tokens = data_->tokenizer->encode(text);
  return {tokens.begin(), tokens.end()};
}

std::string Tokenizer::decode(std::span<const int64_t> tokens) const {
  std::vector<int32_t> narrow;
  for (const int64_t token : tokens) {
    if (token < 0 || token >= vocabulary_size())
      throw Error("tokens must be from 0 to " + std::to_string(vocabulary_size() - 1) + ", got " +
                  std::to_string(token));
    narrow.push_back(static_cast<int32_t>(token));
  }
  return data_->tokenizer->decode(narrow);
}

std::optional<int64_t> Tokenizer::begin_token() const { return data_->tokenizer->bos(); }
std::optional<int64_t> Tokenizer::end_token() const { return data_->tokenizer->eos(); }

}  // namespace deltaproduct
