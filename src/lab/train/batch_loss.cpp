#include "train/batch_loss.h"

namespace dp {

LinearCrossEntropyOutput batch_loss(const LanguageModel& model, const Batch& batch,
                                 double label_smoothing, bool recompute) {
  ForwardOptions options;
  options.recompute = recompute;
  options.cu_seqlens = batch.cu_seqlens;
  const auto row = [&](const at::Tensor& x) { return batch.cu_seqlens ? x.reshape({1, -1}) : x; };
  return model.loss(model.features(row(batch.tokens), options), row(batch.targets),
                    label_smoothing);
}

}  // namespace dp
