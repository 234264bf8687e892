// CUDA's bfloat16, by Eigen's.
#pragma once

#include <Eigen/Core>

struct __nv_bfloat16 {
  Eigen::bfloat16 value;
};
inline float __bfloat162float(__nv_bfloat16 x) { return static_cast<float>(x.value); }
inline __nv_bfloat16 __float2bfloat16_rn(float x) { return {static_cast<Eigen::bfloat16>(x)}; }
