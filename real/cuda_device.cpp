#include "real/cuda_device.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <limits>
#include <mutex>

#include "algorithms/core/transport.hpp"
#include "real/cuda_reduce.hpp"

namespace foreduce {
namespace {

constexpr std::size_t kAlignment = 16;  // of the reduction kernel's loads

std::string cuda_version(int number) {
  return fmt::format("{}.{}", number / 1000, number % 1000 / 10);
}

int count_devices() {
  int devices = 0, driver = 0, runtime = 0;
  cudaError_t status = cudaGetDeviceCount(&devices);
  if (status == cudaSuccess && devices > 0) return devices;
  if (status == cudaSuccess) status = cudaErrorNoDevice;
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  throw TransportError(why_no_cuda_device(status, driver, runtime));
}

std::string name_of_device(int device) {
  cudaDeviceProp properties{};
  return cudaGetDeviceProperties(&properties, device) == cudaSuccess ? properties.name : "unknown";
}

class CudaDevice final : public RankDevice {
 public:
  CudaDevice(int rank, int local_rank, int devices)
      : rank_(rank),
        device_(device_of(local_rank, devices)),
        name_(name_of_device(device_)),
        reachable_(static_cast<std::size_t>(devices)) {
    use();
    check(cudaDeviceGetAttribute(&multiprocessors_, cudaDevAttrMultiProcessorCount, device_),
          "cudaDeviceGetAttribute");
    // Writes over PCIe may still be under way when the NIC reports them. Some devices order them,
    // others let the host flush them.
    const auto attribute = [this](cudaDeviceAttr which) {
      int value = 0;
      if (cudaDeviceGetAttribute(&value, which, device_) != cudaSuccess)
        cudaGetLastError();  // an older driver does not know it
      return value;
    };
    ordered_ =
        attribute(cudaDevAttrGPUDirectRDMAWritesOrdering) >= cudaGPUDirectRDMAWritesOrderingOwner;
    flushes_ = (attribute(cudaDevAttrGPUDirectRDMAFlushWritesOptions) &
                cudaFlushGPUDirectRDMAWritesOptionHost) != 0;
    // Temporary memory comes from the device's pool. Without a threshold the pool would return it
    // to the driver, and wait, each time.
    cudaMemPool_t pool = nullptr;
    check(cudaDeviceGetDefaultMemPool(&pool, device_), "cudaDeviceGetDefaultMemPool");
    std::uint64_t keep = std::numeric_limits<std::uint64_t>::max();
    check(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep),
          "cudaMemPoolSetAttribute");
    for (int peer = 0; peer < devices; ++peer) {
      int possible = peer == device_;
      if (!possible) {
        check(cudaDeviceCanAccessPeer(&possible, device_, peer), "cudaDeviceCanAccessPeer");
        if (possible) {
          const cudaError_t status = cudaDeviceEnablePeerAccess(peer, 0);
          if (status != cudaErrorPeerAccessAlreadyEnabled)
            check(status, "cudaDeviceEnablePeerAccess");
          cudaGetLastError();  // another rank of this device was first; CUDA keeps that as an error
                               // until it is read
        }
      }
      reachable_[static_cast<std::size_t>(peer)] = possible != 0;
    }
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    copied_ = event();
  }

  ~CudaDevice() override {
    cudaSetDevice(device_);
    cudaStreamSynchronize(stream_);
    for (const cudaEvent_t e : running_) cudaEventDestroy(e);
    for (const cudaEvent_t e : spare_) cudaEventDestroy(e);
    cudaEventDestroy(copied_);
    cudaStreamDestroy(stream_);
    for (const Block& block : blocks_) cudaFree(block.base);
    for (const Block& block : pinned_blocks_) cudaFreeHost(block.base);
    unpin();
  }

  int number() const override { return device_; }

  std::shared_ptr<std::byte> allocate(std::size_t bytes) override {
    return block_of(blocks_, bytes, [&](void** base) {
      check(cudaMalloc(base, std::max(bytes, kAlignment)),
            fmt::format("cudaMalloc of {} bytes", bytes).c_str());
    });
  }

  std::shared_ptr<std::byte> allocate_with_reserve(std::size_t bytes) override {
    // Ranks that share a device must not both count the same free memory.
    static std::mutex one_at_a_time;
    const std::lock_guard lock(one_at_a_time);
    use();
    std::size_t free = 0, total = 0;
    check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
    if (free < 2 * bytes)
      throw TransportError(fmt::format("rank {} on device {} ({}): only {} bytes are free", rank_,
                                       device_, name_, free));
    return allocate(bytes);
  }

  std::shared_ptr<std::byte> allocate_pinned(std::size_t bytes) override {
    return block_of(pinned_blocks_, bytes, [&](void** base) {
      check(cudaHostAlloc(base, std::max(bytes, kAlignment), cudaHostAllocPortable),
            fmt::format("cudaHostAlloc of {} bytes", bytes).c_str());
    });
  }

