// Siems et al., DeltaProduct (arXiv 2502.10297), the table of the appendix on the Chomsky hierarchy. Its rows on
// Transformer, xLSTM, Mamba and DeltaNet are those of Grazzi et al. (ICLR 2025).
#include "report/paper_table.h"

namespace dp::report {
namespace {

constexpr PaperRow kPaperRows[] = {{"Transformer", {0.022, 0.031, 0.067}},
                                   {"mLSTM", {0.087, 0.040, 0.114}},
                                   {"sLSTM", {1.000, 0.787, 0.178}},
                                   {"Mamba [0,1]", {0.000, 0.095, 0.123}},
                                   {"Mamba [-1,1]", {1.000, 0.241, 0.116}},
                                   {"DeltaNet [0,1]", {0.233, 0.302, 0.253}},
                                   {"DeltaProduct_2 [0,1]", {0.264, 0.402, 0.249}},
                                   {"DeltaProduct_3 [0,1]", {0.285, 0.402, 0.288}},
                                   {"DeltaProduct_4 [0,1]", {0.295, 0.369, 0.288}},
                                   {"DeltaNet [-1,1]", {0.982, 0.915, 0.281}},
                                   {"DeltaProduct_2 [-1,1]", {0.896, 0.887, 0.329}},
                                   {"DeltaProduct_3 [-1,1]", {0.932, 0.736, 0.330}},
                                   {"DeltaProduct_4 [-1,1]", {0.982, 0.893, 0.342}}};

}  // namespace

std::span<const PaperRow> paper_rows() { return kPaperRows; }

}  // namespace dp::report
