// dp-train-sentencepiece TYPE VOCABULARY SENTENCES: sentences on stdin, one per line, a model on stdout. A program of its
// own because Debian's libsentencepiece and libtorch cannot be linked together: each brings a protobuf, and calls
// the other's. Exit code 2: stdout has the reason instead.
#include <sentencepiece_trainer.h>

#include <algorithm>
#include <cctype>
#include <iostream>
#include <string>
#include <utility>

namespace {

// The library's own; Abseil's in newer versions.
using Status = decltype(std::declval<const sentencepiece::SentenceIterator&>().status());

template <class S>
std::string message_text(const S& status) {
  if constexpr (requires { status.error_message(); })
    return status.error_message();
  else
    return std::string(status.message());
}

class Lines final : public sentencepiece::SentenceIterator {
 public:
  Lines() { Next(); }
  bool done() const override { return done_; }
  void Next() override { done_ = !std::getline(std::cin, line_); }
  const std::string& value() const override { return line_; }
  Status status() const override { return {}; }

 private:
  std::string line_;
  bool done_ = false;
};

// "INTERNAL: src/file.cc(590) [(condition)] What is wrong. Please do this." -> "what is wrong; please do this"
std::string status_reason(const Status& status) {
  std::string text = message_text(status);
  if (const size_t at = text.rfind("] "); at != std::string::npos) text.erase(0, at + 2);
  text.resize(std::min(text.find(". Increase"), text.size()));  // options that nobody has here
  while (text.ends_with('.') || text.ends_with(' ')) text.pop_back();
  const auto lower = [&](size_t at) {
    if (at < text.size())
      text[at] = static_cast<char>(std::tolower(static_cast<unsigned char>(text[at])));
  };
  lower(0);
  for (size_t at; (at = text.find(". ")) != std::string::npos; lower(at + 2)) text[at] = ';';
  return text.empty() ? "there is too little text" : text;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::cout << "expected TYPE VOCABULARY SENTENCES";
    return 2;
  }
  std::ios::sync_with_stdio(false);
  Lines lines;
  std::string model;
  const auto status = sentencepiece::SentencePieceTrainer::Train(
      {{"model_type", argv[1]},
       {"vocab_size", argv[2]},
       {"input_sentence_size", argv[3]},
       {"shuffle_input_sentence", "true"},
       // Whatever bytes go in come out again.
       {"byte_fallback", "true"},
       {"normalization_rule_name", "identity"},
       {"add_dummy_prefix", "false"},
       {"remove_extra_whitespaces", "false"},
       {"allow_whitespace_only_pieces", "true"},
       {"num_threads", "4"},  // sums, and so the result, depend on it
       {"minloglevel", "3"}},
      &lines, &model);
  if (!status.ok()) {
    std::cout << status_reason(status);
    return 2;
  }
  std::cout.write(model.data(), static_cast<std::streamsize>(model.size())).flush();
  return std::cout ? 0 : 1;
}
