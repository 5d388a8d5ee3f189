#include <deltaproduct/tokenizer.h>

int main() {
  const auto tokenizer = deltaproduct::Tokenizer::open("bytes");
  return tokenizer.decode(tokenizer.encode("text")) == "text" ? 0 : 1;
}
