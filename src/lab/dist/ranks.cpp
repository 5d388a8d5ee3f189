#include "dist/ranks.h"

#include <charconv>
#include <cstdlib>

#include "base/error.h"
#include "base/quote.h"

namespace dp {
namespace {

constexpr int kMostRanks = 1 << 16;

std::optional<int> number(const Environment& environment, const char* name, int least, int most) {
  const std::optional<std::string> text = environment(name);
  if (!text) return std::nullopt;
  int value = 0;
  const char* end = text->data() + text->size();
  const auto [stop, error] = std::from_chars(text->data(), end, value);
  if (error != std::errc() || stop != end || value < least || value > most)
    throw InputError(std::string("the environment has ") + name + " = " + quote(*text) +
                     ", expected a number from " + std::to_string(least) + " to " +
                     std::to_string(most));
  return value;
}

// Rank and size by these names; none if the first is not there.
std::optional<Ranks> place(const Environment& environment, const char* rank_name,
                           const char* size_name) {
  if (!environment(rank_name)) return std::nullopt;
  const std::optional<int> size = number(environment, size_name, 1, kMostRanks);
  if (!size)
    throw InputError(std::string("the environment has ") + rank_name + " but no " + size_name +
                     ", expected both or neither");
  Ranks ranks;
  ranks.size = *size;
  ranks.rank = *number(environment, rank_name, 0, *size - 1);
  return ranks;
}

void set_address(const Environment& environment, Ranks& ranks, const std::string& fallback) {
  ranks.address = environment("MASTER_ADDR").value_or(fallback);
  if (ranks.address.empty() && ranks.size > 1)
    throw InputError(
        "the environment has no MASTER_ADDR, expected the name or address of rank 0's machine");
  if (const std::optional<int> port = number(environment, "MASTER_PORT", 1, 65535))
    ranks.port = static_cast<uint16_t>(*port);
}

}  // namespace

std::string first_node(const std::string& list) {
  const size_t bracket = list.find('['), comma = list.find(',');
  if (bracket == std::string::npos || comma < bracket) return list.substr(0, comma);
  const size_t end = list.find_first_of(",-]", bracket);
  if (end == std::string::npos) return list.substr(0, bracket);
  return list.substr(0, bracket) + list.substr(bracket + 1, end - bracket - 1);
}

std::optional<Ranks> ranks_from(const Environment& environment) {
  std::optional<Ranks> ranks = place(environment, "RANK", "WORLD_SIZE");
  if (ranks) {
    set_address(environment, *ranks, "");
    if (environment("TORCHELASTIC_USE_AGENT_STORE") == "True")
      ranks->agent_attempt = environment("TORCHELASTIC_RESTART_COUNT").value_or("0");
  } else if ((ranks = place(environment, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"))) {
    const auto local = number(environment, "OMPI_COMM_WORLD_LOCAL_SIZE", 1, kMostRanks);
    set_address(environment, *ranks, local == ranks->size ? "127.0.0.1" : "");
  } else if (const auto nodes = environment("SLURM_STEP_NODELIST")) {
    // A batch script has SLURM_PROCID too, but only what srun starts has a step.
    const char* size =
        environment("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
    ranks = place(environment, "SLURM_PROCID", size);
    if (!ranks) return std::nullopt;
    // Jobs that share a node must not share a port.
    if (const auto job = number(environment, "SLURM_JOB_ID", 0, 2147483647))
      ranks->port = static_cast<uint16_t>(20000 + *job % 20000);
    set_address(environment, *ranks, first_node(*nodes));
  }
  if (ranks && ranks->size == 1) return std::nullopt;
  return ranks;
}

std::optional<Ranks> ranks_from_environment() {
  return ranks_from([](const char* name) -> std::optional<std::string> {
    const char* text = std::getenv(name);
    return text ? std::optional<std::string>(text) : std::nullopt;
  });
}

}  // namespace dp
