// CUDA's half, by Eigen's.
#pragma once

#include <Eigen/Core>

struct __half {
  Eigen::half value;
};
inline float __half2float(__half x) { return static_cast<float>(x.value); }
inline __half __float2half_rn(float x) { return {static_cast<Eigen::half>(x)}; }
