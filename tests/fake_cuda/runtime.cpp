// CUDA's runtime without a GPU, so that what foreduce does with streams, events and memory is
// tested on any machine: a stream is a thread that does what it was given in order and late, a
// device its number on some ordinary memory. What CUDA forbids is refused with CUDA's own errors,
// and memory is full of nonsense before it is written and after it was given back.
//
// Three devices, of which 0 and 1 reach each other's memory and 2 nobody's.
// FOREDUCE_FAKE_CUDA_DEVICES says another number. After FOREDUCE_FAKE_CUDA_LAUNCHES kernels one
// reads where it may not: from then on everything on its device fails, as with CUDA.
// FOREDUCE_FAKE_CUDA_MEMORY is what all devices have together, in bytes.
#include <cuda_runtime_api.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "tests/fake_cuda/stream.hpp"

namespace {

using namespace std::chrono_literals;

/// One for everything: simple, and fast enough for tests.
std::mutex mutex;
std::condition_variable something;

struct Memory {
  std::size_t bytes;
  int device;  // -1: pinned memory of the process
  bool registered = false;
};
std::map<std::byte*, Memory> memory;  // by where it begins
std::map<std::pair<int, int>, bool> peers;
thread_local int current = 0;
thread_local cudaError_t last = cudaSuccess;

std::atomic<bool> broken[64];  // by device

/// CUDA remembers what went wrong until it is asked, and an illegal access for ever.
cudaError_t say(cudaError_t status) {
  if (broken[current]) status = cudaErrorIllegalAddress;
  if (status != cudaSuccess && status != cudaErrorNotReady) last = status;
  return status;
}

int devices() {
  const char* text = std::getenv("FOREDUCE_FAKE_CUDA_DEVICES");
  return text ? std::atoi(text) : 3;
}
bool one_too_many() {
  static std::atomic<long> launched{0};
  static const char* text = std::getenv("FOREDUCE_FAKE_CUDA_LAUNCHES");
  return text && ++launched > std::atol(text);
}
bool reach_each_other(int a, int b) { return a < 2 && b < 2; }

constexpr int kOverrun = -3;

/// Device of that memory; -1: pinned, -2: the process's own; kOverrun: it begins in known memory
/// and ends outside. Under the lock.
int place_of(const void* address, std::size_t bytes) {
  auto* at = static_cast<std::byte*>(const_cast<void*>(address));
  const auto after = memory.upper_bound(at);
  if (after == memory.begin()) return -2;
  const auto& [base, known] = *std::prev(after);
  if (at >= base + known.bytes) return -2;
  return at + bytes <= base + known.bytes ? known.device : kOverrun;
}

/// Bytes of all devices together.
std::size_t capacity() {
  const char* text = std::getenv("FOREDUCE_FAKE_CUDA_MEMORY");
  return text ? std::strtoull(text, nullptr, 10) : std::size_t{1} << 40;
}
/// Bytes that all devices together have left.
std::size_t free_bytes() {
  const std::lock_guard lock(mutex);
  std::size_t taken = 0;
  for (const auto& [base, known] : memory) taken += known.device >= 0 ? known.bytes : 0;
  return taken < capacity() ? capacity() - taken : 0;
}
/// Null where the devices are full.
void* take(std::size_t bytes, int device) {
  if (device >= 0 && bytes > free_bytes()) return nullptr;
  auto* base = static_cast<std::byte*>(std::aligned_alloc(256, (bytes + 255) / 256 * 256));
  std::memset(base, 0xA5, bytes);
  const std::lock_guard lock(mutex);
  memory[base] = {bytes, device};
  return base;
}
cudaError_t give_back(void* address, bool on_device) {
  if (!address) return cudaSuccess;
  const std::lock_guard lock(mutex);
  const auto found = memory.find(static_cast<std::byte*>(address));
  if (found == memory.end() || found->second.registered || (found->second.device >= 0) != on_device)
    return cudaErrorInvalidValue;
  std::memset(address, 0x5A, found->second.bytes);
  memory.erase(found);
  std::free(address);
  return cudaSuccess;
}

}  // namespace

struct StandInEvent {
  int device = current;
  std::uint64_t recorded = 0, reached = 0;
};

struct StandInStream {
  int device = current;
  std::deque<std::function<void()>> todo;
  std::size_t undone = 0;
  bool ended = false;
  unsigned seed = 1;
  std::thread thread{[this] { work(); }};

  void add(std::function<void()> work) {
    const std::lock_guard lock(mutex);
    todo.push_back(std::move(work));
    ++undone;
    something.notify_all();
  }
  void work() {
    std::unique_lock lock(mutex);
    while (true) {
      something.wait(lock, [this] { return ended || !todo.empty(); });
      if (todo.empty()) return;
      const auto next = std::move(todo.front());
      todo.pop_front();
      lock.unlock();
      seed = seed * 1103515245 + 12345;
      if (seed >> 16 & 7) std::this_thread::yield();
      else std::this_thread::sleep_for(50us);  // late now and then
      next();
      lock.lock();
      --undone;
      something.notify_all();
    }
  }
};

