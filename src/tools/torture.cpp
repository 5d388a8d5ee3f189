// dp torture: training that is killed again and again must end as if nothing had happened.
#include <signal.h>
#include <unistd.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/error.h"
#include "base/progress.h"
#include "base/quote.h"
#include "base/read_file.h"
#include "dist/launcher.h"
#include "tasks/random_stream.h"
#include "tools/command.h"

namespace dp::cli {
namespace {
namespace fs = std::filesystem;
using std::chrono::milliseconds;

struct TortureOptions {
  int64_t kills = 100, steps_per_kill = 10, damages = 0;
  int ranks = 1;
  uint64_t seed = 0;
  std::string out;
  JsonOption json;
};

// With some to spare after the last kill, which may come late where cores are scarce.
int64_t total_steps(const TortureOptions& options) {
  return options.steps_per_kill * std::max(options.kills, options.damages) + 200;
}

std::vector<std::string> train_words(const TortureOptions& options, const fs::path& out) {
  return {"train",
          "word-problem",
          "--group",
          "S3",
          "--hidden",
          "16",
          "--heads",
          "2",
          "--head-dim",
          "8",
          "--mlp",
          "32",
          "--batch",
          "8",
          "--length",
          "16",
          "--curriculum",
          "4",
          "--curriculum-loss",
          "1.7",
          "--eval-every",
          "25",
          "--eval-lengths",
          "16,32",
          "--eval-sequences",
          "8",
          "--checkpoint-every",
          "7",
          "--threads",
          "1",
          "--rank-timeout",
          "30",
          "--steps",
          std::to_string(total_steps(options)),
          "--seed",
          std::to_string(options.seed),
          "--resume",
          "--out",
          out.string()};
}

// The number of steps that metrics.jsonl knows of.
int64_t steps_done(const fs::path& run) {
  std::ifstream file(run / "metrics.jsonl", std::ios::ate);
  const auto size = static_cast<int64_t>(file.tellg());
  if (size <= 0) return 0;
  const int64_t tail = std::min<int64_t>(size, 4096);
  std::string text(static_cast<size_t>(tail), '\0');
  file.seekg(size - tail);
  file.read(text.data(), tail);
  const size_t end = text.rfind('\n');
  if (end == std::string::npos) return 0;
  const size_t begin = text.rfind('\n', end - 1);
  const auto line = nlohmann::json::parse(
      text.substr(begin == std::string::npos ? 0 : begin + 1, end), nullptr, false);
  return line.is_object() ? line.value("step", int64_t{0}) : 0;
}

LaunchEnd run_once(const TortureOptions& options, const fs::path& out,
                   const std::function<void(const std::vector<pid_t>&)>& started) {
  LaunchOptions launch;
  launch.ranks = options.ranks;
  launch.threads_per_rank = 1;
  launch.arguments = train_words(options, out);
  launch.quiet = true;
  launch.started = started;
  return launch_ranks(launch);
}

// Waits for a random moment and kills one rank, or all. At every fourth time while they start, otherwise around the step
// that is due by now, so that the run does not end before it has been killed often enough.
class Killer {
 public:
  Killer(const TortureOptions& options, const fs::path& run, int64_t number) {
    RandomStream random({options.seed, static_cast<uint64_t>(number)});
    const auto per_kill = static_cast<uint32_t>(options.steps_per_kill);
    due_ = options.steps_per_kill * number + random.below(per_kill);
    delay_ = milliseconds(random.below(random.below(4) == 0 ? 400 : 8));
    early_ = delay_ > milliseconds(8);
    victim_ = random.below(static_cast<uint32_t>(options.ranks) + 1);
    run_ = run;
  }
  ~Killer() {
    ended_ = true;
    if (thread_.joinable()) thread_.join();
  }

  void watch(const std::vector<pid_t>& ranks) {
    thread_ = std::thread([this, ranks] {
      const bool behind = steps_done(run_) >= due_;
      while (!early_ && !behind && !ended_ && steps_done(run_) < due_)
        std::this_thread::sleep_for(milliseconds(1));
      std::this_thread::sleep_for(behind ? std::min(40 * delay_, milliseconds(320)) : delay_);
      if (ended_) return;
      for (size_t i = 0; i < ranks.size(); ++i)
        if (victim_ == i || victim_ == ranks.size()) kill(ranks[i], SIGKILL);
    });
  }

