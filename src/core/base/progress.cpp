#include "base/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace dp {
namespace {
constexpr int kWidth = 24;                              // of the bar, in characters
constexpr double kRedraw = 0.1, kPlainLineEvery = 5.0;  // seconds
}  // namespace

Progress::Progress(std::string title, int64_t total, int64_t done)
    : title_(std::move(title)),
      total_(std::max<int64_t>(1, total)),
      first_(done),
      terminal_(isatty(STDERR_FILENO) != 0) {}

Progress::~Progress() {
  if (drawn_ && terminal_) std::fputc('\n', stderr);
}

void Progress::update(int64_t done, const std::string& text) {
  const double now = timer_.seconds();
  if (done < total_ && now - last_ < (terminal_ ? kRedraw : kPlainLineEvery)) return;
  last_ = now;
  draw(done, text);
}

void Progress::say(const std::string& line) {
  if (terminal_) std::fputs("\r\x1b[K", stderr);
  std::fprintf(stderr, "%s\n", line.c_str());
  last_ = -1e9;
}

void Progress::draw(int64_t done, const std::string& text) {
  const double share = static_cast<double>(done) / static_cast<double>(total_);
  std::string left;
  if (done > first_ && done < total_)
    left = ", " +
           format_duration(timer_.seconds() * static_cast<double>(total_ - done) /
                           static_cast<double>(done - first_)) +
           " left";
  if (terminal_) {
    std::string bar;
    for (int i = 0; i < kWidth; ++i) bar += share * kWidth > i + 0.5 ? "█" : "░";
    std::fprintf(stderr, "\r\x1b[K%s %s %3.0f %%  %s%s", title_.c_str(), bar.c_str(), 100 * share,
                 text.c_str(), left.c_str());
  } else {
    std::fprintf(stderr, "%s %3.0f %%  %s%s\n", title_.c_str(), 100 * share, text.c_str(),
                 left.c_str());
  }
  std::fflush(stderr);
  drawn_ = true;
}

std::string format_duration(double seconds) {
  const auto s = static_cast<int64_t>(std::llround(std::max(0.0, seconds)));
  if (s < 60) return std::to_string(s) + " s";
  if (s < 3600) return std::to_string(s / 60) + " min " + std::to_string(s % 60) + " s";
  return std::to_string(s / 3600) + " h " + std::to_string(s % 3600 / 60) + " min";
}

}  // namespace dp
