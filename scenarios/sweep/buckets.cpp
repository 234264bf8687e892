#include "scenarios/sweep/buckets.hpp"

#include "models/workload.hpp"

namespace foreduce {

std::vector<Bucket> buckets_of(const AllReduceSpec& spec, const Workload& workload,
                               std::size_t element, Bytes cap, Seconds backward) {
  std::vector<Tensor> tensors = workload.tensors;
  for (Tensor& t : tensors) t.elements = trained_elements(t.elements, workload.trainable);
  const TrainingConstants& constants = training_constants();
  std::vector<Bucket> buckets =
      spec.bucketing == Bucketing::ddp
          ? ddp_buckets(tensors, element, spec.first_bucket.value_or(constants.first_bucket), cap)
      : spec.bucketing == Bucketing::smddp
          ? balanced_buckets(tensors, element, cap)
          : horovod_buckets(tensors, element, cap, spec.cycle.value_or(constants.fusion_cycle),
                            backward);
  if (spec.overlap == GradientSums::after_backward)
    for (Bucket& bucket : buckets) bucket.ready = 1;
  return buckets;
}

}  // namespace foreduce