 private:
  fs::path run_;
  int64_t due_ = 0;
  milliseconds delay_{};
  bool early_ = false;
  size_t victim_ = 0;  // the number of ranks: all of them
  std::atomic<bool> ended_ = false;
  std::thread thread_;
};

// Flips a bit of the newest checkpoint, or cuts off its end, if an older one is there to fall back on: what a failing
// disk does between two starts of a run. Returns whether it did.
bool damage_newest_checkpoint(const fs::path& run, RandomStream& random) {
  std::vector<fs::path> checkpoints;
  std::error_code error;
  for (const fs::directory_entry& item : fs::directory_iterator(run / "checkpoints", error))
    if (item.path().filename().string().starts_with("step-")) checkpoints.push_back(item.path());
  if (checkpoints.size() < 2) return false;
  const char* const files[] = {"model.safetensors", "optimiser.safetensors", "trainer.json"};
  const fs::path file = *std::ranges::max_element(checkpoints) / files[random.below(3)];
  const auto size = static_cast<uint32_t>(fs::file_size(file, error));
  if (error || size == 0) return false;
  const uint32_t place = random.below(size);
  if (random.below(4) == 0) {
    fs::resize_file(file, place);
    return true;
  }
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekg(place);
  const char flipped = static_cast<char>(stream.get() ^ (1 << random.below(8)));
  stream.seekp(place);
  stream.put(flipped);
  return static_cast<bool>(stream.flush());
}

bool same_bytes(const fs::path& a, const fs::path& b) {
  const std::optional<std::string> left = read_file(a);
  return left && left == read_file(b);
}

// The first file that differs; empty: none.
std::string difference(const TortureOptions& options, const fs::path& a, const fs::path& b) {
  char last[80];
  std::snprintf(last, sizeof last, "checkpoints/step-%09ld/optimiser.safetensors",
                total_steps(options));
  for (const char* name :
       {"model.safetensors", "best/model.safetensors", static_cast<const char*>(last)})
    if (!same_bytes(a / name, b / name)) return name;
  return {};
}

void expect_end(const LaunchEnd& end, const fs::path& run) {
  if (end.exit_code != 0)
    throw std::runtime_error("training in " + quote(run.string()) +
                             " did not come to its end: " + end.complaint);
}

int torture(const TortureOptions& options) {
  options.json.check();
  const fs::path folder =
      options.out.empty() ? fs::temp_directory_path() / ("dp-torture-" + std::to_string(getpid()))
                          : fs::path(options.out);
  if (fs::exists(folder) && !fs::is_empty(folder))
    throw InputError(quote(folder.string()) + " is not empty, expected a new directory");
  const fs::path whole = folder / "whole", killed = folder / "killed";
  expect_end(run_once(options, whole, {}), whole);
  int64_t kills = 0, damages = 0;
  RandomStream random({options.seed, 0xda3a6e});
  {
    Progress progress("torture", options.kills);
    // A kill before there are two checkpoints allows no damage: further kills make up for it.
    while (kills < options.kills || damages < options.damages) {
      Killer killer(options, killed, kills);
      const LaunchEnd end =
          run_once(options, killed, [&](const std::vector<pid_t>& ranks) { killer.watch(ranks); });
      if (end.exit_code == 0) break;  // it was at its end before
      if (end.exit_code != 128 + SIGKILL) expect_end(end, killed);
      ++kills;
      if (damages < options.damages && damage_newest_checkpoint(killed, random)) ++damages;
      progress.update(kills,
                      std::to_string(kills) + " kills, step " + std::to_string(steps_done(killed)));
    }
  }
  expect_end(run_once(options, killed, {}), killed);
  const std::string other = difference(options, whole, killed);
  const bool passed = other.empty() && kills >= options.kills && damages == options.damages;
  std::printf("%ld kills of %d rank%s and %ld damaged checkpoints in %ld steps: %s\n", kills, options.ranks,
              options.ranks == 1 ? "" : "s", damages, total_steps(options),
              !other.empty() ? (other + " differs from that of the run left alone").c_str()
              : passed       ? "the weights of the run left alone, to the bit"
                             : "the run ended before all kills and damages");
  options.json.write({{"kills", kills}, {"damages", damages}, {"ranks", options.ranks}, {"same", other.empty()}});
  if (options.out.empty() && passed) fs::remove_all(folder);
  return passed ? 0 : 1;
}

}  // namespace

Run add_torture(CLI::App& app) {
  auto options = std::make_shared<TortureOptions>();
  app.add_option("--kills", options->kills, "number of SIGKILLs during the run")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--damages", options->damages,
                 "how often to damage the newest checkpoint between kills, by flipping bits or truncating files; at most once per kill")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str();
  app.add_option("-n,--ranks", options->ranks, "processes that train together")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  app.add_option("--steps-per-kill", options->steps_per_kill, "approximate number of updates between two kills")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--seed", options->seed, "seed of the run and of the moments")->capture_default_str();
  app.add_option("--out", options->out,
                 "a new directory for the two runs (default: a temporary one, kept on failure)")
      ->type_name("DIR");
  options->json.add_to(app);
  return [options] { return torture(*options); };
}

}  // namespace dp::cli