void foreduce::test::on_stream(cudaStream_t stream, std::function<void()> work) {
  stream->add(std::move(work));
}

extern "C" {

const char* cudaGetErrorName(cudaError_t status) {
  switch (status) {
    case cudaSuccess: return "cudaSuccess";
    case cudaErrorInvalidValue: return "cudaErrorInvalidValue";
    case cudaErrorInsufficientDriver: return "cudaErrorInsufficientDriver";
    case cudaErrorMemoryAllocation: return "cudaErrorMemoryAllocation";
    case cudaErrorNoDevice: return "cudaErrorNoDevice";
    case cudaErrorIllegalAddress: return "cudaErrorIllegalAddress";
    default: return "(an error of the stand-in)";
  }
}
const char* cudaGetErrorString(cudaError_t status) {
  switch (status) {
    case cudaErrorInvalidValue: return "invalid argument";
    case cudaErrorNoDevice: return "no CUDA-capable device is detected";
    case cudaErrorIllegalAddress: return "an illegal memory access was encountered";
    default: return cudaGetErrorName(status);
  }
}
cudaError_t cudaGetLastError() { return std::exchange(last, cudaSuccess); }
cudaError_t cudaDriverGetVersion(int* version) { return *version = 13000, cudaSuccess; }
cudaError_t cudaRuntimeGetVersion(int* version) { return *version = 13000, cudaSuccess; }
cudaError_t cudaGetDeviceCount(int* count) {
  return *count = devices(), *count > 0 ? cudaSuccess : say(cudaErrorNoDevice);
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (device < 0 || device >= devices()) return say(cudaErrorInvalidDevice);
  std::strcpy(properties->name, "a stand-in for a GPU");
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  if (device < 0 || device >= devices()) return say(cudaErrorInvalidDevice);
  switch (attribute) {
    case cudaDevAttrMultiProcessorCount: *value = 4; break;
    case cudaDevAttrGPUDirectRDMAFlushWritesOptions:
      *value = cudaFlushGPUDirectRDMAWritesOptionHost;
      break;
    case cudaDevAttrGPUDirectRDMAWritesOrdering:
      *value = cudaGPUDirectRDMAWritesOrderingNone;
      break;
  }
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= devices()) return say(cudaErrorInvalidDevice);
  current = device;
  return cudaSuccess;
}
cudaError_t cudaDeviceCanAccessPeer(int* possible, int device, int peer) {
  return *possible = device != peer && reach_each_other(device, peer), cudaSuccess;
}
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned) {
  if (!reach_each_other(current, peer) || peer == current) return say(cudaErrorInvalidDevice);
  const std::lock_guard lock(mutex);
  return say(std::exchange(peers[{current, peer}], true) ? cudaErrorPeerAccessAlreadyEnabled
                                                         : cudaSuccess);
}
cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int) {
  return *pool = nullptr, cudaSuccess;
}
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void*) { return cudaSuccess; }
cudaError_t cudaDeviceFlushGPUDirectRDMAWrites(cudaFlushGPUDirectRDMAWritesTarget,
                                               cudaFlushGPUDirectRDMAWritesScope) {
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** base, std::size_t bytes) {
  return say((*base = take(bytes, current)) ? cudaSuccess : cudaErrorMemoryAllocation);
}
cudaError_t cudaFree(void* base) { return say(give_back(base, true)); }
cudaError_t cudaHostAlloc(void** base, std::size_t bytes, unsigned) {
  return *base = take(bytes, -1), cudaSuccess;
}
cudaError_t cudaFreeHost(void* base) { return say(give_back(base, false)); }
cudaError_t cudaHostRegister(void* base, std::size_t bytes, unsigned) {
  const std::lock_guard lock(mutex);
  auto* begin = static_cast<std::byte*>(base);
  const auto after = memory.lower_bound(begin);
  if (place_of(base, 1) != -2 || (after != memory.end() && after->first < begin + bytes))
    return say(cudaErrorHostMemoryAlreadyRegistered);
  memory[begin] = {bytes, -1, true};
  return cudaSuccess;
}
cudaError_t cudaHostUnregister(void* base) {
  const std::lock_guard lock(mutex);
  const auto found = memory.find(static_cast<std::byte*>(base));
  if (found == memory.end() || !found->second.registered)
    return say(cudaErrorHostMemoryNotRegistered);
  // CUDA looks at the pages: they must still be there.
  static_cast<volatile std::byte*>(found->first)[0];
  static_cast<volatile std::byte*>(found->first)[found->second.bytes - 1];
  memory.erase(found);
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  return *free = free_bytes(), *total = capacity(), say(cudaSuccess);
}
cudaError_t cudaMallocAsync(void** base, std::size_t bytes, cudaStream_t stream) {
  return say((*base = take(bytes, stream->device)) ? cudaSuccess : cudaErrorMemoryAllocation);
}
cudaError_t cudaFreeAsync(void* base, cudaStream_t stream) {
  {
    const std::lock_guard lock(mutex);
    if (!memory.contains(static_cast<std::byte*>(base))) return say(cudaErrorInvalidValue);
  }
  stream->add([base] { give_back(base, true); });
  return say(cudaSuccess);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  return *stream = new StandInStream, cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  {
    const std::lock_guard lock(mutex);
    stream->ended = true;
    something.notify_all();
  }
  stream->thread.join();
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  std::unique_lock lock(mutex);
  something.wait(lock, [stream] { return stream->undone == 0; });
  return say(cudaSuccess);
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  const std::lock_guard lock(mutex);
  return say(stream->undone == 0 ? cudaSuccess : cudaErrorNotReady);
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  std::unique_lock lock(mutex);
  const std::uint64_t moment = event->recorded;  // of the last record before this call
  lock.unlock();
  stream->add([event, moment] {
    std::unique_lock until(mutex);
    something.wait(until, [&] { return event->reached >= moment; });
  });
  return say(cudaSuccess);
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  return *event = new StandInEvent, cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) { return delete event, cudaSuccess; }
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  if (event->device != stream->device) return say(cudaErrorInvalidResourceHandle);
  std::unique_lock lock(mutex);
  const std::uint64_t moment = ++event->recorded;
  lock.unlock();
  stream->add([event, moment] {
    const std::lock_guard until(mutex);
    event->reached = moment;
  });
  return say(cudaSuccess);
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  const std::lock_guard lock(mutex);
  return say(event->reached == event->recorded ? cudaSuccess : cudaErrorNotReady);
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  std::unique_lock lock(mutex);
  something.wait(lock, [event] { return event->reached == event->recorded; });
  return say(cudaSuccess);
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  int there, here;
  {
    const std::lock_guard lock(mutex);
    there = place_of(to, bytes);
    here = place_of(from, bytes);
  }
  const bool to_device = there >= 0, from_device = here >= 0;
  const bool fits =
      kind == cudaMemcpyDefault ||
      (to_device == (kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice) &&
       from_device == (kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice));
  if (!fits || here == kOverrun || there == kOverrun) return say(cudaErrorInvalidValue);
  stream->add([=] { std::memcpy(to, from, bytes); });
  return here == -2 || there == -2 ? cudaStreamSynchronize(stream)
                                   : say(cudaSuccess);  // memory that is not pinned blocks
}
cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device,
                                std::size_t bytes, cudaStream_t stream) {
  {
    const std::lock_guard lock(mutex);
    if (place_of(to, bytes) != to_device || place_of(from, bytes) != from_device)
      return say(cudaErrorInvalidValue);
  }
  stream->add([=] { std::memcpy(to, from, bytes); });
  return say(cudaSuccess);
}
cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  {
    const std::lock_guard lock(mutex);
    if (place_of(to, bytes) != stream->device) return say(cudaErrorInvalidValue);
  }
  stream->add([=] { std::memset(to, value, bytes); });
  return say(cudaSuccess);
}

