#include "deltaproduct/model.h"

#include <algorithm>
#include <thread>

#include "embed/internals.h"
#include "runtime/model_size.h"

namespace deltaproduct {

struct Model::Data {
  std::shared_ptr<const dp::runtime::Model> model;
  dp::ModelSize size;
};

struct Threads::Data {
  explicit Data(int count) : pool(count) {}
  dp::ThreadPool pool;
};

const std::shared_ptr<const dp::runtime::Model>& Internals::model(const Model& model) {
  return model.data_->model;
}

dp::Executor& Internals::executor(const Threads& threads) { return threads.data_->pool; }

Model Model::open(const std::filesystem::path& directory) {
  return with_public_errors([&] {
    Data data{dp::runtime::Model::open(directory), {}};
    data.size = dp::runtime::model_size(data.model->config());
    return Model(std::make_shared<const Data>(std::move(data)));
  });
}

int64_t Model::vocabulary_size() const { return data_->model->config().vocab_size; }
int64_t Model::num_layers() const { return data_->model->config().num_hidden_layers; }
int64_t Model::hidden_size() const { return data_->model->config().hidden_size; }
int64_t Model::num_parameters() const { return data_->size.parameters(); }
int64_t Model::state_bytes() const { return data_->size.state_bytes; }
int64_t Model::bytes_per_token() const {
  return static_cast<int64_t>(data_->model->bytes_per_token());
}
const std::string& Model::dtype() const { return data_->model->config().dtype; }
const std::vector<int64_t>& Model::end_tokens() const {
  return data_->model->config().eos_token_ids;
}

Threads::Threads(int count) {
  constexpr int kMost = 1024;
  if (count < 0 || count > kMost)
    throw Error("the number of threads is " + std::to_string(count) + ", expected 0 to " +
                std::to_string(kMost));
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  data_ = std::make_shared<Data>(count > 0 ? count : std::min(cores, kMost));
}

int Threads::count() const { return data_->pool.num_threads(); }

}  // namespace deltaproduct
