// How far a long piece of work has come, for people.
#pragma once
#include <cstdint>
#include <string>

#include "base/timer.h"

namespace dp {

/// On a terminal a bar that redraws itself; elsewhere a plain line every few seconds. Writes to stderr.
class Progress {
 public:
  /// `done` of `total` may be behind already, for work that is taken up again.
  Progress(std::string title, int64_t total, int64_t done = 0);
  ~Progress();  // ends the line
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// `text` says how things stand: "loss 0.12". Shown with share done and time left.
  void update(int64_t done, const std::string& text);
  /// A line of its own, above the bar.
  void say(const std::string& line);

 private:
  void draw(int64_t done, const std::string& text);

  std::string title_;
  int64_t total_, first_;
  bool terminal_, drawn_ = false;
  Timer timer_;
  double last_ = -1e9;  // seconds, of the last drawing
};

/// "4 s", "3 min 20 s", "2 h 5 min"
std::string format_duration(double seconds);

}  // namespace dp
