// A model's loss on a batch, packed or not.
#pragma once
#include "nn/language_model.h"
#include "tasks/task.h"

namespace dp {

/// The mean over what is asked; predicted [B T].
LinearCrossEntropyOutput batch_loss(const LanguageModel& model, const Batch& batch,
                                 double label_smoothing = 0, bool recompute = false);

}  // namespace dp
