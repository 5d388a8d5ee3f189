// Which of several processes this one is, as whatever started them says.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace dp {

/// One of `size` processes that train together. Rank 0 listens at address:port, where the others find it.
struct Ranks {
  int rank = 0, size = 1;
  std::string address = "127.0.0.1";
  uint16_t port = 29500;
  /// Not empty: whoever started the ranks listens there instead, and may have done so for an earlier attempt.
  std::string agent_attempt = {};
};

/// The value of an environment variable, or nothing.
using Environment = std::function<std::optional<std::string>(const char* name)>;

/// From RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, as torchrun and dp launch set them; else from Open MPI's
/// OMPI_COMM_WORLD_*; else from those of a Slurm step, whose first node then has rank 0. None: a process alone, which
/// a world of one is too. Throws InputError that names the variable.
std::optional<Ranks> ranks_from(const Environment& environment);
std::optional<Ranks> ranks_from_environment();

/// The first of Slurm's "node[07-09,12],login1": "node07".
std::string first_node(const std::string& list);

}  // namespace dp