  void pin(std::byte* base, std::size_t bytes) override {
    use();
    const cudaError_t status = cudaHostRegister(base, bytes, cudaHostRegisterPortable);
    if (status == cudaSuccess) pinned_.push_back(base);
    else if (status == cudaErrorHostMemoryAlreadyRegistered || status == cudaErrorNotSupported)
      cudaGetLastError();  // copies still work, but slower
    else check(status, fmt::format("cudaHostRegister of {} bytes", bytes).c_str());
  }

  void unpin() override {
    cudaSetDevice(device_);
    for (std::byte* base : pinned_) cudaHostUnregister(base);
    pinned_.clear();
  }

  bool holds(const std::byte* data) const override {
    for (const Block& b : blocks_)
      if (data >= b.base && data <= b.base + b.bytes)
        return true;  // an empty buffer may start at the end
    return false;
  }

  void copy(std::byte* to, const std::byte* from, std::size_t bytes) override {
    use();
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_), "cudaMemcpyAsync");
    check(cudaEventRecord(copied_, stream_), "cudaEventRecord");
  }

  void clear(std::byte* to, std::size_t bytes) override {
    use();
    check(cudaMemsetAsync(to, 0, bytes, stream_), "cudaMemsetAsync");
    check(cudaEventRecord(copied_, stream_), "cudaEventRecord");
  }

  void wait_for_copies() override { check(cudaEventSynchronize(copied_), "cudaEventSynchronize"); }

  bool copies_done() override {
    const cudaError_t status = cudaEventQuery(copied_);
    if (status != cudaErrorNotReady) check(status, "cudaEventQuery");
    return status == cudaSuccess;
  }

  bool can_sync_network_writes() const override { return ordered_ || flushes_; }

  void sync_network_writes() override {
    if (ordered_) return;
    use();
    check(cudaDeviceFlushGPUDirectRDMAWrites(cudaFlushGPUDirectRDMAWritesTargetCurrentDevice,
                                             cudaFlushGPUDirectRDMAWritesToOwner),
          "cudaDeviceFlushGPUDirectRDMAWrites");
  }

  void drain() override {
    use();
    check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
  }

  // The ledger sends only what finished verbs have written, so a peer needs to wait only for this
  // rank's copies.
  DeviceBytes source(const std::byte* bytes) const override { return {bytes, device_, copied_}; }

  void fetch(std::byte* to, const std::byte* from, std::size_t bytes) override {
    use();
    if (bytes > 0)
      check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream_), "cudaMemcpyAsync");
    started();
  }

  void put(const Buffer& into, std::optional<Op> reduce, const DeviceBytes& from) override {
    use();
    wait_for(from);
    if (!reduce) {
      copy_from(into.data(), from, into.bytes());
    } else if (from.device >= 0 && reachable_[static_cast<std::size_t>(from.device)]) {
      start_reduce(into, *reduce, from.bytes);
    } else {
      std::byte* temporary = temporary_for(into);
      copy_from(temporary, from, into.bytes());
      start_reduce(into, *reduce, temporary);
      free_temporary(temporary);
    }
    started();
  }

  std::byte* set_aside(const Buffer& into, const DeviceBytes& from) override {
    use();
    wait_for(from);
    std::byte* aside = temporary_for(into);
    copy_from(aside, from, into.bytes());
    started();
    return aside;
  }

  void put_aside(const Buffer& into, std::optional<Op> reduce, std::byte* aside) override {
    use();
    if (reduce) start_reduce(into, *reduce, aside);
    else copy_from(into.data(), {aside, device_, nullptr}, into.bytes());
    free_temporary(aside);
    started();
  }

  bool finished() override {
    const cudaError_t status = cudaEventQuery(running_.front());
    if (status == cudaErrorNotReady) return false;
    check(status, "cudaEventQuery");
    spare_.push_back(running_.front());
    running_.pop_front();
    return true;
  }

 private:
  struct Block {
    std::byte* base;
    std::size_t bytes;
    bool used;
  };
  using Blocks = std::deque<Block>;  // a deque, because users keep pointers to blocks

  template <class Allocate>
  std::shared_ptr<std::byte> block_of(Blocks& blocks, std::size_t bytes, Allocate allocate) {
    use();  // also if memory is reused, because registering it needs a current device
    auto block = std::find_if(blocks.begin(), blocks.end(),
                              [&](const Block& b) { return !b.used && b.bytes >= bytes; });
    if (block == blocks.end()) {
      void* base = nullptr;
      allocate(&base);
      blocks.push_back({static_cast<std::byte*>(base), bytes, false});
      block = std::prev(blocks.end());
    }
    block->used = true;
    return {block->base, [b = &*block](std::byte*) { b->used = false; }};
  }

  void check(cudaError_t status, const char* call) const {
    if (status != cudaSuccess)
      throw TransportError(cuda_failure(rank_, device_, name_, call, status));
  }
  /// Makes this the calling thread's device.
  void use() const { check(cudaSetDevice(device_), "cudaSetDevice"); }

  cudaEvent_t event() {
    if (!spare_.empty()) {
      const cudaEvent_t e = spare_.back();
      spare_.pop_back();
      return e;
    }
    cudaEvent_t e = nullptr;
    check(cudaEventCreateWithFlags(&e, cudaEventDisableTiming), "cudaEventCreateWithFlags");
    return e;
  }
  void started() {
    const cudaEvent_t e = event();
    running_.push_back(e);
    check(cudaEventRecord(e, stream_), "cudaEventRecord");
  }
  void wait_for(const DeviceBytes& from) const {
    if (from.ready)
      check(
          cudaStreamWaitEvent(stream_, static_cast<cudaEvent_t>(const_cast<void*>(from.ready)), 0),
          "cudaStreamWaitEvent");
  }
  void copy_from(std::byte* to, const DeviceBytes& from, std::size_t bytes) const {
    if (bytes == 0) return;
    if (from.device == device_ || from.device < 0)
      check(cudaMemcpyAsync(to, from.bytes, bytes,
                            from.device < 0 ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToDevice,
                            stream_),
            "cudaMemcpyAsync");
    else
      check(cudaMemcpyPeerAsync(to, device_, from.bytes, from.device, bytes, stream_),
            "cudaMemcpyPeerAsync");
  }
  void start_reduce(const Buffer& into, Op op, const std::byte* from) const {
    check(reduce_on_device(op, into.type, into.data(), from, into.count, multiprocessors_, stream_),
          "the reduction kernel");
  }
  /// Memory in stream order with the alignment offset of `into`, so that the reduction can take 16
  /// bytes at a time.
  std::byte* temporary_for(const Buffer& into) const {
    void* base = nullptr;
    cudaError_t status = cudaMallocAsync(&base, into.bytes() + kAlignment, stream_);
    if (status == cudaErrorMemoryAllocation) {  // what this stream has yet to free may be enough
      cudaGetLastError();
      check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
      status = cudaMallocAsync(&base, into.bytes() + kAlignment, stream_);
    }
    check(status, fmt::format("cudaMallocAsync of {} bytes", into.bytes()).c_str());
    return static_cast<std::byte*>(base) +
           reinterpret_cast<std::uintptr_t>(into.data()) % kAlignment;
  }
  /// The pool's addresses are multiples of 256.
  void free_temporary(std::byte* temporary) const {
    check(cudaFreeAsync(temporary - reinterpret_cast<std::uintptr_t>(temporary) % kAlignment,
                        stream_),
          "cudaFreeAsync");
  }

  int rank_, device_, multiprocessors_ = 0;
  bool ordered_ = false,
       flushes_ = false;  // writes of a network: ordered by the device, or flushed by the host
  std::string name_;
  std::vector<bool> reachable_;  // by device: whether a kernel of this one may read its memory
  cudaStream_t stream_ = nullptr;
  cudaEvent_t copied_ = nullptr;  // after the last copy or fill
  std::deque<cudaEvent_t> running_;
  std::vector<cudaEvent_t> spare_;
  Blocks blocks_, pinned_blocks_;  // on the device, and in pinned host memory
  std::vector<std::byte*> pinned_;
};

}  // namespace

