// The pickle inside a file of torch.save: a program for a stack machine, which in Python may call
// anything. This machine knows dictionaries, tensors and what they are made of, and nothing else.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "io/safetensors.h"

namespace dp {

/// A tensor as a pickle describes it. Sizes, strides and positions count elements.
struct PickledTensor {
  std::string name;
  DType dtype = DType::kF32;
  std::string storage;           // the record that holds its data, and maybe other tensors'
  int64_t storage_elements = 0;  // of that whole record
  int64_t begin = 0;             // of the tensor in its storage
  int64_t end = 0;               // one past its last element: begin <= end <= storage_elements
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;  // none negative
};

/// The tensors of a pickled dict, OrderedDict or Module.state_dict() from names to tensors or
/// parameters, in its order. Throws InputError, naming the tensor where there is one, for anything
/// else: other classes, other values, repeated names, a tensor that reaches beyond its storage or
/// has more elements than it.
std::vector<PickledTensor> parse_tensor_pickle(std::span<const std::byte> bytes,
                                               const std::string& file);

}  // namespace dp
