// What commands of dp need the lab for. without_lab.cpp has dp's side, which starts dp-lab in its place; with_lab.cpp that of
// dp-lab, which links libtorch.
#pragma once
#include <filesystem>

#include "io/model_config.h"
#include "runtime/model_size.h"

namespace dp::cli {

/// Whether this program is dp-lab.
bool is_lab();
/// Whether it lies beside this one.
bool is_lab_installed();
/// Replaces this process by dp-lab, with the same arguments: for commands and models that need libtorch. Throws InputError
/// if it is not installed beside dp.
[[noreturn]] void run_in_lab();

/// The size of any model; the runtime knows that of those it runs.
ModelSize size_in_lab(const ModelConfig& config);
ModelSize any_model_size(const ModelConfig& config);
/// Throws InputError unless the directory holds the model that its config.json describes: for models that the runtime does
/// not run.
void check_model_in_lab(const std::filesystem::path& directory);
/// Gives torch and OpenBLAS so many threads; in the lab only.
void set_lab_threads(int threads);

}  // namespace dp::cli