std::string why_no_cuda_device(int status, int driver, int runtime) {
  if (driver == 0) return "no CUDA device: no NVIDIA driver is installed";
  if (status == cudaErrorInsufficientDriver)
    return fmt::format("no CUDA device: the driver is for CUDA {}, and foreduce was built with {}",
                       cuda_version(driver), cuda_version(runtime));
  return fmt::format("no CUDA device: {} ({})",
                     cudaGetErrorString(static_cast<cudaError_t>(status)),
                     cudaGetErrorName(static_cast<cudaError_t>(status)));
}

std::string cuda_failure(int rank, int device, const std::string& name, const char* call,
                         int status) {
  return fmt::format("rank {} on device {} ({}): {}: {} ({})", rank, device, name, call,
                     cudaGetErrorString(static_cast<cudaError_t>(status)),
                     cudaGetErrorName(static_cast<cudaError_t>(status)));
}

CudaVersions cuda_here() {
  const int devices = count_devices();
  int driver = 0, runtime = 0;
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  CudaVersions versions{cuda_version(runtime), cuda_version(driver), {}};
  for (int d = 0; d < devices; ++d) versions.devices.push_back(name_of_device(d));
  return versions;
}

std::unique_ptr<RankDevice> open_cuda(int rank, int local_rank) {
  return std::make_unique<CudaDevice>(rank, local_rank, count_devices());
}

}  // namespace foreduce
