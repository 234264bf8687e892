#include "models/precision.hpp"

namespace foreduce {

Precision kept_type(Precision precision) {
  return precision == Precision::tf32  ? Precision::fp32
         : precision == Precision::fp8 ? Precision::bf16
                                       : precision;
}

Type element_type(Precision precision) {
  const Precision kept = kept_type(precision);
  return kept == Precision::fp16 ? Type::f16 : kept == Precision::bf16 ? Type::bf16 : Type::f32;
}

}  // namespace foreduce