/// For the one kernel there is: (into, from, head, packs, count). Both must be memory that the
/// stream's device reaches.
cudaError_t cudaLaunchKernel(const void* kernel, dim3 grid, dim3 block, void** arguments,
                             std::size_t, cudaStream_t stream) {
  auto* into = *static_cast<std::byte**>(arguments[0]);
  auto* from = *static_cast<const std::byte**>(arguments[1]);
  const auto head = *static_cast<std::size_t*>(arguments[2]),
             packs = *static_cast<std::size_t*>(arguments[3]),
             count = *static_cast<std::size_t*>(arguments[4]);
  {
    const std::lock_guard lock(mutex);
    const int mine = place_of(into, count), theirs = place_of(from, count);
    const auto found = peers.find({stream->device, theirs});
    const bool reached = theirs == stream->device || (found != peers.end() && found->second);
    if (mine != stream->device || !reached) return say(cudaErrorIllegalAddress);
  }
  if (stream->device != current) return say(cudaErrorInvalidResourceHandle);
  if (grid.x == 0 || block.x == 0 || block.x > 1024) return say(cudaErrorInvalidValue);
  using Kernel = void (*)(std::byte*, const std::byte*, std::size_t, std::size_t, std::size_t);
  auto* run = reinterpret_cast<Kernel>(const_cast<void*>(kernel));
  if (one_too_many()) broken[stream->device] = true;
  stream->add([=] {
    gridDim = grid;
    for (blockIdx.x = 0; blockIdx.x < grid.x; ++blockIdx.x)
      for (threadIdx.x = 0; threadIdx.x < block.x; ++threadIdx.x)
        run(into, from, head, packs, count);
  });
  return say(cudaSuccess);
}
}
