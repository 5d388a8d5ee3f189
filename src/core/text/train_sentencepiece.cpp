#include "text/train_sentencepiece.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include "base/child_process.h"
#include "base/error.h"
#include "base/quote.h"
#include "base/utf8.h"
#include "text/sentencepiece_words.h"

namespace dp {
namespace fs = std::filesystem;

namespace {

constexpr size_t kLongestSentence =
    4000;  // bytes; SentencePiece leaves out those of more than 4192
constexpr size_t kSendAtOnce = 1 << 20;

// Beside this program where it is installed, in src/core/io of the build directory otherwise.
fs::path trainer_program() {
  std::error_code error;
  const fs::path beside = fs::read_symlink("/proc/self/exe", error).parent_path() /
                          fs::path(DP_TRAIN_SENTENCEPIECE).filename();
  for (const fs::path& path : {beside, fs::path(DP_TRAIN_SENTENCEPIECE)})
    if (access(path.c_str(), X_OK) == 0) return path;
  throw std::runtime_error("the program " + quote(beside.string()) +
                           " is missing: it trains tokenizers");
}

// Starts the program with `socket` as its input and output, and nowhere to write messages to.
pid_t start_trainer(const std::vector<std::string>& words, int socket) {
  const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
  const auto closing = [&] { if (nowhere >= 0) close(nowhere); };
  try {
    const pid_t process =
        start_child({.command = words, .input = socket, .output = socket, .error = nowhere});
    closing();
    return process;
  } catch (...) {
    closing();
    throw;
  }
}

// Where a line that is too long can be cut: behind a space, or else between characters.
size_t cut_of_sentence(std::string_view line) {
  if (line.size() <= kLongestSentence) return line.size();
  const size_t space = line.rfind(' ', kLongestSentence - 1);
  if (space != std::string_view::npos && space > 0) return space;
  size_t cut = kLongestSentence;
  while (static_cast<uint8_t>(line[cut]) >> 6 == 2) --cut;
  return cut;
}

}  // namespace

SentencePieceTrainer::SentencePieceTrainer(const SentencePieceTraining& options)
    : vocab_size_(options.vocab_size) {
  if (options.type != "bpe" && options.type != "unigram")
    throw InputError("a tokenizer's type is " + quote(options.type) + ", expected bpe or unigram");
  if (options.vocab_size < 260 || options.vocab_size > 1 << 20)
    throw InputError(
        "a vocabulary of " + std::to_string(options.vocab_size) +
        " is impossible, expected 260 to 1048576: 256 bytes, 3 special tokens and at " +
        "least one piece");
  std::array<int, 2> sockets{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets.data()) != 0)
    throw std::system_error(errno, std::generic_category(), "socketpair");
  socket_ = sockets[0];
  try {
    process_ =
        start_trainer({trainer_program().string(), options.type, std::to_string(options.vocab_size),
                       std::to_string(options.most_sentences)},
                      sockets[1]);
  } catch (...) {
    close(sockets[0]), close(sockets[1]);
    throw;
  }
  close(sockets[1]);
}

SentencePieceTrainer::~SentencePieceTrainer() {
  if (socket_ >= 0) close(socket_);
  if (process_ < 0) return;
  kill(process_, SIGKILL);
  waitpid(process_, nullptr, 0);
}

void SentencePieceTrainer::add(std::string_view text) {
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    // The sign for spaces would be learnt as a space.
    while (!line.empty()) {
      const std::string_view valid = line.substr(0, utf8_prefix(line));
      const std::string_view part = valid.substr(0, valid.find(kSpaceSign));
      add_line(part);
      line.remove_prefix(std::min(
          line.size(), part.size() + (part.size() < valid.size() ? kSpaceSign.size() : 1)));
    }
  }
}

void SentencePieceTrainer::add_line(std::string_view line) {
  while (!line.empty()) {
    const size_t cut = cut_of_sentence(line);
    (buffer_ += line.substr(0, cut)) += '\n';
    line.remove_prefix(cut);
  }
  if (buffer_.size() >= kSendAtOnce) send(false);
}

// If the process has ended, finish() finds out why.
void SentencePieceTrainer::send(bool all) {
  std::string_view rest = buffer_;
  while (!rest.empty()) {
    const ssize_t sent = ::send(socket_, rest.data(), rest.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) break;
    rest.remove_prefix(static_cast<size_t>(sent));
  }
  buffer_.clear();
  if (all) shutdown(socket_, SHUT_WR);
}

std::string SentencePieceTrainer::finish() {
  send(true);
  std::string output;
  std::array<char, 1 << 16> block{};
  for (ssize_t count; (count = read(socket_, block.data(), block.size())) != 0;) {
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) break;
    output.append(block.data(), static_cast<size_t>(count));
  }
  const int status = wait_for_child(process_);
  process_ = -1;
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0 && !output.empty()) return output;
  if (WIFEXITED(status) && WEXITSTATUS(status) == 2)
    throw InputError("cannot train a tokenizer of " + std::to_string(vocab_size_) +
                     " pieces: " + output);
  throw std::runtime_error("the process that trains the tokenizer gave no result and " +
                           describe_end(status));
}

}  // namespace dp
