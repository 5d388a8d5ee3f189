// Two reflections in mirrors 45 degrees apart turn a vector by 90 degrees.
#include <deltaproduct/recurrence.h>

#include <cmath>
#include <cstdio>

int main() {
  const float half = std::sqrt(0.5f);
  const float q[] = {0, 1}, k[] = {1, 0, half, half}, v[] = {0, 0}, beta[] = {2, 2};
  float state[] = {1, 0}, o[1];
  deltaproduct::Recurrence recurrence;
  recurrence.N = 2, recurrence.K = 2;
  recurrence.q = q, recurrence.k = k, recurrence.v = v, recurrence.beta = beta;
  recurrence.o = o, recurrence.state = state;
  deltaproduct::run(recurrence);
  std::printf("(1, 0) became (%.3f, %.3f)\n", state[0], state[1]);
  return std::abs(state[0]) < 1e-6f && std::abs(state[1] - 1) < 1e-6f && std::abs(o[0] - 1) < 1e-6f ? 0 : 1;
}
