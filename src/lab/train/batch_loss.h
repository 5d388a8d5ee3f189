// A model's loss on a batch, packed or not.
#pragma once
#include "nn/language_model.h"
#include "tasks/task.h"

namespace dp {

/// The mean over all answers that the batch asks for; predicted is [B T].
LinearCrossEntropyOutput batch_loss(const LanguageModel& model, const Batch& batch,
                                 double label_smoothing = 0, bool recompute = false);

}  // namespace dp
